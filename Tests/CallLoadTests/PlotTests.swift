import CallCore
import CallLoadKit
import Foundation
import Testing

@Suite("--plot") struct PlotTests {
  private func report(seconds: Double = 30) -> RunReport {
    var report = makeReport()
    var series = LatencySeries(durationSeconds: seconds)
    for second in 0..<Int(seconds) {
      for value in 1...100 {
        let span = Span(microseconds: Int64(value * 100 + second))
        series.record(.ring, span, dueSeconds: Double(second) + 0.2)
      }
    }
    series.record(.answer, .milliseconds(3), dueSeconds: seconds - 0.1)
    series.record(.connect, .milliseconds(3), dueSeconds: 1)
    report.result.series = series
    var chaos = ChaosResult()
    var course = ChaosResult.Course(fault: 1, kind: .killAllEdges, node: "edges", atSeconds: 10)
    course.liftedSeconds = 12
    chaos.courses = [course]
    report.result.chaos = chaos
    report.settings.chaos = "a <b> & c"
    return report
  }

  /// Whether each element is closed, in the right order.
  private func isWellFormed(_ svg: String) -> Bool {
    var open: [Substring] = []
    for tag in svg.matches(of: /<(\/?)([a-z]+)[^<>]*?(\/?)>/) {
      if !tag.1.isEmpty {
        guard open.popLast() == tag.2 else { return false }
      } else if tag.3.isEmpty {
        open.append(tag.2)
      }
    }
    return open.isEmpty
  }

  @Test("a chart for each phase, with its percentiles in each second, and the faults")
  func run() throws {
    let document = try #require(report().plot())
    #expect(document.charts.map(\.lines.count) == [3, 3], "nothing was recorded of elsewhere")
    let ring = document.charts[0]
    #expect(ring.lines.map(\.name) == ["p50", "p99", "max"])
    #expect(ring.lines[0].points.map(\.x) == (0..<30).map { Double($0) + 0.5 })
    // To a hundredth.
    #expect(
      ring.lines.map { $0.points[7].y.rounded() / 100 }.map { $0.rounded() } == [50, 99, 100])
    #expect(ring.marks.map(\.name) == ["kill-all-edges"])
    #expect(ring.marks.map(\.from) == [10])
    #expect(ring.marks.map(\.to) == [12])
    let svg = document.svg()
    #expect(svg.hasPrefix("<svg xmlns=\"http://www.w3.org/2000/svg\""))
    #expect(isWellFormed(svg))
    #expect(svg.matches(of: /<polyline/).count == 6)
    #expect(svg.contains("a &lt;b&gt; &amp; c"))
    #expect(svg.contains("prefers-color-scheme:dark"))
    #expect(svg.contains("kill-all-edges</text>"))
    #expect(svg.contains("seconds since the first call"))
    #expect(svg.contains(">10.0 ms</text>") || svg.contains(">10 ms</text>"), "\(svg)")
  }

  @Test("without --plot there is nothing to draw") func none() {
    #expect(makeReport().plot() == nil)
  }

  @Test("a long run has longer intervals, and what is due late is in the last one") func long() {
    var series = LatencySeries(durationSeconds: 86_400)
    #expect(series.slotSeconds == 360)
    for second in stride(from: 0, through: 90_000, by: 10) {
      series.record(.ring, .milliseconds(1), dueSeconds: Double(second))
    }
    let points = series.points(.ring)
    #expect(points.count == 240)
    #expect(points.map { $0.1.count }.reduce(0, +) == 9_001)
    #expect(points.last?.seconds == 86_220)
  }

  private func run(_ json: String) throws -> SeriesPlot.Run {
    try SeriesPlot.Run(json: Data(json.utf8))
  }

  /// A report as `--json` writes it.
  private func run(devices: Int, nodes: Int = 0, coordinators: Int = 2, cpu: UInt64)
    throws -> SeriesPlot.Run
  {
    var report = makeReport()
    report.result.devicesConnected = devices
    report.settings.nodes = nodes
    report.settings.coordinators = nodes > 0 ? 0 : coordinators
    report.idle = IdleUsage(
      seconds: 2, devices: devices,
      processes: [
        ProcessUsage(role: .edge, name: "edge-1", cpuMicroseconds: cpu, memoryBytes: 1)
      ], ownCPUMicroseconds: 5)
    return try SeriesPlot.Run(json: report.json().encoded())
  }

  @Test("costs by devices, a line for each kind of cluster") func byDevices() throws {
    let document = SeriesPlot([
      try run(devices: 10_000, nodes: 2, cpu: 40_000), try run(devices: 1_000, cpu: 20_000),
      try run(devices: 10_000, cpu: 60_000), try run(devices: 30_000, cpu: 90_000),
    ]).document()
    #expect(document.title == "Costs by devices")
    #expect(document.charts.count == 5)
    let idle = document.charts[1]
    #expect(idle.lines.map(\.name) == ["2 coordinators, edges apart", "nodes with both roles"])
    #expect(
      idle.lines[0].points == [
        Chart.Point(x: 1_000, y: 10), Chart.Point(x: 10_000, y: 3), Chart.Point(x: 30_000, y: 1.5),
      ])
    #expect(idle.lines[1].points == [Chart.Point(x: 10_000, y: 2)])
    let svg = document.svg()
    #expect(isWellFormed(svg))
    #expect(svg.matches(of: /<circle/).count == 5 * 4)
    #expect(svg.contains(">10,000</text>"))
    #expect(svg.contains("connected devices</text>"))
  }

  @Test("costs by coordinators, where the devices are the same") func byCoordinators() throws {
    let document = SeriesPlot([
      try run(devices: 3_000, coordinators: 1, cpu: 1), try run(devices: 3_000, nodes: 4, cpu: 1),
      try run(devices: 3_000, coordinators: 4, cpu: 1),
    ]).document()
    #expect(document.title == "Costs by coordinators")
    #expect(document.charts[0].lines.map { $0.points.map(\.x) } == [[1, 4], [4]])
  }

  @Test("another file is refused") func otherFiles() {
    #expect(throws: (any Error).self) { try run("{}") }
    #expect(throws: (any Error).self) { try run("no JSON") }
  }

  @Test("an axis ends at round numbers around its values") func axes() {
    func chart(_ y: Axis, _ values: [Double]) -> String {
      let points = values.enumerated().map { Chart.Point(x: Double($0.offset), y: $0.element) }
      return ChartDocument(
        title: "", subtitle: "",
        charts: [
          Chart(title: "", x: Axis("x"), y: y, lines: [Chart.Line(name: "l", points: points)])
        ]
      ).svg()
    }
    let linear = chart(Axis("y", hasZero: true) { "y\(Units.trimmed($0, 3))y" }, [130, 970])
    #expect(
      linear.matches(of: /y[0-9]+y/).map { String($0.output) } == [
        "y0y", "y200y", "y400y", "y600y", "y800y", "y1000y",
      ])
    let logarithmic = chart(
      Axis("y", isLogarithmic: true) { "y\(Units.trimmed($0, 3))y" }, [0, 30, 70_000])
    #expect(
      logarithmic.matches(of: /y[0-9]+y/).map { String($0.output) } == [
        "y100y", "y1000y", "y10000y", "y100000y",
      ])
    for values in [[5.0], [], [0, 0], [.nan, 3]] {
      #expect(isWellFormed(chart(Axis("y"), values)))
      #expect(!chart(Axis("y", isLogarithmic: true), values).contains("nan"))
    }
  }
}
