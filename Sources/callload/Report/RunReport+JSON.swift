package import FoundationEssentials

/// The report as it is written with `--json`. The names are promised: loadtest/README.md documents
/// them, and a field only ever joins.
package struct JSONReport: Codable {
  package struct Devices: Codable {
    package var expected: Int
    package var connected: Int
    package var registered: Int
    package var perUser: Int
    enum CodingKeys: String, CodingKey {
      case expected, connected, registered
      case perUser = "per_user"
    }
  }
  package struct Calls: Codable {
    package var expected: Int
    package var placed: Int
    package var completed: Int
    package var byPart: [String: Int]
    package var ratePerSecondAsked: Double
    package var ratePerSecondPlaced: Double
    enum CodingKeys: String, CodingKey {
      case expected, placed, completed
      case byPart = "by_part"
      case ratePerSecondAsked = "rate_per_second_asked"
      case ratePerSecondPlaced = "rate_per_second_placed"
    }
  }
  package struct Latency: Codable {
    package var count: UInt64
    package var p50: UInt64
    package var p90: UInt64
    package var p99: UInt64
    package var p999: UInt64
    package var max: UInt64
    package var mean: Double
  }
  package struct Process: Codable {
    package var name: String
    package var role: String
    package var cpuMicroseconds: UInt64
    package var memoryBytes: UInt64
    enum CodingKeys: String, CodingKey {
      case name, role
      case cpuMicroseconds = "cpu_us"
      case memoryBytes = "memory_bytes"
    }
  }
  package struct Settings: Codable {
    package var scenario: String
    package var protocolName: String
    package var seed: UInt64
    package var durationSeconds: Double
    package var coordinators: Int
    package var edges: Int
    package var natsServers: Int
    /// Whether the local cluster's edges speak TLS; missing where not.
    package var tls: Bool?
    /// Missing where no faults were asked for.
    package var chaos: String?
    /// The attacks' names; missing where none were asked for.
    package var hostile: String?
    /// Missing where nodes run one program.
    package var otherCallnode: String?
    /// Missing where no devices sleep, as is what follows.
    package var pushGateways: Int?
    package var sleepingShare: Double?
    package var edgeURLs: [String]
    enum CodingKeys: String, CodingKey {
      case scenario, seed, coordinators, edges, tls, chaos, hostile
      case otherCallnode = "other_callnode"
      case natsServers = "nats_servers"
      case pushGateways = "push_gateways"
      case sleepingShare = "sleeping_share"
      case protocolName = "protocol"
      case durationSeconds = "duration_seconds"
      case edgeURLs = "edge_urls"
    }
  }
  package struct Machine: Codable {
    package var cpus: Int
    package var cpuModel: String
    package var memoryBytes: UInt64
    package var kernel: String
    package var natsVersion: String
    enum CodingKeys: String, CodingKey {
      case cpus, kernel
      case cpuModel = "cpu_model"
      case memoryBytes = "memory_bytes"
      case natsVersion = "nats_version"
    }
  }
  /// Only with `--find-max`; all else is then of the best stage.
  package struct Search: Codable {
    package struct Stage: Codable {
      package var rate: Double
      package var placedPerSecond: Double
      package var holds: Bool
      package var ringP50: UInt64
      package var ringP99: UInt64
      package var cpuPerCall: Double?
      package var reasons: [String]
      enum CodingKeys: String, CodingKey {
        case rate, holds, reasons
        case placedPerSecond = "placed_per_second"
        case ringP50 = "ring_p50_us"
        case ringP99 = "ring_p99_us"
        case cpuPerCall = "cpu_us_per_call"
      }
    }
    /// Calls per second; missing where no rate held.
    package var highestRate: Double?
    package var ringP99Max: UInt64
    package var stages: [Stage]
    enum CodingKeys: String, CodingKey {
      case stages
      case highestRate = "highest_rate"
      case ringP99Max = "ring_p99_max_us"
    }
  }

  package var ok: Bool
  package var problems: [String]
  package var interrupted: Bool
  package var devices: Devices
  package var calls: Calls
  package var failures: [String: Int]
  package var latency: [String: Latency]
  package var cpuPerCall: [String: Double]
  package var memoryBytes: [String: UInt64]
  package var bytesPerDevice: UInt64?
  package var correctness: [String: Int]
  package var processes: [Process]
  package var loadSeconds: Double
  package var rampSeconds: Double
  package var settings: Settings
  package var machine: Machine
  package var search: Search?
  package var chaos: Chaos?
  package var pushes: Pushes?
  /// By name: `quiet` and the attacks.
  package var hostile: [String: Hostile]?

  enum CodingKeys: String, CodingKey {
    case ok, problems, interrupted, devices, calls, failures, correctness, processes, settings
    case machine, chaos, pushes, hostile
    case search = "find_max"
    case latency = "latency_us"
    case cpuPerCall = "cpu_us_per_call"
    case memoryBytes = "memory_bytes"
    case bytesPerDevice = "edge_bytes_per_device"
    case loadSeconds = "load_seconds"
    case rampSeconds = "ramp_seconds"
  }
}

extension JSONReport {
  package init(_ report: RunReport) {
    let result = report.result
    let verdict = Verdict(report)
    ok = verdict.isOK
    problems = verdict.problems
    interrupted = result.interrupted
    devices = Devices(
      expected: result.devicesExpected, connected: result.devicesConnected,
      registered: result.devicesRegistered, perUser: report.settings.devicesPerUser)
    calls = Calls(
      expected: result.callsExpected, placed: result.callsPlaced, completed: result.callsCompleted,
      byPart: result.callsByPart, ratePerSecondAsked: report.settings.callsPerSecond,
      ratePerSecondPlaced: result.loadSeconds > 0
        ? rounded(Double(result.callsPlaced) / result.loadSeconds) : 0)
    failures = result.failures
    latency = [:]
    for phase in LatencyPhase.allCases {
      guard let found = Percentiles(result.latency[phase]) else { continue }
      latency[phase.rawValue] = Latency(found)
    }
    cpuPerCall = [:]
    memoryBytes = [:]
    for role in ProcessRole.allCases {
      cpuPerCall[role.rawValue] = report.cpuPerCall(role).map(rounded)
      memoryBytes[role.rawValue] = report.memoryBytes(role)
    }
    cpuPerCall["total"] = report.totalCPUPerCall.map(rounded)
    memoryBytes["total"] = report.totalMemoryBytes
    if result.callsPlaced > 0 {
      cpuPerCall["callload"] = rounded(
        Double(report.ownCPUMicroseconds) / Double(result.callsPlaced))
    }
    memoryBytes["callload"] = report.ownMemoryBytes
    bytesPerDevice = report.edgeBytesPerDevice
    correctness = [:]
    for rule in CorrectnessRule.allCases {
      correctness[rule.rawValue] = result.correctness[rule] ?? 0
    }
    processes = report.processes.map {
      Process(
        name: $0.name, role: $0.role.rawValue, cpuMicroseconds: $0.cpuMicroseconds,
        memoryBytes: $0.memoryBytes)
    }
    loadSeconds = rounded(result.loadSeconds)
    rampSeconds = rounded(result.rampSeconds)
    settings = Settings(
      scenario: report.settings.scenario, protocolName: report.settings.protocolName,
      seed: report.settings.seed, durationSeconds: report.settings.durationSeconds,
      coordinators: report.settings.coordinators, edges: report.settings.edges,
      natsServers: report.settings.edgeURLs.isEmpty ? report.settings.natsServers : 0,
      tls: report.settings.tls ? true : nil,
      chaos: report.settings.chaos.isEmpty ? nil : report.settings.chaos,
      hostile: report.settings.attacks.isEmpty ? nil : report.settings.attacks,
      otherCallnode: report.settings.otherCallnode,
      pushGateways: report.settings.sleepingShare > 0 ? report.settings.pushGateways : nil,
      sleepingShare: report.settings.sleepingShare > 0 ? report.settings.sleepingShare : nil,
      edgeURLs: report.settings.edgeURLs)
    chaos = result.chaos.map(Chaos.init)
    hostile = Self.hostile(report.hostile)
    pushes = result.pushes.map { Pushes($0, calls: result.callsPlaced) }
    machine = Machine(
      cpus: report.machine.cpus, cpuModel: report.machine.cpuModel,
      memoryBytes: report.machine.memoryBytes, kernel: report.machine.kernel,
      natsVersion: report.machine.natsVersion)
  }

  /// Indented, names in alphabetical order, with a line break at the end.
  package func encoded() throws -> Data {
    let encoder = JSONEncoder()
    encoder.outputFormatting = [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes]
    var data = try encoder.encode(self)
    data.append(0x0A)
    return data
  }
}

extension JSONReport.Latency {
  init(_ found: Percentiles) {
    count = found.count
    p50 = found.p50
    p90 = found.p90
    p99 = found.p99
    p999 = found.p999
    max = found.max
    mean = rounded(found.mean)
  }
}

extension JSONReport.Search {
  package init(_ report: SearchReport) {
    highestRate = report.best?.rate
    ringP99Max = report.ringP99Max
    stages = report.stages.map {
      Stage(
        rate: $0.rate, placedPerSecond: rounded($0.placedPerSecond), holds: $0.holds,
        ringP50: $0.ringP50, ringP99: $0.ringP99, cpuPerCall: $0.cpuPerCall.map(rounded),
        reasons: $0.reasons)
    }
  }
}

/// To a thousandth: more digits only pretend to be known.
private func rounded(_ value: Double) -> Double { (value * 1_000).rounded() / 1_000 }
