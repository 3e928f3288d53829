import CallLoadKit
import Testing

@Suite("Live display") struct ReportDisplayTests {
  private var calling: LiveStatus {
    var status = LiveStatus()
    status.elapsedSeconds = 21.4
    status.load.phase = .calling
    status.load.done = 3_720
    status.load.total = 6_000
    status.load.rate = 199.8
    status.load.callsLive = 412
    status.load.ringP99 = 1_540
    return status
  }

  @Test("two lines on a terminal") func lines() {
    #expect(
      LiveFrame.lines(calling, width: 79, style: .plain) == [
        "calling      [########################---------------]  62 %  3,720/6,000 calls",
        "             200/s, 412 live, ring p99 1.54 ms, 0 errors, 0 wrong",
      ])
  }

  @Test("no line is wider than the terminal", arguments: 0...120)
  func width(_ width: Int) {
    for line in LiveFrame.lines(calling, width: width, style: .plain) {
      #expect(line.count <= max(width, 1))
    }
  }

  @Test("without a total there is no bar") func step() {
    var status = LiveStatus()
    status.step = "starting nats-server"
    status.elapsedSeconds = 1.2
    #expect(LiveFrame.lines(status, width: 80, style: .plain) == ["starting nats-server 1 s"])
    #expect(LiveFrame.plainLine(status) == "[1 s] starting nats-server")
  }

  @Test("one line in a log") func plain() {
    #expect(
      LiveFrame.plainLine(calling)
        == "[21 s] calling: 3,720/6,000 calls, 200/s, 412 live, ring p99 1.54 ms, 0 errors, 0 wrong"
    )
  }

  @Test("errors are seen at once") func errors() {
    var status = calling
    #expect(!LiveFrame.lines(status, width: 80, style: .colored)[1].contains("\u{1B}"))
    status.load.errors = 1
    #expect(LiveFrame.lines(status, width: 80, style: .colored)[1].contains("\u{1B}[1;31m"))
  }

  @Test("colours: never against NO_COLOR, nor into a file") func terminal() {
    // Descriptor -1 is no terminal.
    #expect(!Terminal(descriptor: -1, environment: [:]).usesColor)
    #expect(!Terminal(descriptor: -1, environment: ["TERM": "xterm"]).isTerminal)
  }
}
