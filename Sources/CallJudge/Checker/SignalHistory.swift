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

/// The text of the simulation's signals: their sender and number.
package enum SignalText {
  package static func write(_ sender: Who, _ number: Int) -> String { "\(sender)#\(number)" }

  static func read(_ text: String) -> (Who, Int)? {
    let parts = text.split(separator: "#")
    guard parts.count == 2, let number = Int(parts[1]) else { return nil }
    let who = parts[0].split(separator: "/")
    guard who.count == 2, let who = Who(encoded: who[0], who[1]) else { return nil }
    return (who, number)
  }
}
