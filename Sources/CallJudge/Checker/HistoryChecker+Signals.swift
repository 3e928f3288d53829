internal import CallCore

/// A signal that a side of an answered call sent, and that the other side's app has not received.
struct SentSignal: Sendable {
  let body: String
  let sender: Who
  let number: Int
  /// Counts the starts of the sender's app.
  let process: Int
  /// When its sender learned that the cluster has it.
  var acceptedAt: Timestamp?
  /// When a later one of the same process arrived: it is lost if it does not come either.
  var overtakenAt: Timestamp?
}

/// The rule for lost signals: what one side of an answered call sends, and the cluster accepts, reaches the other side.
///
/// Judged are signals that were first sent after the answer was in the journal. Until a side moves or the call ends, the
/// shard journals each of them before it replies, and retransmits it until it is acknowledged, through new sessions and new
/// owners (docs/device-protocol.md, "description, candidate"). What a side sent before may be dropped: the device's part in
/// the call may have been over for a while.
extension HistoryChecker {
  mutating func noteSignal(_ who: Who, _ body: String, _ call: CallID) {
    guard calls[call]?.signalsNoted.insert(body).inserted == true, let facts = calls[call],
      facts.answered != nil, facts.ended == nil, facts.isInPlace,
      who == facts.journalCaller || who == facts.journalWinner && facts.answered?.merged == nil,
      facts.legEnds[facts.key(who)] == nil, let (sender, number) = app.signal(body), sender == who
    else { return }
    calls[call]?.signalsSent.append(
      SentSignal(
        body: body, sender: who, number: number,
        process: senders.place(of: body, in: call).process))
  }

  mutating func acceptedSignal(_ body: String, _ call: CallID) {
    guard let index = calls[call]?.signalsSent.firstIndex(where: { $0.body == body }),
      calls[call]?.signalsSent[index].acceptedAt == nil
    else { return }
    calls[call]?.signalsSent[index].acceptedAt = now
  }

  /// An app received a signal: it has all that came before, or they are out of order.
  ///
  /// Signals of one process of the sender's app are delivered in their order. Where either app began anew, its former
  /// process may have the missing one; signals that the sender's client reported as failed may come behind later ones.
  mutating func arrived(_ body: String, at who: Who, _ call: CallID) {
    guard let index = calls[call]?.signalsSent.firstIndex(where: { $0.body == body }),
      let signal = calls[call]?.signalsSent.remove(at: index), let facts = calls[call]
    else { return }
    judged[.signalsArrive, default: 0] += 1
    guard facts.isInPlace, !facts.restarted.contains(who),
      senders.place(of: body, in: call).isOrdered
    else { return }
    for (index, other) in facts.signalsSent.enumerated()
    where other.sender == signal.sender && other.process == signal.process
      && other.number < signal.number && other.overtakenAt == nil
    {
      calls[call]?.signalsSent[index].overtakenAt = now
    }
  }

  /// A signal was accepted, and does not arrive: a later one did, or its receiver is attached and all was well.
  ///
  /// No fault excuses a gap, since what comes behind a signal waits for it.
  func lostSignal(_ call: CallID, _ facts: Facts) -> HistoryViolation? {
    for signal in facts.signalsSent where senders.place(of: signal.body, in: call).isOrdered {
      guard let acceptedAt = signal.acceptedAt,
        let receiver = facts.holder(ofCaller: signal.sender != facts.journalCaller),
        !facts.restarted.contains(receiver)
      else { continue }
      let what = "\(receiver) lacks signal \(signal.number) of \(signal.sender)"
      // A late attempt may be accepted and dropped, because the call is over.
      if let overtakenAt = signal.overtakenAt, facts.isInPlace,
        acceptedAt <= facts.endedAt ?? acceptedAt
      {
        guard facts.ended == nil, now <= overtakenAt + bounds.ring else {
          return HistoryViolation(.signalsArrive, "\(what), and has a later one", call: call)
        }
      }
      let due = acceptedAt + bounds.ring
      guard due < facts.endedAt ?? now, due < now, facts.isInPlace,
        facts.acts[receiver, default: []].isDisjoint(with: [.hangUp, .cancel]),
        let link = presentLink(of: receiver, facts, since: acceptedAt, until: due)
      else { continue }
      return HistoryViolation(
        .signalsArrive, "\(what), and is attached at \(link.edge)", call: call)
    }
    return nil
  }
}

extension HistoryChecker.Facts {
  /// Whether both sides are those that placed and answered it. Moves and transfers may drop signals.
  fileprivate var isInPlace: Bool { moves.isEmpty && transfers.isEmpty && !isForServer }
}
