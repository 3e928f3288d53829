/// The files of loadtest/scenarios, so that the program needs none of them. A test compares.
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
      "summary": "What a calling product sees in a day, with the races that hurt: answers, declines, cancels, timeouts, devices that drop and return",
      "parts": [
        {"kind": "answered", "weight": 46, "alertMs": [5, 50], "actMs": [100, 1000], "talkMs": [200, 2000], "candidates": 0.4},
        {"kind": "twoAnswer", "weight": 10, "actMs": [100, 1000], "talkMs": [200, 1000], "candidates": 0.2},
        {"kind": "declinedEverywhere", "weight": 8, "actMs": [100, 1000]},
        {"kind": "declinedHere", "weight": 6, "ringTimeoutSeconds": 5, "actMs": [100, 600], "thenMs": [100, 600], "answered": 0.8},
        {"kind": "cancelled", "weight": 8, "actMs": [100, 1000]},
        {"kind": "cancelAtAnswer", "weight": 6, "actMs": [100, 1000], "talkMs": [200, 1000]},
        {"kind": "unanswered", "weight": 5, "ringTimeoutSeconds": 5},
        {"kind": "busy", "weight": 5, "actMs": [20, 200]},
        {"kind": "calleeReturns", "weight": 3, "actMs": [100, 500], "awayMs": [100, 1000], "thenMs": [100, 500], "answered": 0.5},
        {"kind": "callerReturns", "weight": 3, "actMs": [100, 500], "awayMs": [100, 1000], "thenMs": [50, 500], "answered": 0.5}
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
