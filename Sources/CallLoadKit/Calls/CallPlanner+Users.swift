import CallCore

/// Draws the users of a call.
extension CallPlanner {
  private func drawUser(isStrict: Bool, _ random: inout SplitMix64) -> Int {
    (isStrict ? strictUsers.randomElement(using: &random) : nil)
      ?? Int.random(in: 0..<roster.users, using: &random)
  }

  func drawCaller(isStrict: Bool, _ random: inout SplitMix64) -> Int {
    guard isStrict else { return Int.random(in: 0..<roster.devices, using: &random) }
    return Int.random(
      in: roster.devices(of: drawUser(isStrict: true, &random)), using: &random)
  }

  /// The devices that are to ring, and how the call comes to them.
  func drawCallees(
    _ part: Scenario.Part, caller: Int, isStrict: Bool, at now: Timestamp,
    _ random: inout SplitMix64
  ) -> (callees: Range<Int>, route: CallRoute)? {
    if part.kind == .group {
      guard let groups, let terms = groups.draw(at: now, &random) else { return nil }
      return (groups.devices(of: terms), .group(terms))
    }
    return drawCallee(part, caller: caller, isStrict: isStrict, &random).map {
      (roster.devices(of: $0), $1)
    }
  }

  private func drawCallee(
    _ part: Scenario.Part, caller: Int, isStrict: Bool, _ random: inout SplitMix64
  ) -> (callee: Int, route: CallRoute)? {
    if part.kind == .forwarded {
      guard let forwarder = forwarding?.ready.randomElement(using: &random),
        forwarder != roster.user(of: caller)
      else { return nil }
      return (Forwarding.target(of: forwarder), .forwarded(by: forwarder))
    }
    let callee = drawUser(isStrict: isStrict, &random)
    guard groups?.members.contains(callee) != true, roster.isStrict(callee) == isStrict else {
      return nil
    }
    if options.hasHook, part.kind == .answered,
      Double.random(in: 0..<1, using: &random) < HookTerms.forwardedShare
    {
      return drawForwarded(by: callee, caller: caller, &random)
    }
    guard let forwarders = forwarding?.users, !forwarders.isEmpty else { return (callee, .direct) }
    // Who places the call of a pair that crosses is called as well.
    let calledBack =
      part.kind == .crossing || part.kind == .secondCall ? roster.user(of: caller) : callee
    return forwarders.isDisjoint(with: [callee, calledBack]) ? (callee, .direct) : nil
  }

  /// The user to whom a call is to be handed over, or who calls meanwhile; nil: none.
  struct Third { var user: Int? }

  /// Draws a third user all of whose devices are there.
  /// - Returns: nil: that user is not free for it.
  func drawThird(
    _ part: Scenario.Part, caller: Int, _ callees: Range<Int>, _ devices: [LoadDevice],
    at now: Timestamp, _ random: inout SplitMix64
  ) -> Third? {
    guard part.kind == .transferred || part.kind.hasSecondCall else { return Third(user: nil) }
    guard options.isOneVersion || part.kind == .secondCall else { return nil }
    let sides = [roster.user(of: caller), roster.user(of: callees.lowerBound)]
    let isStrict = roster.isStrict(sides[0])
    let user = drawUser(isStrict: isStrict, &random)
    guard !sides.contains(user),
      groups?.members.contains(user) != true, forwarding?.users.contains(user) != true,
      roster.isStrict(user) == isStrict,
      !isStrict || (sides + [user]).allSatisfy({ strictFreeAt[$0] ?? .zero <= now }),
      devices[roster.devices(of: user)].allSatisfy(\.isThere),
      isFree(user, alone: isStrict, calls: part.kind.hasSecondCall ? 2 : 1),
      sides.allSatisfy({
        livePairs[Self.pair($0, user)] == nil && livePairs[Self.pair(user, $0)] == nil
      })
    else { return nil }
    return Third(user: user)
  }

  /// Another user to whom the app's server sends a call.
  private func drawForwarded(
    by callee: Int, caller: Int, _ random: inout SplitMix64
  ) -> (callee: Int, route: CallRoute)? {
    let target = drawUser(isStrict: false, &random)
    let forwarders = forwarding?.users ?? []
    guard target != callee, callee != roster.user(of: caller), !roster.isStrict(target),
      groups?.members.contains(target) != true, forwarders.isDisjoint(with: [callee, target])
    else { return nil }
    return (target, .forwarded(by: callee))
  }

  func drawHook(
    _ part: Scenario.Part, _ route: CallRoute, caller: Int, _ callees: Range<Int>,
    _ random: inout SplitMix64
  ) -> HookTerms? {
    guard options.hasHook else { return nil }
    if case .forwarded = route, part.kind == .answered {
      return .forward(roster.userName(roster.user(of: callees.lowerBound)))
    }
    return HookTerms(
      for: part.kind, route, allows: roster.isStrict(roster.user(of: caller)), caller: caller,
      &random)
  }
}
