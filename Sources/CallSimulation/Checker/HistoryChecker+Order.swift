internal import CallCore

/// One signal among those of its sender.
struct SignalPlace: Sendable {
  var number: Int
  /// Counts the starts of the sender's app.
  var process: Int
}

/// What is known of signals from those who send them.
struct SignalSenders: Sendable {
  private var processes: [Who: Int] = [:]
  private var processOf: [String: Int] = [:]
  private var givenUp: Set<String> = []

  mutating func restarted(_ who: Who) { processes[who, default: 0] += 1 }

  mutating func sent(_ who: Who, _ body: String) {
    if processOf[body] == nil { processOf[body] = processes[who, default: 0] }
  }

  /// The sender's app was told that it failed. The cluster may take it all the same, whenever it
  /// arrives.
  mutating func gaveUp(_ body: String) { givenUp.insert(body) }

  /// nil: its place among the others does not matter.
  func mark(_ body: String, _ number: Int) -> SignalPlace? {
    givenUp.contains(body)
      ? nil : SignalPlace(number: number, process: processOf[body, default: 0])
  }
}

extension HistoryChecker {
  /// An app is handed the signals of one sender and call in the order in which they were given to the
  /// sender's client. Some may be missing. What a sender's former process left under way may come at
  /// any time.
  mutating func inOrder(
    _ body: String, _ sender: Who, _ number: Int, _ app: inout App, _ who: Who, _ call: CallID
  ) throws(Violation) {
    guard let mark = senders.mark(body, number) else { return }
    if let last = app.lastSignals[sender] {
      if mark.process < last.process { return }
      judged[.signalsInOrder, default: 0] += 1
      if mark.process == last.process, number < last.number {
        throw Violation(
          .signalsInOrder,
          "the app of \(who) hears signal \(number) of \(sender) after \(last.number)",
          call: call)
      }
    }
    app.lastSignals[sender] = mark
  }
}
