internal import CallCore

/// The acts of the senders of signals.
struct SignalSenders: Sendable {
  struct Place: Sendable {
    /// Counts the starts of the sender's app.
    var process: Int
    /// Whether its order among the others counts. It does not if the client reported the signal as failed:
    /// the cluster may still take it, at any time.
    var isOrdered: Bool
  }

  private struct OfCall: Sendable {
    var processOf: [String: Int] = [:]
    var givenUp: Set<String> = []
  }

  private var processes: [Who: Int] = [:]
  private var calls: [CallID: OfCall] = [:]

  mutating func restarted(_ who: Who) { processes[who, default: 0] += 1 }

  mutating func sent(_ who: Who, _ call: CallID, _ body: String) {
    let process = processes[who, default: 0]
    if calls[call]?.processOf[body] == nil {
      calls[call, default: OfCall()].processOf[body] = process
    }
  }

  mutating func gaveUp(_ call: CallID, _ body: String) {
    calls[call, default: OfCall()].givenUp.insert(body)
  }

  func place(of body: String, in call: CallID) -> Place {
    let own = calls[call] ?? OfCall()
    return Place(process: own.processOf[body, default: 0], isOrdered: !own.givenUp.contains(body))
  }

  mutating func forget(_ call: CallID) { calls[call] = nil }
}

/// The signals of one sender and call that an app received: in the order in which the sender's app sent
/// them. Signals of a former process of the sender may arrive at any time.
struct ReceivedSignals: Sendable {
  private var process = 0
  private var stream = SignalStream()

  /// - Parameter judged: goes up by one where the order was compared with that of another signal.
  mutating func receive(
    _ number: Int, epoch: UInt64, _ place: SignalSenders.Place, judged: inout Int
  ) -> SignalStream.Flaw? {
    let isOrdered = place.isOrdered && process <= place.process
    if isOrdered {
      if stream.highest > 0 { judged += 1 }
      if process < place.process { stream.restarted() }
      process = place.process
    }
    return stream.receive(number, epoch: epoch, isOrdered: isOrdered)
  }
}
