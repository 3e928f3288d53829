import CallLoadKit
import Testing

@Suite("Search for the highest rate") struct ReportSearchTests {
  /// Runs a search against a cluster that holds up to `limit`.
  private func search(from start: Double, limit: Double) -> (RateSearch, tried: [Double]) {
    var search = RateSearch(start: start)
    var tried: [Double] = []
    while let rate = search.next, tried.count < 100 {
      tried.append(rate)
      search.record(rate, holds: rate <= limit)
    }
    return (search, tried)
  }

  @Test("doubles, then halves the interval") func doublesThenBisects() {
    let (search, tried) = search(from: 200, limit: 1_100)
    #expect(tried == [200, 400, 800, 1_600, 1_200, 1_000, 1_100, 1_150])
    #expect(search.held == 1_100)
    #expect(search.failed == 1_150)
  }

  @Test("goes down where already the first rate fails") func goesDown() {
    let (search, tried) = search(from: 200, limit: 60)
    #expect(tried.prefix(3) == [200, 100, 50])
    #expect((search.held ?? 0) <= 60)
    #expect((search.held ?? 0) > 55)
  }

  @Test("ends", arguments: [0.1, 1, 4, 5, 6, 199, 200, 201, 99_999, 1_000_000])
  func ends(_ limit: Double) {
    let (search, tried) = search(from: 200, limit: limit)
    #expect(tried.count < 40)
    #expect(Set(tried).count == tried.count)
    if limit >= 5 { #expect((search.held ?? 0) <= limit) } else { #expect(search.held == nil) }
  }

  @Test("a stage that went well holds") func holds() {
    let stage = SearchStage(rate: 200, result: makeResult(), cpuPerCall: nil, ringP99Max: 25_000)
    #expect(stage.holds)
    #expect(stage.placedPerSecond == 200)
  }

  @Test("each reason not to hold is named") func reasons() {
    var result = makeResult()
    result.failures = ["x": 2]
    result.callsCompleted -= 1
    result.correctness = [.noWinner: 1]
    let stage = SearchStage(rate: 300, result: result, cpuPerCall: nil, ringP99Max: 500)
    #expect(
      stage.reasons == [
        "2 failures", "1 calls not completed", "no winner: 1", "ring p99 above 500 µs",
        "callload placed only 200/s",
      ])
  }

  @Test("the table says what holds and why the rest does not") func table() {
    let good = SearchStage(rate: 200, result: makeResult(), cpuPerCall: 410, ringP99Max: 25_000)
    var result = makeResult()
    result.failures = ["x": 2]
    let bad = SearchStage(rate: 205, result: result, cpuPerCall: nil, ringP99Max: 25_000)
    let report = SearchReport(stages: [good, bad], ringP99Max: 25_000)
    #expect(
      report.text(.plain) == [
        "Search for the highest rate that holds",
        "  calls/s asked  placed  calls  ring p50  ring p99  CPU µs/call  holds",
        "  200             200.0  6,000    510 µs   1.00 ms          410    yes",
        "  205             200.0  6,000    510 µs   1.00 ms            –     no  2 failures",
        "",
        "200 calls/s hold (no failure, every correctness count 0, ring p99 at most 25.0 ms)",
      ])
  }

  @Test("it says so when no rate holds") func nothingHolds() {
    #expect(
      SearchReport(stages: [], ringP99Max: 25_000).text(.plain).last
        == "no rate held (no failure, every correctness count 0, ring p99 at most 25.0 ms)")
  }
}
