import CallCore
import CallProcesses
package import FoundationEssentials

/// The report that one slice of a run wrote with `--json`, as far as the reports of all slices add up to one. Names are
/// those of the file, without underscores.
package struct SliceReport: Decodable {
  struct Devices: Decodable {
    var expected, connected, registered, perUser: Int
    var nearerMoves: Int?
  }
  struct Calls: Decodable {
    var expected, placed, completed: Int
    var byPart: [String: Int]
    var ratePerSecondAsked: Double
  }
  /// All slices of a run have the same, but for `slice`.
  struct Settings: Decodable {
    var slice: Int?
    var processes: Int
    var scenario, `protocol`: String
    var seed: UInt64
    var durationSeconds: Double
    var coordinators, edges, natsServers: Int
    var nodes: Int?
    var nearer, tls: Bool?
    var edgeUrls: [String]
  }
  struct Process: Decodable {
    var name: String
    var role: ProcessRole
    var cpuUs, memoryBytes: UInt64
  }
  struct Idle: Decodable {
    var seconds: Double
    var devices: Int
    var cpuUsPerSecond: [String: Double]
  }

  var interrupted: Bool
  var incidents: [String]?
  var devices: Devices
  var calls: Calls
  var failures: [String: Int]
  var correctness: [CorrectnessRule: Int]
  var histograms: [LatencyPhase: LatencyHistogram]
  var loadSeconds, rampSeconds: Double
  var ongoing: OngoingResult?
  /// The servers, where this slice started them.
  var processes: [Process]
  var edgeBytesPerDevice: UInt64?
  var idle: Idle?
  var cpuUsPerCall, memoryBytes: [String: Double]
  var settings: Settings
  var machine: MachineFacts

  /// - Throws: `DecodingError` where it is no such report.
  package init(json: Data) throws {
    let decoder = JSONDecoder()
    decoder.keyDecodingStrategy = .convertFromSnakeCase
    self = try decoder.decode(Self.self, from: json)
  }

  /// Adds this slice to those before.
  fileprivate func add(to result: inout RunResult) throws {
    result.interrupted = result.interrupted || interrupted
    result.devicesExpected += devices.expected
    result.devicesConnected += devices.connected
    result.devicesRegistered += devices.registered
    result.nearerMoves += devices.nearerMoves ?? 0
    result.callsExpected += calls.expected
    result.callsPlaced += calls.placed
    result.callsCompleted += calls.completed
    result.callsByPart.merge(calls.byPart, uniquingKeysWith: +)
    result.failures.merge(failures, uniquingKeysWith: +)
    result.correctness.merge(correctness, uniquingKeysWith: +)
    for (phase, histogram) in histograms {
      try result.latency[phase, default: LatencyHistogram()].add(histogram)
    }
    result.loadSeconds = max(result.loadSeconds, loadSeconds)
    result.rampSeconds = max(result.rampSeconds, rampSeconds)
    if let ongoing {
      var sum = result.ongoing ?? OngoingResult()
      sum.states += ongoing.states
      sum.calls += ongoing.calls
      result.ongoing = sum
    }
  }
}

extension RunSettings {
  fileprivate init(_ report: SliceReport) {
    let settings = report.settings
    self.init()
    devicesPerUser = report.devices.perUser
    processes = settings.processes
    callsPerSecond = report.calls.ratePerSecondAsked
    durationSeconds = settings.durationSeconds
    (scenario, protocolName, seed) = (settings.scenario, settings.protocol, settings.seed)
    edgeURLs = settings.edgeUrls
    (coordinators, edges) = (settings.coordinators, settings.edges)
    nodes = settings.nodes ?? 0
    natsServers = settings.natsServers
    (nearer, tls) = (settings.nearer ?? false, settings.tls ?? false)
  }
}

extension RunReport {
  /// The report of a run from those of all its slices, by the names of their files.
  /// - Throws: ``SetupError`` where they are not the slices of one run, or not all.
  package init(merging files: [(name: String, report: SliceReport)]) throws {
    guard let (first, one) = files.first else { throw SetupError("give the reports of all slices") }
    let settings = RunSettings(one)
    var names: [Int: String] = [:]
    var servers: (name: String, report: SliceReport)?
    for (name, report) in files {
      guard let slice = report.settings.slice else {
        throw SetupError(
          "\(name): is of a whole run, not of a slice; callload --slice writes those")
      }
      if let difference = RunSettings(report).difference(from: settings) {
        throw SetupError("\(name): is not of the same run as \(first): \(difference)")
      }
      if let other = names.updateValue(name, forKey: slice) {
        throw SetupError("\(name): is of slice \(slice), as \(other) is; give each slice once")
      }
      guard !report.processes.isEmpty else { continue }
      if let servers {
        throw SetupError("\(name): is of another cluster than \(servers.name)")
      }
      servers = (name, report)
    }
    if let missing = (1...settings.processes).first(where: { names[$0] == nil }) {
      throw SetupError("slice \(missing) of \(settings.processes) is missing")
    }
    let reports = files.map(\.report)
    var result = RunResult()
    for (name, report) in files {
      do { try report.add(to: &result) } catch { throw SetupError("\(name): \(error)") }
    }
    let main = servers?.report ?? one
    self.init(settings: settings, machine: main.machine, result: result)
    self.settings.devices = result.devicesExpected
    incidents = reports.flatMap { $0.incidents ?? [] }
    edgeBytesPerDevice = main.edgeBytesPerDevice
    processes = main.processes.map {
      ProcessUsage(
        role: $0.role, name: $0.name, cpuMicroseconds: $0.cpuUs, memoryBytes: $0.memoryBytes)
    }
    for report in reports {
      let cpu = (report.cpuUsPerCall["callload"] ?? 0) * Double(report.calls.placed)
      ownCPUMicroseconds += UInt64(cpu.rounded())
      ownMemoryBytes += UInt64(report.memoryBytes["callload"] ?? 0)
    }
    idle = main.idle.map { idle in
      func cpu(_ idle: SliceReport.Idle, _ name: String) -> UInt64? {
        idle.cpuUsPerSecond[name].map { UInt64(($0 * idle.seconds).rounded()) }
      }
      return IdleUsage(
        seconds: idle.seconds, devices: idle.devices,
        processes: ProcessRole.allCases.compactMap { role in
          cpu(idle, role.rawValue).map {
            ProcessUsage(role: role, name: role.rawValue, cpuMicroseconds: $0, memoryBytes: 0)
          }
        },
        ownCPUMicroseconds: reports.compactMap(\.idle).reduce(0) {
          $0 + (cpu($1, "callload") ?? 0)
        })
    }
  }
}

extension RunSettings {
  /// The first setting that is not the same.
  fileprivate func difference(from other: RunSettings) -> String? {
    for (one, other) in zip(Mirror(reflecting: self).children, Mirror(reflecting: other).children) {
      let (value, wanted) = ("\(one.value)", "\(other.value)")
      if value != wanted { return "\(one.label ?? "") is \(value), not \(wanted)" }
    }
    return nil
  }
}
