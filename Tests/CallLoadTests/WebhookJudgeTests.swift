import CallCore
import CallLoadKit
import Testing

/// The faults that callload finds in the events of webhooks.
@Suite struct WebhookJudgeTests {
  private static let call = CallID(high: 1, low: 2)
  private static let calm: [AppEventKind] = [.placed, .ringing, .answered, .ended]

  /// A call that was answered and hung up.
  private func fate() -> CallFate {
    var fate = CallFate(call: Self.call, caller: 0, callee: "u1")
    (fate.isAccepted, fate.hasRung, fate.answeredBy, fate.reason) = (true, true, 3, .hungUp)
    return fate
  }

  private func missedCall() -> CallFate {
    var fate = CallFate(call: Self.call, caller: 0, callee: "u1")
    (fate.isAccepted, fate.reason, fate.missedBy) = (true, .cancelled, [1])
    return fate
  }

  private func event(
    _ kind: AppEventKind, reason: String = "hungUp", isMissed: Bool = false, time: Int = 5
  ) -> WebhookEvent {
    let isEnd = kind == .ended || kind == .missed
    return WebhookEvent(
      call: Self.call, kind: kind, id: "call_\(Self.call)_\(time)_\(kind.name)",
      reason: isEnd ? reason : nil, isMissed: isMissed)
  }

  /// The counts that are not 0.
  private func judge(_ fates: [CallFate], _ events: [WebhookEvent]) -> [CorrectnessRule: Int] {
    var judge = WebhookJudge(apps: ["load"])
    for event in events { judge.receive(event) }
    var result = RunResult()
    judge.judge(fates.map { WebhookDue($0) }, into: &result)
    for (rule, count) in result.correctness {
      #expect(result.examples[rule]?.count == min(count, 3))
    }
    return result.correctness
  }

  @Test func allEventsInOrder() {
    let events = Self.calm.map { event($0) }
    #expect(judge([fate()], events) == [:])
    // One that comes again, also after later ones, is the same event.
    #expect(judge([fate()], events + [events[0], events[2]]) == [:])
  }

  @Test(arguments: calm) func eachEventMayBeLost(kind: AppEventKind) {
    let events = Self.calm.filter { $0 != kind }.map { event($0) }
    #expect(judge([fate()], events) == [.webhookLost: 1])
  }

  @Test func allEventsOfACallAreLost() {
    #expect(judge([fate()], []) == [.webhookLost: 4])
    #expect(judge([missedCall()], []) == [.webhookLost: 3])
  }

  @Test func aMissedCallIsToldAsOne() {
    func events(_ kinds: AppEventKind..., isMissed: Bool = true) -> [WebhookEvent] {
      kinds.map { event($0, reason: "cancelled", isMissed: isMissed) }
    }
    #expect(judge([missedCall()], events(.placed, .ended, .missed)) == [:])
    #expect(judge([missedCall()], events(.placed, .ended)) == [.webhookLost: 1])
    let contradiction = events(.placed, .ended, .missed, isMissed: false)
    #expect(judge([missedCall()], contradiction) == [.webhookInvented: 1])
    // By the event itself, where no device was told.
    var untold = missedCall()
    untold.missedBy = []
    #expect(judge([untold], events(.placed, .ended)) == [.webhookLost: 1])
    #expect(judge([untold], events(.placed, .ended, isMissed: false)) == [:])
  }

  @Test func anAnswerThatNobodyWasToldOf() {
    let answered = event(.answered)
    let events = [event(.placed), answered, event(.ended, reason: "cancelled", isMissed: true)]
    let missed = event(.missed, reason: "cancelled", isMissed: true)
    #expect(judge([missedCall()], events + [missed]) == [.webhookInvented: 1])
    // A caller that was away knows of no answer.
    var away = missedCall()
    (away.reason, away.missedBy) = (nil, [])
    #expect(judge([away], [event(.placed), answered, event(.ended)]) == [:])
  }

  @Test func anotherEndThanTheCallerWasTold() {
    let events = [event(.placed), event(.ringing), event(.answered)]
    #expect(judge([fate()], events + [event(.ended, reason: "failed")]) == [.webhookInvented: 1])
  }

  @Test func aCallThatNobodyPlaced() {
    #expect(judge([], Self.calm.map { event($0) }) == [.webhookInvented: 1])
  }

  @Test func anEventUnderTheIDOfAnotherCall() {
    var events = Self.calm.map { event($0) }
    events[3] = event(.ended, time: 6)
    #expect(judge([fate()], events) == [.webhookInvented: 1])
    events[3] = event(.ended)
    events[3].app = "other"
    #expect(judge([fate()], events) == [.webhookInvented: 1, .webhookLost: 1])
  }

  @Test func eventsOutOfOrder() {
    let kinds: [AppEventKind] = [.placed, .answered, .ringing, .ended]
    #expect(judge([fate()], kinds.map { event($0) }) == [.webhookOutOfOrder: 1])
    #expect(judge([fate()], Self.calm.reversed().map { event($0) }) == [.webhookOutOfOrder: 3])
  }

  /// A place without a reply may have been taken or not.
  @Test func nothingIsDueOfACallThatWasNotConfirmed() {
    let unknown = CallFate(call: Self.call, caller: 0, callee: "u1")
    #expect(judge([unknown], []) == [:])
    #expect(judge([unknown], [event(.placed)]) == [:])
  }

  /// The calls of a run, as devices saw them: the twin has no webhooks of its own.
  @Test func everyCallOfARunIsReported() throws {
    let result = try #require(try TwinRun(durationSeconds: 10).outcome()).result
    #expect(result.webhooksDue.count == result.callsPlaced)
    #expect(Set(result.webhooksDue.map(\.call)).count == result.callsPlaced)
    #expect(result.webhooksDue.allSatisfy { $0.needed.contains(.placed) })
    let reasons = Set(result.webhooksDue.compactMap(\.reason))
    #expect(reasons.isSuperset(of: ["hungUp", "declined", "cancelled", "unanswered", "glare"]))
  }

  @Test func anEventIsReadAsItIsDocumented() throws {
    let text = """
      {"type":"call.ended","id":"call_6ba7b810-9dad-11d1-80b4-00c04fd430c8_1800000000000_ended",\
      "timestamp":"2027-01-15T08:01:10.000Z","app":"demo","data":{\
      "call":"6ba7b810-9dad-11d1-80b4-00c04fd430c8","caller":{"user":"ann","device":"phone"},\
      "callee":{"user":"bob"},"video":false,"placedAt":"2027-01-15T08:00:00.000Z",\
      "endedAt":"2027-01-15T08:01:10.000Z","reason":"hungUp","missed":false}}
      """
    let event = try #require(WebhookEvent(json: [UInt8](text.utf8)))
    #expect(event.call == CallID("6ba7b810-9dad-11d1-80b4-00c04fd430c8"))
    #expect(event.kind == .ended && event.app == "demo")
    #expect(event.reason == "hungUp" && !event.isMissed)
    for wrong in ["", "{}", text.replacing("call.ended", with: "call.napped")] {
      #expect(WebhookEvent(json: [UInt8](wrong.utf8)) == nil)
    }
  }
}
