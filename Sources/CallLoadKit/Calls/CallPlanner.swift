import CallCore

/// Draws caller, callee and part of each call from the seed.
final class CallPlanner {
  private let options: LoadOptions
  private let roster: Roster
  private let nonce: UInt64
  /// Users who send calls on: in the scenario's part for that alone.
  var forwarding: Forwarding?
  private var stage: UInt64 = 0
  private var recentPairs = PairLimiter()
  private var liveCalls: [Int32]
  /// Live calls of one user to another; of two that are to cross, in both directions.
  private var livePairs: [UInt64: Int] = [:]
  /// Users that take no other call, since their device drops its connection.
  private var isReserved: [Bool]

  /// Live calls of one user at most, below the cluster's limit of 5 for a device.
  private static let liveCallsMax = 4
  private static let drawsMax = 40

  init(options: LoadOptions, roster: Roster, nonce: UInt64) {
    self.options = options
    self.roster = roster
    self.nonce = nonce
    self.liveCalls = Array(repeating: 0, count: roster.users)
    self.isReserved = Array(repeating: false, count: roster.users)
  }

  func begin(stage: UInt64) { self.stage = stage }

  /// Draws a part, and two users that are free for it; another part where no users are.
  /// - Parameter mayCross: whether a call may be drawn that another one is to cross.
  /// - Returns: nil where no users are free for any part.
  func draw(
    number: Int, intended: Timestamp, now: Timestamp, mayCross: Bool, _ devices: [LoadDevice]
  ) -> CallPlan? {
    var random = SplitMix64(
      seed: options.ownSeed &* 0x1_0000_01B3 &+ stage << 40 &+ UInt64(number))
    // Under faults users also call users with disconnected devices.
    for toMissing in options.isDisturbed ? [false, true] : [false] {
      for _ in 0..<8 {
        let part = options.scenario.parts.drawn(by: \.weight, &random)
        for _ in 0..<Self.drawsMax {
          let caller = Int.random(in: 0..<roster.devices, using: &random)
          guard let (callee, forwarder) = drawCallee(part, caller: caller, &random),
            part.kind != .crossing || mayCross,
            isFit(part, caller: devices[caller], devices[roster.devices(of: callee)], toMissing),
            part.kind != .crossing
              || devices[roster.devices(of: roster.user(of: caller))].allSatisfy(\.isThere),
            take(part, roster.user(of: caller), callee, forwarder, at: now)
          else { continue }
          let seed = random.next()
          return CallPlan(
            part, call: CallID(high: nonce ^ seed, low: random.next() ^ nonce.byteSwapped),
            caller: caller, callees: roster.devices(of: callee), placeAt: intended, seed: seed,
            forwarder: forwarder)
        }
      }
    }
    return nil
  }

  /// The user whose devices are to ring, and the one who sends the call there.
  private func drawCallee(
    _ part: Scenario.Part, caller: Int, _ random: inout SplitMix64
  ) -> (callee: Int, forwarder: Int?)? {
    if part.kind == .forwarded {
      guard let forwarder = forwarding?.ready.randomElement(using: &random),
        forwarder != roster.user(of: caller)
      else { return nil }
      return (Forwarding.target(of: forwarder), forwarder)
    }
    let callee = Int.random(in: 0..<roster.users, using: &random)
    guard let forwarders = forwarding?.users, !forwarders.isEmpty else { return (callee, nil) }
    // Who places the call of a pair that crosses is called as well.
    let calledBack = part.kind == .crossing ? roster.user(of: caller) : callee
    return forwarders.isDisjoint(with: [callee, calledBack]) ? (callee, nil) : nil
  }

  private func isFit(
    _ part: Scenario.Part, caller: LoadDevice, _ callees: ArraySlice<LoadDevice>, _ toMissing: Bool
  ) -> Bool {
    guard caller.isAttached, !caller.sleeps else { return false }
    // A device that drops its connection must have one.
    if part.kind == .calleeReturns, callees.contains(where: \.sleeps) { return false }
    // Whoever calls back must be there.
    if part.kind == .crossing || part.kind == .forwarded {
      return callees.allSatisfy(\.isThere)
    }
    return toMissing || callees.allSatisfy(\.isCallable)
  }

  /// Reserves two users for a call, if they are free for it.
  private func take(
    _ part: Scenario.Part, _ caller: Int, _ callee: Int, _ forwarder: Int?, at now: Timestamp
  ) -> Bool {
    let isCrossing = part.kind == .crossing
    // Calls in both directions cross, unless one of them is answered.
    guard caller != callee, livePairs[Self.pair(callee, caller)] == nil,
      !isCrossing || livePairs[Self.pair(caller, callee)] == nil,
      isFree(caller, alone: part.kind == .callerReturns, calls: isCrossing ? 2 : 1),
      isFree(callee, alone: part.kind == .calleeReturns, calls: isCrossing ? 2 : 1),
      recentPairs.take(caller, callee, at: now),
      forwarder.map({ recentPairs.take(caller, $0, at: now) }) ?? true,
      !isCrossing || recentPairs.take(callee, caller, at: now)
    else { return false }
    if part.kind == .callerReturns { isReserved[caller] = true }
    if part.kind == .calleeReturns { isReserved[callee] = true }
    count(caller, callee, 1)
    if isCrossing { count(callee, caller, 1) }
    return true
  }

  private func count(_ caller: Int, _ callee: Int, _ change: Int) {
    liveCalls[caller] += Int32(change)
    liveCalls[callee] += Int32(change)
    let pair = Self.pair(caller, callee)
    let count = livePairs[pair, default: 0] + change
    livePairs[pair] = count > 0 ? count : nil
  }

  private static func pair(_ caller: Int, _ callee: Int) -> UInt64 {
    UInt64(caller) << 32 | UInt64(callee)
  }

  private func isFree(_ user: Int, alone: Bool, calls: Int) -> Bool {
    !isReserved[user] && Int(liveCalls[user]) + calls <= (alone ? 1 : Self.liveCallsMax)
  }

  func release(_ plan: CallPlan) {
    let caller = roster.user(of: plan.caller)
    let callee = roster.user(of: plan.callees.lowerBound)
    count(caller, callee, -1)
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

/// Keeps calls of one user to another below the cluster's limit of 10 a minute.
private struct PairLimiter {
  private struct Window {
    var begins: Timestamp
    var count: Int
  }
  private var windows: [UInt64: Window] = [:]
  private var sweepAt = Timestamp.zero

  private static let span: Span = .seconds(61)
  /// Half of the limit, since two windows may touch within a minute.
  private static let most = 5

  /// Whether one more call fits, counted if so.
  mutating func take(_ caller: Int, _ callee: Int, at now: Timestamp) -> Bool {
    if sweepAt < now {
      sweepAt = now + Self.span
      windows = windows.filter { now < $0.value.begins + Self.span }
    }
    let key = UInt64(caller) << 32 | UInt64(callee)
    guard let window = windows[key], now < window.begins + Self.span else {
      windows[key] = Window(begins: now, count: 1)
      return true
    }
    guard window.count < Self.most else { return false }
    windows[key]?.count += 1
    return true
  }
}
