package import CallCore

/// Crossing calls: this device has placed a call to a user, and a call from that user rings here.
///
/// The edges are where both calls of a pair are seen, since each call is in another shard. A session reports a pair to
/// the shard of the call that gives way, and that shard decides. Both sides' edges report, and each again when an
/// invite or a `place` is repeated; so a report needs no answer.
extension DeviceSession {
  /// A call that rings here, or did until lately.
  struct RungCall: Equatable {
    var call: CallID
    var caller: Party
    /// By the cluster's clock.
    var deadline: Timestamp
    /// The version of what is known of it. An invite that is not newer says nothing.
    var version: UInt64
    /// It rings here no more. It is kept because an invite may come late, from a former owner of its shard.
    var isOver = false
  }

  /// Policy: forget the oldest, first of those that are over.
  private static let rungCallsMax = 8
  /// How far this edge's clock may be ahead of the cluster's. A call rings no longer than until its deadline, also where
  /// nothing tells this session of its end.
  private static let skew: Span = .seconds(60)

  /// Whether the call that rings here is one of this device's user that another device has placed. One that was diverted
  /// here or is transferred is to another user; one that the app's server placed has no device as its caller at first,
  /// and is to another user for those who ring next.
  func mayCross(_ invite: Invite, to callee: String) -> Bool {
    guard let user = sentIdentity?.user.user else { return false }
    return invite.divertedBy.isEmpty && invite.transferredBy == nil
      && !invite.caller.device.text.isEmpty && user.hasBytes(of: callee)
  }

  mutating func noteRings(_ call: CallID, _ invite: Invite, at version: UInt64) {
    if let index = rungCalls.firstIndex(where: { $0.call == call }) {
      guard rungCalls[index].version < version else { return }
      rungCalls.remove(at: index)
    }
    if rungCalls.count >= Self.rungCallsMax {
      rungCalls.remove(at: rungCalls.firstIndex(where: \.isOver) ?? 0)
    }
    rungCalls.append(
      RungCall(call: call, caller: invite.caller, deadline: invite.deadline, version: version))
  }

  /// A call that rings here rings longer than its invite said.
  /// - Returns: false where it does not ring here.
  mutating func noteRings(_ call: CallID, until deadline: Timestamp) -> Bool {
    guard let index = rungCalls.firstIndex(where: { $0.call == call && !$0.isOver }) else {
      return false
    }
    rungCalls[index].deadline = deadline
    return true
  }

  /// A call rings here no more.
  /// - Parameter version: that of what says so; 0: the device does.
  mutating func endRung(_ call: CallID, at version: UInt64 = 0) {
    for index in rungCalls.indices where rungCalls[index].call == call {
      rungCalls[index].isOver = true
      rungCalls[index].version = max(rungCalls[index].version, version)
    }
  }

  /// Forgets the calls whose time is over.
  mutating func forgetRung(now: Timestamp) {
    guard !rungCalls.isEmpty else { return }
    rungCalls.removeAll { $0.deadline + Self.skew <= now }
    if rungCalls.isEmpty { rungCalls = [] }
  }

  /// Whether a delivery makes it worth looking for pairs.
  package func mayCross(_ delivery: Delivery) -> Bool {
    guard !placedCalls.isEmpty, case .invite = delivery.event else { return false }
    return true
  }

  /// Reports the pairs of which this session sees both calls, and of which this is one.
  package mutating func reportCrossings(of call: CallID, _ turn: inout Turn) {
    guard !rungCalls.isEmpty, case .attached(let identity) = phase else { return }
    let user = identity.user
    // A call that was answered crosses no more: a further one is a second call.
    for placed in placedCalls where placed.hasRung && !placed.isAnswered {
      for rung in rungCalls where !rung.isOver && (placed.call == call || rung.call == call) {
        guard rung.caller.user.hasBytes(of: placed.callee.user),
          turn.now < rung.deadline + Self.skew
        else {
          continue
        }
        let isPlacedSurvivor = Crossing.survives(
          placed.call, caller: user.user, over: rung.call, caller: rung.caller.user)
        let action: Action =
          isPlacedSurvivor
          ? .reportCrossing(
            callee: user,
            CrossedCall(
              call: rung.call, caller: rung.caller.user, survivor: placed.call, by: identity.device)
          )
          : .reportCrossing(
            callee: placed.callee,
            CrossedCall(
              call: placed.call, caller: user.user, survivor: rung.call, by: rung.caller.device))
        turn.actions.append(action)
      }
    }
  }

  /// A reply shows that a call rings here no more.
  mutating func noteRinging(by reply: Reply, to body: Command.Body) {
    guard !rungCalls.isEmpty, case .call(let call, let verb) = body else { return }
    switch reply {
    case .error: return
    case .call(let state) where state.phase == .ended || state.phase == .unknown:
      endRung(call, at: state.version)
    case .call(let state), .answer(_, let state):
      if verb.endsRinging || verb == .hangUp { endRung(call, at: state.version) }
    case .done, .attached, .registered, .calls, .history, .rules, .app:
      if verb.endsRinging || verb == .hangUp { endRung(call) }
    }
  }
}

extension CallVerb {
  /// Whether the device that sends it rings no more.
  var endsRinging: Bool {
    switch self {
    case .answer, .decline, .busy: true
    case .alerting, .cancel, .connected, .hangUp, .pull, .transfer, .cancelTransfer, .signal,
      .resume, .query:
      false
    }
  }
}
