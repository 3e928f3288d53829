package import FoundationEssentials
import Glibc

/// The cost of calls and of idle devices in several runs, by their numbers of devices or of coordinators.
package struct SeriesPlot {
  /// The members of a `--json` report that are drawn.
  package struct Run: Decodable {
    struct Devices: Decodable { var connected: Int }
    struct Settings: Decodable {
      var coordinators: Int
      var edges: Int
      var nodes: Int?
    }
    struct Costs: Decodable { var total: Double? }
    struct Idle: Decodable { var cpuUsPerSecondAndDevice: Double? }
    struct Latency: Decodable { var ring: Points? }
    struct Points: Decodable {
      var p50: Double
      var p99: Double
    }
    var devices: Devices
    var settings: Settings
    var cpuUsPerCall: Costs
    var idle: Idle?
    var edgeBytesPerDevice: Double?
    var latencyUs: Latency

    /// - Throws: `DecodingError` where it is no report.
    package init(json: Data) throws {
      let decoder = JSONDecoder()
      decoder.keyDecodingStrategy = .convertFromSnakeCase
      self = try decoder.decode(Self.self, from: json)
    }

    var hasNodes: Bool { settings.nodes ?? 0 > 0 }
    var coordinators: Int { settings.nodes ?? settings.coordinators }
  }

  private let runs: [Run]

  package init(_ runs: [Run]) { self.runs = runs }

  /// The exit status of the program.
  static func draw(_ command: LoadCommand) -> Int32 {
    do {
      guard let path = command.plot else {
        throw SetupError("--from: needs --plot FILE, the file to draw into")
      }
      try RunPlan.checkWritable(path)
      let runs = try command.from.map { file in
        guard let data = FileManager.default.contents(atPath: file) else {
          throw SetupError("--from \(file): cannot be read")
        }
        do { return try Run(json: data) } catch {
          throw SetupError("--from \(file): is no report that callload wrote with --json")
        }
      }
      try Data(SeriesPlot(runs).document().svg().utf8).write(to: URL(filePath: path))
      return 0
    } catch {
      Output.write("callload: \(error)\n", to: STDERR_FILENO)
      return 2
    }
  }

  package func document() -> ChartDocument {
    let charts = [
      chart("CPU of the servers for a call", "µs of CPU") { $0.cpuUsPerCall.total },
      chart("CPU of the servers for a connected device without calls", "µs of CPU per second") {
        $0.idle?.cpuUsPerSecondAndDevice
      },
      chart("Memory of the edges for a connected device", "bytes") { $0.edgeBytesPerDevice },
      chart("ring, median", "µs") { $0.latencyUs.ring?.p50 },
      chart("ring, 99th percentile", "µs") { $0.latencyUs.ring?.p99 },
    ]
    return ChartDocument(
      title: "Costs by \(isByDevices ? "devices" : "coordinators")",
      subtitle: "\(Units.count(runs.count)) runs of callload", charts: charts.compactMap(\.self))
  }

  private var isByDevices: Bool { Set(runs.map(\.devices.connected)).count > 1 }

  /// nil where no run has the figure.
  private func chart(_ title: String, _ unit: String, _ figure: (Run) -> Double?) -> Chart? {
    let lines = Dictionary(grouping: runs, by: name).sorted { $0.key < $1.key }
      .compactMap { name, runs -> Chart.Line? in
        let points = runs.compactMap { run in
          figure(run).map {
            Chart.Point(x: Double(isByDevices ? run.devices.connected : run.coordinators), y: $0)
          }
        }
        return points.isEmpty ? nil : Chart.Line(name: name, points: points)
      }
    guard !lines.isEmpty else { return nil }
    let x =
      isByDevices
      ? Axis("connected devices", isLogarithmic: true) { Units.count(Int($0)) }
      : Axis("coordinators", hasZero: true)
    return Chart(title: title, x: x, y: Axis(unit, hasZero: true), lines: lines)
  }

  private func name(_ run: Run) -> String {
    if run.hasNodes { return "nodes with both roles" }
    return isByDevices
      ? "\(run.settings.coordinators) coordinators, edges apart" : "coordinators and edges apart"
  }
}
