import CallClient
import CallCore
import CallWire

/// Who calls whom, and the placing of calls.
extension LoadRig {
  /// What stands for a session description: opaque to the cluster, of a plausible size.
  static let description =
    "v=0\r\no=- 46117317 2 IN IP4 127.0.0.1\r\ns=-\r\nt=0 0\r\na=group:BUNDLE 0\r\n"
    + "m=audio 9 UDP/TLS/RTP/SAVPF 111\r\nc=IN IP4 0.0.0.0\r\na=ice-ufrag:4ZcD\r\n"
    + "a=ice-pwd:2/1muCWoOi3uLifh0NuRHlCs\r\na=setup:actpass\r\na=mid:0\r\na=sendrecv\r\n"
    + "a=rtcp-mux\r\na=rtpmap:111 opus/48000/2\r\n"
  /// Live calls of one user at most, below the cluster's 5 for a device.
  static let liveCallsMax = 4
  static let drawsMax = 40

  /// Draws a call by the seed: its part, and two users that are free for it. Where a small crowd
  /// has nobody free for a part that needs an idle user, another part is drawn. nil: there are none.
  func drawCall(number: Int, at intended: Timestamp) -> CallPlan? {
    var random = SplitMix64(
      seed: options.seed &* 0x1_0000_01B3 &+ stageCount << 40 &+ UInt64(number))
    for _ in 0..<8 {
      if let plan = drawCall(drawPart(&random), at: intended, &random) { return plan }
    }
    guard options.isDisturbed else { return nil }
    // People do not wait with their calls until all devices of the other one are connected again.
    for _ in 0..<8 {
      let part = drawPart(&random)
      if let plan = drawCall(part, at: intended, toMissing: true, &random) { return plan }
    }
    return nil
  }

  private func drawCall(
    _ part: Scenario.Part, at intended: Timestamp, toMissing: Bool = false,
    _ random: inout SplitMix64
  ) -> CallPlan? {
    let drops = part.kind == .calleeReturns || part.kind == .callerReturns
    for _ in 0..<Self.drawsMax {
      let caller = Int.random(in: 0..<roster.devices, using: &random)
      let calleeUser = Int.random(in: 0..<roster.users, using: &random)
      let callerUser = roster.user(of: caller)
      guard callerUser != calleeUser, devices[caller].isAttached,
        sleep?.sleeps(caller) != true,
        // Who drops its connection must have one.
        part.kind != .calleeReturns
          || roster.devices(of: calleeUser).allSatisfy({ sleep?.sleeps($0) != true }),
        isFree(callerUser, alone: part.kind == .callerReturns),
        isFree(calleeUser, alone: part.kind == .calleeReturns),
        toMissing
          || roster.devices(of: calleeUser).allSatisfy({ isCallable($0) }),
        recentPairs.take(callerUser, calleeUser, at: loop.now)
      else { continue }
      if drops { isReserved[part.kind == .callerReturns ? callerUser : calleeUser] = true }
      liveCalls[callerUser] += 1
      liveCalls[calleeUser] += 1
      let seed = random.next()
      return CallPlan(
        part, call: CallID(high: nonce ^ seed, low: random.next() ^ nonce.byteSwapped),
        caller: caller, callees: roster.devices(of: calleeUser), placeAt: intended, seed: seed)
    }
    return nil
  }

  private func isFree(_ user: Int, alone: Bool) -> Bool {
    !isReserved[user] && liveCalls[user] < (alone ? 1 : Int32(Self.liveCallsMax))
  }

  private func drawPart(_ random: inout SplitMix64) -> Scenario.Part {
    let parts = options.scenario.parts
    var left = Double.random(
      in: 0..<parts.reduce(0) { $0 + $1.weight }, using: &random)
    for part in parts {
      if left < part.weight { return part }
      left -= part.weight
    }
    return parts[parts.count - 1]
  }

  /// The users of a call are free again.
  func release(_ plan: CallPlan) {
    let callerUser = roster.user(of: plan.caller)
    let calleeUser = roster.user(of: plan.callees.lowerBound)
    liveCalls[callerUser] -= 1
    liveCalls[calleeUser] -= 1
    guard plan.dropsConnection else { return }
    isReserved[plan.kind == .callerReturns ? callerUser : calleeUser] = false
  }

  func place(_ plan: CallPlan) {
    let attached = plan.callees.count {
      devices[$0].isAttached && sleep?.sleeps($0) != true
    }
    let live = LiveCall(plan: plan, expectedInvites: attached)
    stage?.live[plan.call] = live
    stage?.expectations[plan.call] = plan
    stage?.placed += 1
    stage?.byPart[plan.kind.rawValue, default: 0] += 1
    stage?.checker.planned(
      CallChecker.Facts(
        call: plan.call, part: plan.kind, caller: plan.caller, callees: plan.callees,
        placedAt: loop.now, ringTimeout: .seconds(Int64(plan.ringTimeoutSeconds)),
        attached: Set(plan.callees.filter { devices[$0].isAttached })))
    noteOutages(plan)
    if sleep != nil { stage?.pushJudge.planned(plan.call, at: plan.placeAt) }
    devices[plan.caller].calls.append(plan.call)
    for callee in plan.callees { devices[callee].calls.append(plan.call) }
    let callee = roster.userName(roster.user(of: plan.callees.lowerBound))
    say(
      .place(
        CallAddress(callee: callee, call: plan.call),
        PlaceRequest(
          call: plan.call, ringTimeoutSeconds: plan.ringTimeoutSeconds,
          description: Self.description)), devices[plan.caller])
    signalAfterPlacing(live)
  }

  /// Runs something later, if the call is still under way then.
  func after(_ span: Span, _ call: CallID, _ action: @escaping (LiveCall) -> Void) {
    at(loop.now + span, call, action)
  }

  func at(_ time: Timestamp, _ call: CallID, _ action: @escaping (LiveCall) -> Void) {
    loop.schedule(at: time) { [weak self] in
      guard let self, let live = stage?.live[call] else { return }
      action(live)
    }
  }
}
