internal import CallCore
internal import CallJudge

/// What is known of signals from those who send them.
struct SignalSenders: Sendable {
  struct Place: Sendable {
    /// Counts the starts of the sender's app.
    var process: Int
    /// Whether its order among the others counts. Not so where the sender's app was told that the signal
    /// failed: the cluster may take it all the same, whenever it arrives.
    var isOrdered: Bool
  }

  private var processes: [Who: Int] = [:]
  private var processOf: [String: Int] = [:]
  private var givenUp: Set<String> = []

  mutating func restarted(_ who: Who) { processes[who, default: 0] += 1 }

  mutating func sent(_ who: Who, _ body: String) {
    if processOf[body] == nil { processOf[body] = processes[who, default: 0] }
  }

  mutating func gaveUp(_ body: String) { givenUp.insert(body) }

  func place(of body: String) -> Place {
    Place(process: processOf[body, default: 0], isOrdered: !givenUp.contains(body))
  }
}

/// The signals of one sender and call, as an app is handed them: in the order in which they were given to
/// the sender's client. What a former process of the sender left under way may come at any time.
struct HeardSignals: Sendable {
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
