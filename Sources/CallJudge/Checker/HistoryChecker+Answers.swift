internal import CallCore
internal import CallWire

/// An answer of a device that the call rings, sent while the call rang there.
struct SentAnswer: Sendable {
  let at: Timestamp
  let link: Int
}

/// The rule for answers: the first one that reaches the call's shard while the call rings wins.
extension HistoryChecker {
  /// A device answers a call that rings there. A later attempt takes the place of an earlier one.
  mutating func noteAnswer(_ who: Who, _ link: Int, _ call: CallID) {
    guard let facts = calls[call], facts.told[who]?.invited ?? false, facts.journalCaller != who,
      facts.overAt == nil, facts.mayAnswer(who), !app.onlyPlaces(who),
      links[link]?.attachedAt != nil, unansweredAttaches[who]?.isEmpty ?? true
    else { return }
    calls[call]?.answersSent[who] = SentAnswer(at: now, link: link)
  }

  /// The reply to an answer says who has the call (docs/device-protocol.md, "answer"). Who has lost learns by what the
  /// call is over for it: only another device's answer or an end takes the call from a device that rings. Where the
  /// app's server chose one device, others never ring.
  mutating func replied(
    _ who: Who, toAnswerOf call: CallID, _ reply: ServerReply
  ) throws(HistoryViolation) {
    switch reply {
    // It has had no effect, or the client sends it again.
    case .error: calls[call]?.answersSent[who] = nil
    case .answer(let won, let state):
      judged[.answersCount, default: 0] += 1
      try require(
        won || state.phase == .ended || calls[call]?.placed?.onlyDevice != nil, .answersCount, call,
        "\(who) answered, and lost a call that is \(state.phase.name)")
    default:
      try require(
        false, .answersCount, call, "\(who) answered, and is not told whether it has the call")
    }
  }

  /// A device answered while the call rang there, and the call rang on, though nothing was wrong.
  ///
  /// The shard decides an answer as soon as it has it, and journals that before anything else about the call. So the call
  /// is answered or over by then, unless the device refused it as well or the call has left its user. A fault of the
  /// connection, of its edge, of the shard's owner or of NATS excuses: then the answer may come after the deadline.
  mutating func answerIgnored(_ call: CallID, _ facts: Facts) -> HistoryViolation? {
    for (who, sent) in facts.answersSent.inOrder {
      let due = sent.at + bounds.ring
      guard due < now else { continue }
      calls[call]?.answersSent[who] = nil
      guard let link = links[sent.link], unansweredAttaches[who]?.isEmpty ?? true,
        isQuiet(link, facts.shard, from: sent.at - bounds.takeover, until: due)
      else { continue }
      if let overAt = facts.overAt, overAt <= due {
        if facts.answered != nil { judged[.answersCount, default: 0] += 1 }
        continue
      }
      guard facts.mayAnswer(who), seesJournal || ringsYet(who, call, facts) else { continue }
      return HistoryViolation(
        .answersCount, "\(who) answered at \(link.edge), and the call rings on", call: call)
    }
    return nil
  }
}

extension HistoryChecker.Facts {
  /// Whether a device that the call rings may still take it: it did not refuse, and the call did not leave it.
  fileprivate func mayAnswer(_ who: Who) -> Bool {
    acts[who, default: []].isDisjoint(with: .refusal) && legEnds[key(who)] == nil
      && left(who.user) == nil
  }
}
