import CallTelemetry
import Testing
import callctl

/// Why a device that was to be woken by a push rang, or did not.
@Suite struct PushStoryTests {
  /// A sleeper's leg; `events` are of its push that rings.
  private static func sleeper(
    _ state: String, reason: String? = "unanswered",
    _ events: [(Int64, String, String?)], others: [(Int64, String?, String)] = []
  ) -> CallReport {
    var report = Story.report([("phone", state)], reason: reason, others)
    let start = report.timeline![0].atMicroseconds
    report.timeline! += events.map {
      .init(
        atMicroseconds: start + $0.0 * 1000, device: "phone", user: "bob", what: $0.1,
        purpose: "ring", reason: $0.2)
    }
    return report
  }

  @Test("no gateway has said what became of it: that is told, and where to look")
  func pushWithoutGateway() {
    let report = Self.sleeper(
      "stopped", [(2, "push queued", nil)], others: [(30_000, "phone", "ended")])
    #expect(
      Story.sentence(report)
        == "did not come: it had no session, and the push that was to wake it was "
        + "queued after 2.0 ms, but no push gateway has said what became of it: does one run that "
        + "serves its provider? callctl status tells; stopped after 30.0 s because nobody answered "
        + "in time.")
    #expect(Story.text(report).contains("push queued (ring)"))
  }

  @Test(
    "each outcome has its words",
    arguments: [
      ("push accepted", nil, "accepted by its provider after 300 ms, but it did not attach"),
      ("push token gone", nil, "found its token gone after 300 ms"),
      ("push rejected", "BadTopic", "was refused after 300 ms (BadTopic)"),
      ("push expired", nil, "was not sent: its deadline passed, or the call was over first"),
      ("push failed", "no route", "failed after 300 ms (no route)"),
    ] as [(String, String?, String)])
  func pushOutcomes(what: String, reason: String?, words: String) {
    for state in ["stopped", "gone", "waking"] {
      let report = Self.sleeper(state, [(2, "push queued", nil), (300, what, reason)])
      let sentence = Story.sentence(report)
      #expect(sentence.hasPrefix("did not come: it had no session"))
      #expect(sentence.contains(words), "\(sentence)")
      #expect(!sentence.contains("gateway has said"))
    }
  }

  @Test("a silent socket and a push beside it") func pushBesideTheSocket() {
    let report = Self.sleeper(
      "stopped", [(2000, "push queued", nil)],
      others: [(0, "phone", "delivered"), (500, "phone", "repeated")])
    let sentence = Story.sentence(report)
    #expect(sentence.hasPrefix("did not ring: the invite was sent 2 times and never acknowledged"))
    #expect(sentence.contains(" The push that was to wake it was queued after 2.0 s, but no push"))
  }

  @Test("a push of another purpose woke nobody") func cleanUpsAreNoRings() {
    var report = Story.report([("phone", "stopped")], reason: "cancelled", [])
    let start = report.timeline![0].atMicroseconds
    report.timeline?.append(
      .init(
        atMicroseconds: start, device: "phone", user: "bob", what: "push queued",
        purpose: "missedNotice"))
    #expect(Story.sentence(report).hasPrefix("did not ring: it had no session; stopped"))
  }

  @Test("a woken device that rang is told of like any other") func pushThatWorked() {
    let report = Self.sleeper(
      "won", reason: nil, [(2, "push queued", nil), (300, "push accepted", nil)],
      others: [
        (900, "phone", "delivered"), (950, "phone", "alerting"), (2000, "phone", "answered"),
      ])
    #expect(Story.sentence(report) == "rang after 950 ms and answered after 2.0 s.")
  }

  @Test("where events had no room it is not said what did not happen")
  func pushOfACallWithoutRoom() {
    let events: [(Int64, String, String?)] = [(2, "push queued", nil), (300, "push accepted", nil)]
    for (count, fate) in [
      (1, "was queued after 2.0 ms."), (2, "was accepted by its provider after 300 ms."),
    ] {
      var report = Self.sleeper(
        "stopped", Array(events.prefix(count)), others: [(30_000, "phone", "ended")])
      report.timelineDropped = 1
      #expect(
        Story.sentence(report)
          == "had a part in the call, but whether it rang is not known: more happened in the call "
          + "than is kept; stopped after 30.0 s because nobody answered in time. The push that was "
          + "to wake it \(fate)")
    }
  }
}
