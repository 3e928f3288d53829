internal import CallCore
internal import CallWire

/// Judging by devices alone, where a cluster's journal is not read.
///
/// The frames of its devices show who has a call and how it ended, as long as it stays with the devices that it rang
/// first. Where it goes on to other users, moves, is transferred, or gives way to another call, only the journal does.
extension HistoryChecker {
  var seesJournal: Bool { sight.contains(.journal) }

  /// Whether the winner and the end of a call are judged.
  func isFollowed(_ call: CallID) -> Bool {
    seesJournal || calls[call].map { !$0.leftItsDevices } ?? true
  }

  /// Whether a device ended its own part in a call, which may go on.
  func isOwnPart(_ end: CallEnd<Who>, of who: Who, _ facts: Facts) -> Bool {
    guard end.by == who, end.reason.isOwnPart else { return false }
    return !seesJournal || facts.legEnds[facts.key(who)] != nil
  }

  /// The caller knows that the call is placed.
  mutating func accepted(_ call: CallID) {
    if !seesJournal, calls[call]?.accepted != true {
      calls[call]?.acceptedAt = now
      live.append(call)
    }
    calls[call]?.accepted = true
  }

  /// Whether a device learns of the end of a call, and not of that of its own part in one that may have gone on: a user's
  /// rules send calls on that the user's own devices have missed or declined.
  func isOfCall(_ end: CallEnd<Who>, of who: Who, _ facts: Facts) -> Bool {
    seesJournal || who == facts.caller || who == facts.winner
      || [.cancelled, .hungUp, .failed].contains(end.reason)
  }

  /// Why a call cannot have ended as a device learns: no device has done what it takes.
  func objection(to end: CallEnd<Who>, _ facts: Facts, _ call: CallID) -> EndObjection? {
    guard !seesJournal, isFollowed(call), serverEnds[call] == nil, facts.acceptedAt != nil,
      let askedAt = facts.placeSentAt, facts.caller != nil, !facts.callerForgot
    else { return nil }
    var evidence = EndEvidence(
      caller: facts.caller, winner: facts.winner ?? facts.answeredBy,
      acts: { facts.acts[$0] ?? [] },
      mayBeLost: { who in
        links(of: who).allSatisfy { number in
          guard let link = links[number], let since = link.attachedAt else { return true }
          return askedAt < since || !isQuiet(link, 0, from: askedAt, until: now)
        }
      })
    evidence.mayHaveFailed = true
    evidence.isBeforeTimeout = facts.toldDeadline.map { now + bounds.skew < $0 } ?? false
    return evidence.objection(to: end)
  }

  /// Whether the call still rings at a device, as far as that knows.
  func ringsYet(_ who: Who, _ call: CallID, _ facts: Facts) -> Bool {
    isFollowed(call) && facts.told[who]?.end == nil
  }

  /// A device whose call's last deadline has passed, and that does not learn of an end, though nothing was wrong.
  mutating func ringsOn(_ call: CallID, _ facts: Facts) -> HistoryViolation? {
    guard !seesJournal, isFollowed(call), facts.overAt == nil, let deadline = facts.toldDeadline
    else { return nil }
    let due = deadline + bounds.skew + bounds.timerLateness + bounds.ring
    guard due < now else { return nil }
    for (who, told) in facts.told.inOrder where told.invited && told.end == nil && !told.forgot {
      guard !facts.restarted.contains(who),
        facts.acts[who, default: []].isDisjoint(with: [.refusal, .cancel, .hangUp]),
        let link = presentLink(of: who, facts, since: deadline, until: due)
      else { continue }
      return HistoryViolation(
        .timersOnTime, "\(who) is attached at \(link.edge), and rings behind the deadline",
        call: call)
    }
    return nil
  }
}

extension HistoryChecker.Facts {
  var firstInvitedAt: Timestamp? { told.values.compactMap(\.invitedAt).min() }

  mutating func ringsNoMore(since now: Timestamp) { toldOverAt = toldOverAt ?? now }

  mutating func isOver(since now: Timestamp) {
    ringsNoMore(since: now)
    endToldAt = endToldAt ?? now
  }

  mutating func rings(until deadline: Timestamp) {
    toldDeadline = max(toldDeadline ?? deadline, deadline)
  }
}

extension ClientCommand {
  /// Whether it may take the call from the devices that have it.
  var takesCallAway: Bool {
    switch self {
    case .call(_, .pull), .call(_, .transfer): true
    default: false
    }
  }
}

extension Delivery {
  /// Whether the call is no longer with the devices that it rang first.
  var isOfCallThatLeft: Bool {
    switch event {
    case .invite(let invite): invite.ringsAnew || !invite.divertedBy.isEmpty
    case .stop(let stop): stop.reason.isOfCallThatLeft || stop.survivor != nil
    case .moved, .transfer, .ringsUntil: true
    case .ringing(let by): !by.user.hasBytes(of: callee)
    case .answered(let answered): !answered.by.user.hasBytes(of: callee)
    case .signal: false
    }
  }
}

extension EndReason {
  fileprivate var isOfCallThatLeft: Bool {
    self == .moved || self == .transferred || self == .glare
  }
}

extension CallState {
  /// Whether the call is no longer with the devices that it rang first.
  var isOfCallThatLeft: Bool { survivor != nil || reason?.isOfCallThatLeft ?? false }
}
