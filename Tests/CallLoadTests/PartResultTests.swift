import CallCore
import CallLoadKit
import Foundation
import Testing

/// Results of several processes add up to that of one.
@Suite("Results of parts") struct PartResultTests {
  /// A result in which every field has a value of its own.
  private func filled() -> RunResult {
    var histogram = LatencyHistogram()
    for value: Int64 in [3, 5_000, 5_000, 2_000_000] { histogram.record(Span(microseconds: value)) }
    var chaos = ChaosResult()
    chaos.injected = [.killEdge: 2]
    chaos.placedDuring = [.killEdge: [.asPlanned: 3, .changed: 1]]
    chaos.takeOvers = [
      .init(
        fault: 1, kind: .killCoordinator, node: "c", atSeconds: 1, shards: 4, microseconds: 900)
    ]
    var course = ChaosResult.Course(fault: 1, kind: .killAllEdges, node: "e", atSeconds: 2)
    (course.liftedSeconds, course.disconnected, course.neverBack) = (3, 40, 1)
    course.allBackMicroseconds = 7_000
    chaos.courses = [course]
    chaos.slow = ["slow"]
    chaos.shardSilence = [.killCoordinator: histogram]
    (chaos.handOver, chaos.commandWait, chaos.reconnect) = (histogram, histogram, histogram)
    (chaos.commandsRetried, chaos.reconnects) = (5, 6)
    chaos.changed = ["late": 1]
    var pushes = PushResult()
    (pushes.sleeping, pushes.expired, pushes.woken, pushes.neverWoken) = (1, 2, 3, 4)
    (pushes.wokenLate, pushes.actedByPush, pushes.unreadable) = (5, 6, 7)
    pushes.goodTokensRefused = 13
    (pushes.pushes, pushes.late, pushes.answers) = ([.ring: 8], [.ring: 9], ["200": 10])
    (pushes.cleanUpsSent, pushes.cleanUpsRead) = (["none": 11], ["none": 12])
    (pushes.toProvider, pushes.toAttached) = (histogram, histogram)
    var series = LatencySeries(durationSeconds: 10)
    series.record(.ring, Span(microseconds: 700), dueSeconds: 4.5)
    var result = RunResult()
    (result.devicesExpected, result.devicesConnected, result.devicesRegistered) = (10, 9, 8)
    (result.registrationsOfUnknownFate, result.callsExpected) = (1, 7)
    (result.callsPlaced, result.callsCompleted) = (6, 5)
    (result.callsByPart, result.failures) = (["answered": 6], ["cause": 1])
    result.failureExamples = ["cause": "story"]
    (result.correctness, result.examples) = ([.twoWinners: 2], [.twoWinners: ["a", "b"]])
    result.latency = [.ring: histogram]
    result.series = series
    result.rings = [RingSample(dueSeconds: 1, microseconds: 2)]
    (result.loadSeconds, result.rampSeconds, result.interrupted) = (30, 3, true)
    result.nearerMoves = 4
    (result.chaos, result.pushes) = (chaos, pushes)
    result.webhooksDue = [
      WebhookDue(CallFate(call: CallID(high: 1, low: 2), caller: 3, callee: "u1"))
    ]
    result.webhooks = WebhookResult(calls: 1, events: 2, repeated: 3, refused: 4)
    var history = HistoryResult()
    (history.users, history.entries, history.callsOfBothSides) = (1, 2, 3)
    result.history = history
    var ongoing = OngoingResult()
    (ongoing.states, ongoing.calls) = (1, 2)
    result.ongoing = ongoing
    var hook = HookResult()
    (hook.questions, hook.answers, hook.unreadable) = (1, ["allow": 2], 3)
    result.hook = hook
    return result
  }

  /// Nothing happened yet, but all parts of a result are there.
  private func blank() -> RunResult {
    var result = RunResult()
    result.chaos = ChaosResult()
    result.pushes = PushResult()
    (result.history, result.ongoing) = (HistoryResult(), OngoingResult())
    result.series = LatencySeries(durationSeconds: 10)
    return result
  }

  private func fields(_ value: some Encodable) throws -> [String: JSONValue] {
    guard
      case .object(let members) = try JSONDecoder().decode(
        JSONValue.self, from: JSONEncoder().encode(value))
    else { return [:] }
    return members
  }

  private func labels(_ value: Any) -> Set<String> {
    Set(Mirror(reflecting: value).children.compactMap(\.label))
  }

  @Test("no field is forgotten, in the result and in its parts")
  func everyFieldIsAdded() throws {
    let part = filled()
    var sum = blank()
    sum.add(part)
    func compare(_ got: some Encodable, _ part: some Encodable, _ blank: some Encodable) throws {
      let (got, want, none) = (try fields(got), try fields(part), try fields(blank))
      #expect(Set(want.keys) == labels(part), "the fixture fills every field, and all are encoded")
      for (name, value) in want {
        #expect(value != none[name], "the fixture gives \(name) no value of its own")
        #expect(got[name] == value, "\(name)")
      }
    }
    try compare(sum, part, blank())
    try compare(#require(sum.chaos), #require(part.chaos), ChaosResult())
    try compare(#require(sum.pushes), #require(part.pushes), PushResult())
    try compare(#require(sum.history), #require(part.history), HistoryResult())
    try compare(#require(sum.ongoing), #require(part.ongoing), OngoingResult())
  }

  @Test("a result is the same after its journey") func journey() throws {
    let sent = filled()
    let arrived = try JSONDecoder().decode(RunResult.self, from: JSONEncoder().encode(sent))
    #expect(try fields(arrived) == fields(sent))
    #expect(arrived.latency[.ring]?.totalCount == 4)
    #expect(arrived.latency[.ring]?.max == sent.latency[.ring]?.max)
    #expect(arrived.latency[.ring]?.mean == sent.latency[.ring]?.mean)
  }

  @Test("counts add up, faults do not, and the longest time counts") func twoParts() throws {
    var (one, other) = (filled(), filled())
    other.chaos?.takeOvers[0].microseconds = 1_200
    other.chaos?.courses[0].allBackMicroseconds = 9_000
    other.rampSeconds = 4
    other.interrupted = false
    one.add(other)
    #expect(one.devicesExpected == 20)
    #expect(one.callsByPart == ["answered": 12])
    #expect(one.correctness == [.twoWinners: 4])
    #expect(one.examples[.twoWinners] == ["a", "b", "a"], "no more than of one process")
    #expect(one.rampSeconds == 4)
    #expect(one.interrupted)
    let chaos = try #require(one.chaos)
    #expect(chaos.injected == [.killEdge: 2])
    #expect(chaos.placedDuring == [.killEdge: [.asPlanned: 6, .changed: 2]])
    #expect(chaos.takeOvers.map(\.microseconds) == [1_200])
    #expect(chaos.courses.map(\.disconnected) == [80])
    #expect(chaos.courses.map(\.allBackMicroseconds) == [9_000])
    #expect(chaos.neverBack == 2)
    other.chaos?.takeOvers[0].microseconds = nil
    one.add(other)
    #expect(one.chaos?.neverAnswered == 1)
  }

  @Test("percentiles of a sum are those of all values") func exactSum() {
    var (one, other, all) = (LatencyHistogram(), LatencyHistogram(), LatencyHistogram())
    for value: Int64 in 1...20_000 {
      let span = Span(microseconds: value * value)
      if value % 3 == 0 { one.record(span) } else { other.record(span) }
      all.record(span)
    }
    one.add(other)
    for percentile in [0, 50, 90, 99, 99.9, 100] {
      #expect(one.valueAtPercentile(percentile) == all.valueAtPercentile(percentile))
    }
    #expect(one.totalCount == 20_000)
    #expect(one.max == all.max)
    #expect(one.mean == all.mean)
  }

  @Test(
    "what is no histogram is refused",
    arguments: ["[1]", "[5,4294967295,6,4294967295]", "[4294967295,1]", "[1,\"x\"]", "7"])
  func nonsense(_ values: String) {
    let json = Data(#"{"precision":"fine","values":\#(values)}"#.utf8)
    #expect(throws: (any Error).self) {
      try JSONDecoder().decode(LatencyHistogram.self, from: json)
    }
  }

  @Test("progress is that of all, in the phase of the last one") func progress() {
    var (one, other) = (LoadProgress.Snapshot(), LoadProgress.Snapshot())
    (one.phase, one.done, one.total, one.callsLive, one.faults) = (.calling, 30, 100, 4, 1)
    (other.phase, other.done, other.total, other.callsLive, other.faults) = (.settling, 7, 50, 2, 1)
    (one.ringP99, other.rate, other.callsPlaced) = (900, 12, 50)
    let sum = LoadProgress.Snapshot(sum: [one, other])
    #expect(sum.phase == .calling)
    #expect((sum.done, sum.total, sum.callsLive, sum.faults) == (80, 150, 6, 1))
    #expect(sum.ringP99 == 900)
    #expect(sum.rate == 12)
  }

  @Test("a part that is ahead has done what its phase asked") func progressOfDevices() {
    var (one, other) = (LoadProgress.Snapshot(), LoadProgress.Snapshot())
    (one.phase, one.done, one.total, one.devicesConnected) = (.registering, 10, 90, 100)
    (other.phase, other.done, other.total, other.devicesConnected) = (.calling, 3, 500, 101)
    let sum = LoadProgress.Snapshot(sum: [one, other])
    #expect(sum.phase == .registering)
    #expect((sum.done, sum.total) == (111, 191))
  }
}
