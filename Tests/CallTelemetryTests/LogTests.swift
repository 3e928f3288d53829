import CallTelemetry
import Logging
import Synchronization
import Testing

@Suite struct LogLineTests {
  private static let time: Int64 = 1_767_323_045_678

  @Test func text() {
    let line = LogLine.text(
      milliseconds: Self.time, level: "info", label: "callnode", message: "shard taken over",
      metadata: [("epoch", "4"), ("error", "no \"route\"\n")])
    #expect(
      line == """
        2026-01-02T03:04:05.678Z info    callnode: shard taken over  epoch=4 \
        error="no \\"route\\"\\n"

        """)
  }

  @Test func nothingFromOutsideBeginsALineOrMovesTheCursor() {
    let line = LogLine.text(
      milliseconds: 0, level: "warning", label: "x", message: "a\nb\u{1B}[2J",
      metadata: [("user", "\u{9B}2J"), ("device", "")])
    #expect(
      line
        == "1970-01-01T00:00:00.000Z warning x: a\\nb\\u001b[2J  user=\"\\u009b2J\" device=\"\"\n")
  }

  @Test func json() {
    let line = LogLine.json(
      milliseconds: Self.time, level: "error", label: "callnode", message: "say \"hi\"",
      metadata: [("call", "c-1"), ("time", "late")])
    #expect(
      line == """
        {"time":"2026-01-02T03:04:05.678Z","level":"error","logger":"callnode",\
        "message":"say \\"hi\\"","call":"c-1","time_":"late"}

        """)
  }

  /// The key decides, not the look: a user may be called 42.
  @Test func numbersAreNumbersInJSON() {
    let line = LogLine.json(
      milliseconds: Self.time, level: "info", label: "x", message: "m",
      metadata: [
        ("count", "-3"), ("device", "7"), ("epoch", "18446744073709551615"), ("port", "8080"),
        ("sequence", "0"), ("session", "12"), ("shard", "17"), ("user", "42"), ("other", "1"),
      ])
    #expect(
      line == """
        {"time":"2026-01-02T03:04:05.678Z","level":"info","logger":"x","message":"m","count":-3,\
        "device":"7","epoch":18446744073709551615,"port":8080,"sequence":0,"session":"12",\
        "shard":17,"user":"42","other":"1"}

        """)
  }

  /// The line stays JSON whatever a value is.
  @Test(arguments: [
    "", "1 session", "+1", "007", "1e3", "0x10", "-0", "99999999999999999999", "1\n",
  ])
  func whatIsNoWholeNumberStaysText(value: String) {
    let line = LogLine.json(
      milliseconds: Self.time, level: "info", label: "x", message: "m",
      metadata: [("count", value)])
    #expect(line.contains(#""count":"\#(JSONText.escaped(value))"}"#), "\(line)")
  }

  @Test(arguments: [
    (-1, "1969-12-31T23:59:59.999Z"), (951_782_400_000, "2000-02-29T00:00:00.000Z"),
    (4_102_444_799_999, "2099-12-31T23:59:59.999Z"), (68_169_600_000, "1972-02-29T00:00:00.000Z"),
  ]) func dates(milliseconds: Int64, text: String) {
    #expect(CalendarTime.text(milliseconds: milliseconds) == text)
  }
}

@Suite struct LogHandlerTests {
  /// The lines that the handler wrote.
  private final class Sink: Sendable {
    let lines = Mutex<[String]>([])
    func append(_ line: String) { lines.withLock { $0.append(line) } }
  }

  @Test func mergesMetadataAndHonoursTheLevel() {
    let sink = Sink()
    var logger = Logger(label: "test") { label in
      LineLogHandler(label: label, logLevel: .info, asJSON: false) { sink.append($0) }
    }
    logger[.node] = "n-1"
    logger[.shard] = "3"
    logger.debug("not seen")
    logger.with([.epoch: "7"]).info("seen", metadata: .keys([.shard: "4"]))
    let lines = sink.lines.withLock { $0 }
    #expect(lines.count == 1)
    #expect(lines.first?.hasSuffix(" info    test: seen  epoch=7 node=n-1 shard=4\n") == true)
  }
}

@Suite struct ProcessSampleTests {
  @Test func thisProcess() {
    #expect(ProcessSample.cpuSeconds > 0)
    #expect(ProcessSample.memoryBytes > 1 << 20)
    #expect(ProcessSample.uptimeSeconds >= 0)
    #expect(ProcessSample.processID > 0)
  }

  @Test func fieldsOfProc() {
    #expect(ProcessSample.residentPages(inStatm: "1000 250 3 4 5 6 0\n") == 250)
    #expect(ProcessSample.residentPages(inStatm: "") == 0)
    let stat = "7 (a b) c) S " + (1...18).map(String.init).joined(separator: " ") + " 4711 9"
    #expect(ProcessSample.startTicks(inStat: stat) == 4711)
    #expect(ProcessSample.startTicks(inStat: "7 (x") == nil)
  }
}
