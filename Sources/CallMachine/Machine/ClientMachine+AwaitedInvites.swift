internal import CallCore
internal import CallWire

// Calls whose invite follows what the device knows of them: one that a push announced and that rings, as its state
// says; one to which a call of this device gave way, of which the `stop` has only the id. The invite may not come: the
// call's shard may not know this device's session, and the device may decline meanwhile by HTTP, whose reply its app
// does not see. So the device asks.
extension ClientMachine {
  struct AwaitedInvite: Sendable {
    var call: CallID
    /// When the device asks for the call, if its invite has not come.
    var askAt: Timestamp
  }

  private static let invitePatience: Span = .seconds(5)
  /// Policy at the limit: the oldest one is not asked for. A device has five live calls at most.
  private static let awaitedInvitesMax = 16

  /// - Parameters:
  ///   - view: the view of a call that a delivery or a reply has just changed.
  ///   - events: the changes.
  mutating func awaitInvite(after view: CallView, _ events: [CallEvent], now: Timestamp) {
    if view.isWaking { return awaitInvite(of: view.call, now) }
    guard view.role == .caller, !events.isEmpty, let stop = view.stop, stop.reason == .glare,
      let survivor = stop.survivor
    else { return }
    if let known = calls[survivor] {
      // It stopped ringing here, and this device's user has called back: it may come back, or be over everywhere.
      guard known.mayGoOnElsewhere else { return }
      calls[survivor] = known.ringingAgain(known.callee, at: known.version)
      endedCalls.removeAll { $0 == survivor }
    }
    awaitInvite(of: survivor, now)
  }

  private mutating func awaitInvite(of call: CallID, _ now: Timestamp) {
    guard !awaitedInvites.contains(where: { $0.call == call }) else { return }
    if awaitedInvites.count == Self.awaitedInvitesMax { awaitedInvites.removeFirst() }
    awaitedInvites.append(AwaitedInvite(call: call, askAt: now + Self.invitePatience))
  }

  /// Attached: asks for the calls whose invite has not come in time.
  mutating func askForInvites(_ turn: inout Turn) {
    let now = turn.now
    let due = awaitedInvites.filter { $0.askAt <= now }
    guard !due.isEmpty else { return }
    awaitedInvites.removeAll { $0.askAt <= now }
    for awaited in due where calls[awaited.call]?.isWaking ?? true {
      woken(for: awaited.call, &turn)
    }
  }
}
