/// The kinds of calls of a run, each with its share.
package struct Scenario: Sendable, Equatable {
  package var name: String
  package var summary: String
  package var parts: [Part]
  /// Some users read their histories at the end, also without `--history`.
  package var history = false
  /// The app has a webhook, and its events are judged, also without `--webhooks`.
  package var webhooks = false

  /// A kind of call, and its delays. All ranges are drawn from evenly.
  package struct Part: Sendable, Equatable {
    package var kind: Kind
    package var weight: Double
    package var ringTimeoutSeconds: UInt32 = 30
    /// Invite → alerting, in milliseconds.
    package var alertMs: ClosedRange<Double> = 5...50
    /// First invite → what the part is about (answer, decline, busy, cancel, drop).
    package var actMs: ClosedRange<Double> = 100...1000
    /// After that → the part's second act, where it has one.
    package var thenMs: ClosedRange<Double> = 100...500
    /// The caller is notified of the answer → hang-up.
    package var talkMs: ClosedRange<Double> = 200...2000
    package var awayMs: ClosedRange<Double> = 100...1000
    package var candidates: Double = 0
    /// Share of the calls that are answered after the first act, where the part allows both.
    package var answered: Double = 0.5

    package init(kind: Kind, weight: Double) {
      self.kind = kind
      self.weight = weight
    }
  }

  /// Raw values are those of scenario files.
  package enum Kind: String, Sendable, CaseIterable {
    /// One device answers; either side hangs up.
    case answered
    /// Two devices answer at the same moment.
    case twoAnswer
    case declinedEverywhere
    /// A device declines for itself; then another answers, or it rings out.
    case declinedHere
    case cancelled
    /// The caller cancels at the moment when a device answers.
    case cancelAtAnswer
    /// No device acts.
    case unanswered
    /// Every device is busy.
    case busy
    /// A callee's device drops its socket in mid-ring and comes back; then one of the user's answers.
    case calleeReturns
    /// The caller's device drops its socket in mid-ring and comes back; then a device answers.
    case callerReturns
    /// A callee's device calls the caller back while the call is on its way to it: one of both calls goes on.
    case crossing
    /// One device answers; then the user's others take the call over, all at once.
    case pulled
    /// The callee's rules send the call on to another user, of whose devices one answers.
    case forwarded
    /// A group is called. Its members ring together or in turn; some give the call on, and then one answers.
    case group
    /// After the answer one side hands the call over to a third user, of whose devices one answers or declines.
    case transferred
    /// While the call is answered a third user calls one of its two users.
    case secondCall
    /// After the answer one side calls a third user, who answers, and then hands the first call over to that device.
    case consulted

    /// Whether another call is placed while the first one is answered.
    package var hasSecondCall: Bool { self == .secondCall || self == .consulted }
  }
}

/// Copies of the files of loadtest/scenarios, so that the program needs no files. A test compares them.
extension Scenario {
  package static let builtInTexts: [String: String] = [
    "default": defaultText, "answered": answeredText,
  ]

  package static let builtInNames = ["default", "answered"]

  package static let `default` = named("default") ?? Scenario(name: "", summary: "", parts: [])

  package static func named(_ name: String) -> Scenario? {
    builtInTexts[name].flatMap { try? Scenario(json: $0) }
  }

  private static let defaultText = #"""
    {
      "name": "default",
      "summary": "What a calling product sees in a day, with the races that hurt: answers, declines, cancels, timeouts, devices that drop and return, users who call each other, calls that move to another device, calls that go on to another user, calls to groups, calls that are handed over, also after consultation, calls to users who are in one, what the app's webhook is told of each, and what is in their histories at the end",
      "history": true,
      "webhooks": true,
      "parts": [
        {"kind": "answered", "weight": 35, "alertMs": [5, 50], "actMs": [100, 1000], "talkMs": [200, 2000], "candidates": 0.4},
        {"kind": "twoAnswer", "weight": 10, "actMs": [100, 1000], "talkMs": [200, 1000], "candidates": 0.2},
        {"kind": "declinedEverywhere", "weight": 8, "actMs": [100, 1000]},
        {"kind": "declinedHere", "weight": 6, "ringTimeoutSeconds": 5, "actMs": [100, 600], "thenMs": [100, 600], "answered": 0.8},
        {"kind": "cancelled", "weight": 8, "actMs": [100, 1000]},
        {"kind": "cancelAtAnswer", "weight": 6, "actMs": [100, 1000], "talkMs": [200, 1000]},
        {"kind": "unanswered", "weight": 5, "ringTimeoutSeconds": 5},
        {"kind": "busy", "weight": 5, "actMs": [20, 200]},
        {"kind": "calleeReturns", "weight": 3, "actMs": [100, 500], "awayMs": [100, 1000], "thenMs": [100, 500], "answered": 0.5},
        {"kind": "callerReturns", "weight": 3, "actMs": [100, 500], "awayMs": [100, 1000], "thenMs": [50, 500], "answered": 0.5},
        {"kind": "crossing", "weight": 4, "ringTimeoutSeconds": 5, "actMs": [0, 20], "talkMs": [200, 1000]},
        {"kind": "pulled", "weight": 4, "actMs": [100, 500], "thenMs": [0, 400], "talkMs": [500, 1500]},
        {"kind": "forwarded", "weight": 3, "actMs": [100, 1000], "talkMs": [200, 1000], "candidates": 0.2},
        {"kind": "group", "weight": 3, "actMs": [100, 1000], "thenMs": [100, 500], "talkMs": [200, 1000], "answered": 0.4},
        {"kind": "transferred", "weight": 3, "actMs": [100, 800], "thenMs": [100, 500], "talkMs": [500, 1500], "answered": 0.75},
        {"kind": "secondCall", "weight": 3, "actMs": [100, 600], "thenMs": [1100, 1600], "talkMs": [300, 1000], "answered": 0.7},
        {"kind": "consulted", "weight": 3, "actMs": [100, 600], "thenMs": [300, 800], "talkMs": [500, 1500]}
      ]
    }
    """#

  private static let answeredText = #"""
    {
      "name": "answered",
      "summary": "All devices ring, one answers after 100 ms, the others are stopped, hang-up: what peers are measured with",
      "parts": [
        {"kind": "answered", "weight": 1, "alertMs": [0, 0], "actMs": [100, 100], "talkMs": [100, 100]}
      ]
    }
    """#
}
