/// Counts of what the app's server received in a run.
package struct WebhookResult: Sendable, Equatable {
  package var calls: Int
  /// Taken, each counted once.
  package var events: Int
  package var repeated: Int
  /// Events that were refused once, on purpose.
  package var refused: Int

  package init(calls: Int, events: Int, repeated: Int, refused: Int) {
    self.calls = calls
    self.events = events
    self.repeated = repeated
    self.refused = refused
  }
}

/// Counts of what users read in their histories at the end of a run.
package struct HistoryResult: Sendable, Equatable {
  package var users = 0
  package var entries = 0
  /// Calls of which both users read.
  package var callsOfBothSides = 0
  package init() {}
}

/// Counts of what devices were shown of the calls that their users are in.
package struct OngoingResult: Decodable, Sendable, Equatable {
  package var states = 0
  /// Calls that joined such a state or changed in it, one for each device.
  package var calls = 0
  package init() {}
}

/// The parts of a report that are about what an app may have beside calls.
struct AppRunReport {
  let webhooks: WebhookResult?
  let history: HistoryResult?
  let ongoing: OngoingResult?
  let hook: HookResult?

  init(_ result: RunResult) {
    (webhooks, history) = (result.webhooks, result.history)
    (ongoing, hook) = (result.ongoing, result.hook)
  }

  private func counts(_ result: WebhookResult) -> [(name: String, title: String, count: Int)] {
    [
      ("calls", "calls", result.calls), ("events", "events", result.events),
      ("repeated", "repeated", result.repeated),
      ("refused", "refused once, on purpose", result.refused),
    ]
  }

  private func counts(_ result: HistoryResult) -> [(name: String, title: String, count: Int)] {
    [
      ("users", "users", result.users), ("entries", "entries", result.entries),
      ("calls_of_both_sides", "calls read by both sides", result.callsOfBothSides),
    ]
  }

  private func counts(_ result: OngoingResult) -> [(name: String, title: String, count: Int)] {
    [
      ("states", "states", result.states),
      ("calls", "calls in them, as they changed", result.calls),
    ]
  }

  private func counts(_ result: HookResult) -> [(name: String, title: String, count: Int)] {
    [("questions", "questions", result.questions)]
      + result.answers.sorted { $0.key < $1.key }.map { ($0.key, $0.key, $0.value) }
  }

  func lines(_ style: TextStyle) -> [String] {
    func section(
      _ title: String, _ note: String, _ counts: [(name: String, title: String, count: Int)]?
    ) -> [String] {
      guard let counts else { return [] }
      var table = TextTable()
      for one in counts { table.add(one.title, Units.count(one.count)) }
      return ["", style.bold(title) + note] + table.lines()
    }
    return section("Webhooks", " (as the app's server had them)", webhooks.map(counts))
      + section("Histories", " (as users read them at the end)", history.map(counts))
      + section("Ongoing calls", " (as users' devices were shown them)", ongoing.map(counts))
      + section("Hook", " (as the app's server was asked, and what it said)", hook.map(counts))
  }

  var webhooksJSON: JSONObject? { webhooks.map { json(counts($0)) } }
  var historyJSON: JSONObject? { history.map { json(counts($0)) } }
  var hookJSON: JSONObject? { hook.map { json(counts($0)) } }
  var ongoingJSON: JSONObject? { ongoing.map { json(counts($0)) } }

  private func json(_ counts: [(name: String, title: String, count: Int)]) -> JSONObject {
    JSONObject(counts.map { ($0.name, $0.count) })
  }
}
