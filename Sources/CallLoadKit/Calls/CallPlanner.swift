import CallCore

/// Draws caller, callee and part of each call from the seed.
final class CallPlanner {
  let options: LoadOptions
  let roster: Roster
  private let nonce: UInt64
  /// Users who send calls on: in the scenario's part for that alone.
  var forwarding: Forwarding?
  /// In the scenario's part for that alone.
  var groups: Groups?
  private var stage: UInt64 = 0
  private var recentPairs = PairLimiter()
  private var liveCalls: [Int32]
  /// Live calls of one user to another; of two that are to cross, in both directions.
  private(set) var livePairs: [UInt64: Int] = [:]
  /// Users that take no other call, since their device drops its connection.
  private var isReserved: [Bool]
  /// Users who take no second call, and from when on none of them counts as in an earlier one.
  let strictUsers: [Int]
  private(set) var strictFreeAt: [Int: Timestamp] = [:]

  /// Live calls of one user at most, below the cluster's limit of 5 for a device.
  private static let liveCallsMax = 4
  private static let drawsMax = 40

  init(options: LoadOptions, roster: Roster, nonce: UInt64) {
    self.options = options
    self.roster = roster
    self.nonce = nonce
    self.liveCalls = Array(repeating: 0, count: roster.users)
    self.isReserved = Array(repeating: false, count: roster.users)
    strictUsers = roster.strictUsers
  }

  func begin(stage: UInt64) { self.stage = stage }

  /// Draws a part, and two users that are free for it; another part where no users are.
  /// - Parameter mayPair: whether a call may be drawn that another one belongs to.
  /// - Returns: nil where no users are free for any part.
  func draw(
    number: Int, intended: Timestamp, now: Timestamp, mayPair: Bool, _ devices: [LoadDevice]
  ) -> CallPlan? {
    var random = SplitMix64(
      seed: options.ownSeed &* 0x1_0000_01B3 &+ stage << 40 &+ UInt64(number))
    // Under faults users also call users with disconnected devices.
    for toMissing in options.isDisturbed ? [false, true] : [false] {
      for _ in 0..<8 {
        let part = options.scenario.parts.drawn(by: \.weight, &random)
        let isStrict =
          part.kind.hasSecondCall && !strictUsers.isEmpty && Bool.random(using: &random)
        for _ in 0..<Self.drawsMax {
          let caller = drawCaller(isStrict: isStrict, &random)
          guard groups?.members.contains(roster.user(of: caller)) != true,
            roster.isStrict(roster.user(of: caller)) == isStrict,
            let (callees, route) = drawCallees(
              part, caller: caller, isStrict: isStrict, at: now, &random),
            part.kind != .crossing && !part.kind.hasSecondCall || mayPair,
            isFit(
              part, caller: devices[caller], devices[callees], isDirect: route.isDirect, toMissing),
            part.kind != .crossing && part.kind != .secondCall
              || devices[roster.devices(of: roster.user(of: caller))].allSatisfy(\.isThere),
            let third = drawThird(part, caller: caller, callees, devices, at: now, &random),
            reserve(part, roster.user(of: caller), callees, route, third: third.user, at: now)
          else { continue }
          let seed = random.next()
          let hook = drawHook(part, route, caller: caller, callees, &random)
          return CallPlan(
            part, call: CallID(high: nonce ^ seed, low: random.next() ^ nonce.byteSwapped),
            caller: caller, callees: callees, placeAt: intended, seed: seed,
            route: route, third: third.user.map { ($0, roster.devices(of: $0)) },
            callers: roster.devices(of: roster.user(of: caller)), isStrict: isStrict, hook: hook)
        }
      }
    }
    return nil
  }

  private func isFit(
    _ part: Scenario.Part, caller: LoadDevice, _ callees: ArraySlice<LoadDevice>, isDirect: Bool,
    _ toMissing: Bool
  ) -> Bool {
    guard caller.isAttached, !caller.sleeps else { return false }
    if !isDirect { return callees.allSatisfy(\.isThere) }
    // A device that drops its connection must have one.
    if part.kind == .calleeReturns, callees.contains(where: \.sleeps) { return false }
    // A user who calls back must be there.
    if [.crossing, .secondCall, .consulted].contains(part.kind) {
      return callees.allSatisfy(\.isThere)
    }
    return toMissing || callees.allSatisfy(\.isCallable)
  }

  /// Reserves two users for a call, if they are free for it; of a group, all members.
  private func reserve(
    _ part: Scenario.Part, _ caller: Int, _ callees: Range<Int>, _ route: CallRoute,
    third: Int?, at now: Timestamp
  ) -> Bool {
    let callee = roster.user(of: callees.lowerBound)
    let isCrossing = part.kind == .crossing
    let isStrict = roster.isStrict(caller)
    let calls = isCrossing || part.kind.hasSecondCall ? 2 : 1
    // Calls in both directions cross, unless one of them is answered.
    guard caller != callee, livePairs[Self.pair(callee, caller)] == nil,
      forwarder(route).map({ livePairs[Self.pair($0, caller)] == nil }) ?? true,
      !isCrossing || livePairs[Self.pair(caller, callee)] == nil,
      isFree(caller, alone: part.kind == .callerReturns || isStrict, calls: calls),
      isFree(callee, alone: part.kind == .calleeReturns || isStrict, calls: calls),
      recentPairs.reserve(caller, callee, at: now),
      reservePair(caller, route, at: now),
      !isCrossing || recentPairs.reserve(callee, caller, at: now),
      third.map({ reservePairs(part, $0, sides: [caller, callee], at: now) }) ?? true
    else { return false }
    if part.kind == .callerReturns { isReserved[caller] = true }
    if part.kind == .calleeReturns { isReserved[callee] = true }
    count(caller, callee, 1)
    if part.kind.hasSecondCall { count(caller, callee, 1) }
    if let forwarder = forwarder(route) { countPair(caller, forwarder, 1) }
    if isCrossing { count(callee, caller, 1) }
    if let third {
      countThird(third, sides: [caller, callee], part.kind.hasSecondCall ? 2 : 1)
    }
    if let terms = route.group { groups?.reserve(terms) }
    return true
  }

  /// A transfer counts as a call of the user who transfers, and whoever asks before has called as well.
  private func reservePairs(
    _ part: Scenario.Part, _ third: Int, sides: [Int], at now: Timestamp
  ) -> Bool {
    sides.allSatisfy { side in
      switch part.kind {
      case .secondCall: recentPairs.reserve(third, side, at: now)
      case .consulted:
        recentPairs.reserve(side, third, at: now) && recentPairs.reserve(side, third, at: now)
      default: recentPairs.reserve(side, third, at: now)
      }
    }
  }

  /// A call that is sent on counts as one to each user to whom it goes.
  private func reservePair(_ caller: Int, _ route: CallRoute, at now: Timestamp) -> Bool {
    switch route {
    case .direct: true
    case .forwarded(let user): recentPairs.reserve(caller, user, at: now)
    // The first device is that of the first member, who is counted already.
    case .group(let terms):
      terms.members.sorted().dropFirst().allSatisfy { recentPairs.reserve(caller, $0, at: now) }
    }
  }

  private func count(_ caller: Int, _ callee: Int, _ change: Int) {
    liveCalls[caller] += Int32(change)
    liveCalls[callee] += Int32(change)
    countPair(caller, callee, change)
  }

  /// The user who is called, whoever's devices ring: a call of that user to the caller would cross this one.
  private func forwarder(_ route: CallRoute) -> Int? {
    if case .forwarded(let user) = route { user } else { nil }
  }

  private func countPair(_ caller: Int, _ callee: Int, _ change: Int) {
    let pair = Self.pair(caller, callee)
    let count = livePairs[pair, default: 0] + change
    livePairs[pair] = count > 0 ? count : nil
  }

  /// None of the three calls another one meanwhile, so that no call crosses the transfer.
  private func countThird(_ user: Int, sides: [Int], _ change: Int) {
    liveCalls[user] += Int32(change)
    for side in sides {
      countPair(side, user, change)
      countPair(user, side, change)
    }
  }

  static func pair(_ caller: Int, _ callee: Int) -> UInt64 {
    UInt64(caller) << 32 | UInt64(callee)
  }

  func isFree(_ user: Int, alone: Bool, calls: Int) -> Bool {
    guard !isReserved[user] else { return false }
    return alone ? liveCalls[user] == 0 : Int(liveCalls[user]) + calls <= Self.liveCallsMax
  }

  /// A user counts as in a call for a moment after its end, until the caller's edge has reported that. One who took a side
  /// of another user's call does for 15 s, and whose device lost its session for longer.
  private func restAfter(_ plan: CallPlan) -> Span {
    .seconds(options.isDisturbed ? 30 : plan.kind == .consulted ? 16 : 2)
  }

  /// The call of a plan is over, and so is the second one, where there is one.
  /// - Parameters:
  ///   - winner: the device that answered, as the caller knows.
  ///   - isSettled: whether all devices were notified of the end.
  func release(_ plan: CallPlan, winner: Int?, isSettled: Bool, at now: Timestamp) {
    if let terms = plan.route.group {
      groups?.release(
        terms, answeredBy: winner.map(roster.user), isSettled: isSettled, at: now)
    }
    let caller = roster.user(of: plan.caller)
    let callee = roster.user(of: plan.callees.lowerBound)
    count(caller, callee, -1)
    if let forwarder = forwarder(plan.route) { countPair(caller, forwarder, -1) }
    let third = plan.transfer?.terms.user ?? plan.second?.caller.map(roster.user)
    if plan.second != nil { count(caller, callee, -1) }
    if let third { countThird(third, sides: [caller, callee], plan.second == nil ? -1 : -2) }
    if plan.isStrict {
      for user in [caller, callee, third].compactMap(\.self) {
        strictFreeAt[user] = now + restAfter(plan)
      }
    }
    if plan.dropsConnection { isReserved[plan.kind == .callerReturns ? caller : callee] = false }
  }
}

extension Array {
  /// Draws one of the elements, by their weights.
  func drawn(by weight: (Element) -> Double, _ random: inout SplitMix64) -> Element {
    var left = Double.random(in: 0..<reduce(0) { $0 + weight($1) }, using: &random)
    for element in self {
      if left < weight(element) { return element }
      left -= weight(element)
    }
    return self[count - 1]
  }
}
