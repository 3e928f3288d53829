import CallCore
import CallLoadKit
import CallProcesses
import FoundationEssentials

/// A report in which every field has a value of its own.
func makeReport() -> RunReport {
  var settings = RunSettings()
  settings.devices = 10_000
  settings.callsPerSecond = 200
  settings.durationSeconds = 30
  settings.seed = 7
  settings.coordinators = 2
  settings.edges = 2
  var machine = MachineFacts()
  machine.cpus = 2
  machine.cpuModel = "Some CPU"
  machine.memoryBytes = 24_000_000_000
  machine.kernel = "Linux 6.1"
  machine.natsVersion = "2.9.10"
  var report = RunReport(settings: settings, machine: machine, result: makeResult())
  report.processes = [
    ProcessUsage(role: .edge, name: "edge-1", cpuMicroseconds: 600_000, memoryBytes: 50_000_000),
    ProcessUsage(role: .edge, name: "edge-2", cpuMicroseconds: 660_000, memoryBytes: 51_000_000),
    ProcessUsage(
      role: .coordinator, name: "coordinator-1", cpuMicroseconds: 300_000,
      memoryBytes: 30_000_000),
    ProcessUsage(
      role: .nats, name: "nats-server", cpuMicroseconds: 900_000, memoryBytes: 40_000_000),
  ]
  report.ownCPUMicroseconds = 3_000_000
  report.ownMemoryBytes = 200_000_000
  report.edgeBytesPerDevice = 7_900
  return report
}

func makeResult() -> RunResult {
  var result = RunResult()
  result.devicesExpected = 10_000
  result.devicesConnected = 10_000
  result.devicesRegistered = 10_000
  result.callsExpected = 6_000
  result.callsPlaced = 6_000
  result.callsCompleted = 6_000
  result.callsByPart = ["answered": 4_000, "cancelled": 2_000]
  result.loadSeconds = 30
  result.rampSeconds = 2.5
  var ring = LatencyHistogram()
  for value: Int64 in 1...100 { ring.record(Span(microseconds: value * 10)) }
  ring.record(Span(microseconds: 2_000))
  result.latency[.ring] = ring
  return result
}

/// The values of a report's JSON by path, as "calls.placed".
func fields(_ report: RunReport, _ search: SearchReport? = nil) throws -> [String: JSONValue] {
  var found: [String: JSONValue] = [:]
  try JSONDecoder().decode(JSONValue.self, from: report.json(search: search).encoded())
    .flatten("", into: &found)
  return found
}

/// Any JSON.
indirect enum JSONValue: Decodable, Equatable {
  case number(Double)
  case text(String)
  case bool(Bool)
  case list([JSONValue])
  case object([String: JSONValue])
  case null

  init(from decoder: any Decoder) throws {
    let container = try decoder.singleValueContainer()
    if container.decodeNil() {
      self = .null
    } else if let value = try? container.decode(Bool.self) {
      self = .bool(value)
    } else if let value = try? container.decode(Double.self) {
      self = .number(value)
    } else if let value = try? container.decode(String.self) {
      self = .text(value)
    } else if let value = try? container.decode([JSONValue].self) {
      self = .list(value)
    } else {
      self = .object(try container.decode([String: JSONValue].self))
    }
  }

  func flatten(_ path: String, into found: inout [String: JSONValue]) {
    let prefix = path.isEmpty ? "" : path + "."
    switch self {
    case .object(let members):
      for (name, value) in members { value.flatten(prefix + name, into: &found) }
    case .list(let values):
      for (index, value) in values.enumerated() { value.flatten(prefix + "\(index)", into: &found) }
    case .number, .text, .bool, .null: found[path] = self
    }
  }
}
