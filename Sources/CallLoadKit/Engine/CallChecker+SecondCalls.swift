import CallCore
import CallJudge
import CallWire

/// Judges calls to a user who is in an answered call: devices are notified of that, or the call is busy at once where
/// the user's app takes no second call. And a user who is in no call is neither said to be in one nor busy.
extension CallChecker {
  /// A user who took a side of a call of another user's counts as in it for 15 s after its end.
  private static let memory: Span = .seconds(16)
  /// Under faults a caller's edge reports the end of a call late, or the session of its device is missing.
  private static let memoryUnderFaults: Span = .seconds(75)
  /// A call that does not ring is over within this time.
  private static let refusedWithin: Span = .seconds(1)

  /// A user's other calls, as far as they are known.
  private func talk(of user: Int, but call: CallID, at now: Timestamp) -> UserTalk {
    var talk = UserTalk()
    for id in talks.calls(of: user) where id != call {
      guard let record = records[id], record.mayBeAnswered else { continue }
      talk.isPossible = true
      // Calls that the user has placed count only where the user's app says so.
      let isReceived = record.calleesWinner.map { roster.user(of: $0) == user } ?? false
      if isReceived, record.facts.route.isDirect, record.goesOn(at: now) {
        talk.received.append(id)
      }
    }
    let memory = timeline.isEmpty ? Self.memory : Self.memoryUnderFaults
    if let last = talks.lastTalk(of: user), now < last + memory { talk.isPossible = true }
    return talk
  }

  /// Notes what is known of the callee when a call is placed.
  func noteTalks(_ record: inout CallRecord) {
    guard record.facts.route.isDirect else { return }
    let user = roster.user(of: record.facts.callees.lowerBound)
    record.talk = talk(of: user, but: record.facts.call, at: record.facts.placedAt)
  }

  mutating func talksAreOver(of record: CallRecord, at now: Timestamp) {
    for user in record.users {
      talks.remove(record.facts.call, of: user)
      if record.mayBeAnswered { talks.talked(user, at: now) }
    }
  }

  /// An invite says whether the user was in an answered call when this one was placed.
  mutating func examineSecond(
    _ invite: Invite, _ call: CallID, _ device: Int, at now: Timestamp
  ) {
    guard let record = records[call], record.facts.route.isDirect, invite.transferredBy == nil,
      record.facts.callees.contains(device)
    else { return }
    let name = record.name(of: device)
    if invite.isSecondCall {
      let user = roster.user(of: device)
      guard !record.talk.isPossible, !talk(of: user, but: call, at: now).isPossible else { return }
      change(call) {
        $0.violate(
          .secondCallWrongly, "\(name) was told that its user is in a call, and it is in none")
      }
    } else if record.talk.received.contains(where: { records[$0]?.goesOn(at: now) == true }),
      !timeline.isDisturbed(
        shards: record.shards, or: [device], from: record.facts.placedAt, to: now)
    {
      change(call) {
        $0.violate(.secondCallWrongly, "\(name) was not told that its user is in a call")
      }
    }
  }

  // MARK: The call as a whole

  mutating func examineSecond(_ record: inout CallRecord, at now: Timestamp) {
    let reason = record.caller.end?.reason
    let rung = record.callees.filter { $0.invitedAt != nil }
    if record.facts.during?.isRefused == true, !isExcused(record, at: now) {
      for device in rung {
        record.violate(
          .secondCallWrongly,
          "\(record.name(of: device.device)) rang though its user is in a call, and takes no second"
        )
      }
      examineRefusal(&record)
    }
    // Devices that sleep may say over HTTP that they are busy, and never ring.
    guard reason == .busy, record.facts.route.isDirect, rung.isEmpty,
      record.callees.allSatisfy({ !$0.acts.contains(.busy) })
    else { return }
    let user = roster.user(of: record.facts.callees.lowerBound)
    let later = talk(of: user, but: record.facts.call, at: record.facts.placedAt)
    if !record.talk.isPossible, !later.isPossible {
      record.violate(
        .secondCallWrongly, "the caller was told busy, and \(roster.userName(user)) is in no call")
    }
  }

  private func examineRefusal(_ record: inout CallRecord) {
    guard let end = record.caller.end, let accepted = record.acceptedAt else { return }
    let wait = record.facts.hook?.terms.delays == true ? HookTerms.timeout : .zero
    if end.reason != .busy {
      record.violate(
        .secondCallWrongly,
        "the caller was told \(end.reason.name) of a user who is in a call, and takes no second")
    } else if record.facts.placedAt + wait + Self.refusedWithin < max(end.at, accepted) {
      record.violate(.secondCallWrongly, "the caller was told late that the user is in a call")
    }
  }

  /// The first call may have been over for the cluster, or not known yet.
  private func isExcused(_ record: CallRecord, at now: Timestamp) -> Bool {
    guard let first = record.facts.during.flatMap({ records[$0.first] }),
      first.goesOn(at: record.firstEndAt ?? record.facts.placedAt)
    else { return true }
    return timeline.isDisturbed(
      shards: record.shards + first.shards, or: first.facts.devices + record.facts.devices,
      from: first.facts.placedAt, to: now)
  }
}
