import CallCore
import CallLoadKit
import CallWire

/// Users who are in a call when another one comes, what devices see of that, and the app's hook.
extension FaultyTwin {
  /// The answered calls that a user has a side of.
  private func talks(of user: String) -> [(call: Call, isPlaced: Bool, own: Party, other: Party)] {
    answered.values.compactMap { call in
      guard case .answered(let winner) = call.stage else { return nil }
      let sides = sides(call, winner)
      if sides.caller.user == user { return (call, true, sides.caller, sides.callee) }
      return sides.callee.user == user ? (call, false, sides.callee, sides.caller) : nil
    }
  }

  /// A call that the user placed counts only where users take no second call.
  func noteSecond(_ call: Call) {
    let talks = talks(of: call.target)
    let isInCall = isStrict(call.target) ? !talks.isEmpty : talks.contains { !$0.isPlaced }
    call.isSecond = isInCall
    if isInCall, plays(.hidesSecondCalls, call) { call.isSecond = false }
    if talks.isEmpty, plays(.inventsSecondCalls, call) { call.isSecond = true }
  }

  func isBusy(_ call: Call) -> Bool {
    let talks = talks(of: call.target)
    guard isStrict(call.target), !talks.isEmpty else {
      return talks.isEmpty && call.target == call.callee && plays(.refusesTheFree, call)
    }
    return !plays(.ringsTheBusy, call)
  }

  // MARK: Ongoing calls

  /// Shows the devices that want it what has changed of their users' calls.
  func showOngoing() {
    answered = answered.filter { if case .answered = $0.value.stage { true } else { false } }
    let watching = sessions.filter { $0.value.wantsOngoing }
    guard !watching.isEmpty else { return }
    // Nothing has changed for the others.
    var users = Set(shown.lazy.filter { !$0.value.calls.isEmpty }.map(\.key))
    for call in answered.values {
      guard case .answered(let winner) = call.stage else { continue }
      let sides = sides(call, winner)
      users.insert(sides.caller.user)
      users.insert(sides.callee.user)
    }
    for user in Set(watching.keys.map(\.user)).intersection(users).sorted() {
      let calls = ongoing(of: user)
      let last = shown[user] ?? OngoingCalls(version: 1)
      guard calls != last.calls else { continue }
      let state = OngoingCalls(version: last.version + 1, calls: calls)
      shown[user] = state
      let devices = watching.filter { $0.key.user == user }
      for (_, link) in devices.sorted(by: { $0.key.device.text < $1.key.device.text }) {
        link.deliver(.ongoing(state))
      }
    }
  }

  private func ongoing(of user: String) -> [OngoingCall] {
    var list = talks(of: user).compactMap { call, isPlaced, own, other -> OngoingCall? in
      if playsInHistory(.hidesOngoing, call) { return nil }
      let peer = playsInHistory(.showsAnotherPeer, call) ? "nobody" : other.user
      return OngoingCall(
        call: call.id, callee: call.callee, isPlaced: isPlaced, device: own.device, peer: peer,
        since: call.answeredAt ?? loop.now)
    }
    list += (shown[user]?.calls ?? []).filter { entry in
      guard let call = calls[entry.call], case .ended = call.stage else { return false }
      return playsInHistory(.keepsOngoing, call)
    }
    return list.sorted { ($0.since, $0.call.high) < ($1.since, $1.call.high) }
  }

  // MARK: The hook

  /// Asks the app's server about a call.
  /// - Returns: why it is refused; nil: it is not.
  func askHook(about call: Call, _ request: PlaceRequest) -> CallError? {
    let header = request.setup.headers.first { $0.name == HookTerms.header }
    guard let terms = header.flatMap({ HookTerms($0.value) }), !plays(.ignoresTheHook, call) else {
      return nil
    }
    switch terms {
    case .allow: return nil
    case .name(let name), .slowName(let name): call.callerName = name
    case .refuse(let refusal): return CallError(refusal.code, HookTerms.sentence)
    case .forward(let user): call.target = user
    case .late, .broken: return isStrict(call.callee) ? nil : CallError(.appAway)
    }
    return nil
  }
}
