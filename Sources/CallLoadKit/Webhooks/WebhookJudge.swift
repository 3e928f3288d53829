package import CallCore
import CallTelemetry

/// An event as the app's server reads it. See docs/webhooks.md.
package struct WebhookEvent: Sendable, Equatable {
  package var call: CallID
  package var kind: AppEventKind
  /// The `webhook-id`: the same for each repetition.
  package var id: String
  package var app: String
  package var reason: String?
  package var isMissed: Bool

  package init(
    call: CallID, kind: AppEventKind, id: String, app: String = "load", reason: String? = nil,
    isMissed: Bool = false
  ) {
    self.call = call
    self.kind = kind
    self.id = id
    self.app = app
    self.reason = reason
    self.isMissed = isMissed
  }

  private struct Body: Decodable {
    struct Details: Decodable {
      var call: String
      var reason: String?
      var missed: Bool?
    }
    var type: String
    var id: String
    var app: String
    var data: Details
  }

  /// nil: it is no event.
  package init?(json: [UInt8]) {
    guard let body = try? BoundedJSON.read(Body.self, json),
      let call = CallID(body.data.call),
      let kind = AppEventKind.allCases.first(where: { $0.type == body.type })
    else { return nil }
    self.init(
      call: call, kind: kind, id: body.id, app: body.app, reason: body.data.reason,
      isMissed: body.data.missed ?? false)
  }
}

/// Compares the events that the app's server got with the calls as devices saw them.
package struct WebhookJudge: Sendable {
  private struct Seen: Sendable {
    var kinds: AppEventKinds = []
    /// The greatest kind so far: the next one is greater.
    var last: AppEventKind?
    /// The part of the ids that all events of a call have in common.
    var stem: Substring = ""
    var reason: String?
    var isMissed = false
  }

  private let apps: Set<String>
  private var seen: [CallID: Seen] = [:]
  private var findings: [CorrectnessRule: (count: Int, examples: [String])] = [:]
  package private(set) var events = 0
  package private(set) var repeated = 0

  package init(apps: [String]) { self.apps = Set(apps) }

  // MARK: What arrives

  package mutating func receive(_ event: WebhookEvent) {
    guard apps.contains(event.app) else {
      return find(.webhookInvented, event.call, "\(event.kind.type) is another app's, \(event.app)")
    }
    var call = seen[event.call] ?? Seen()
    let stem = event.id.dropLast(event.kind.name.utf8.count)
    if call.kinds.isEmpty { call.stem = stem }
    if call.kinds.contains(event.kind) {
      repeated += 1
    } else {
      events += 1
      if let last = call.last, event.kind.rawValue < last.rawValue {
        find(.webhookOutOfOrder, event.call, "\(event.kind.type) came after \(last.type)")
      } else {
        call.last = event.kind
      }
    }
    if call.stem != stem {
      find(
        .webhookInvented, event.call, "\(event.kind.type) has the id of another call: \(event.id)")
    }
    call.kinds.formUnion(AppEventKinds(event.kind))
    if event.kind == .ended { (call.reason, call.isMissed) = (event.reason, event.isMissed) }
    seen[event.call] = call
  }

  /// A request that the app's server could not trust, or not read.
  package mutating func receiveUnreadable(_ what: String) {
    findings[.webhookInvented, default: (0, [])].count += 1
    note(.webhookInvented, what)
  }

  // MARK: Judging

  /// Whether nothing is missing.
  package func hasAll(_ dues: [WebhookDue]) -> Bool {
    dues.allSatisfy { missing($0).isEmpty }
  }

  private func missing(_ due: WebhookDue) -> AppEventKinds {
    guard let call = seen[due.call] else { return due.needed }
    var needed = due.needed
    if call.isMissed { needed.formUnion(AppEventKinds(.missed)) }
    return needed.subtracting(call.kinds)
  }

  /// Adds what is wrong to the result of the run.
  /// - Parameter dues: of all calls of the run.
  package mutating func judge(_ dues: [WebhookDue], into result: inout RunResult) {
    var unknown = seen
    for due in dues {
      if let call = unknown.removeValue(forKey: due.call) { compare(call, due) }
      let missing = missing(due)
      let names = AppEventKind.allCases.filter { missing.contains($0) }.map(\.type)
      for name in names { find(.webhookLost, due.call, "\(name) never came") }
    }
    for (id, call) in unknown {
      let kind = AppEventKind.allCases.first { call.kinds.contains($0) }
      find(.webhookInvented, id, "\(kind?.type ?? "an event") is about a call that nobody placed")
    }
    for (rule, found) in findings {
      result.correctness[rule, default: 0] += found.count
      result.examples[rule, default: []] += found.examples
    }
    findings = [:]
  }

  private mutating func compare(_ call: Seen, _ due: WebhookDue) {
    let excess = call.kinds.subtracting(due.allowed)
    for kind in AppEventKind.allCases where excess.contains(kind) {
      find(.webhookInvented, due.call, "\(kind.type) came, and the caller was told \(told(due))")
    }
    guard call.kinds.contains(.ended) else { return }
    if let reason = due.reason, call.reason != reason {
      find(
        .webhookInvented, due.call,
        "call.ended says \(call.reason ?? "nothing"), and the caller was told \(reason)")
    }
    if call.kinds.contains(.missed), !call.isMissed {
      find(.webhookInvented, due.call, "call.missed came, and call.ended says that it is none")
    }
  }

  private func told(_ due: WebhookDue) -> String { due.reason ?? "of no end" }

  private mutating func find(_ rule: CorrectnessRule, _ call: CallID, _ what: String) {
    findings[rule, default: (0, [])].count += 1
    note(rule, "call \(call): \(what)")
  }

  private mutating func note(_ rule: CorrectnessRule, _ example: String) {
    guard findings[rule]?.examples.count ?? 0 < CallChecker.examplesMax else { return }
    findings[rule]?.examples.append(example)
  }
}
