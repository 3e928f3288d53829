/// What was asked of a run, as far as a reader of the report needs it to judge or repeat it.
package struct RunSettings: Sendable, Equatable {
  package var devices = 0
  package var devicesPerUser = 3
  package var callsPerSecond: Double = 0
  package var durationSeconds: Double = 0
  package var scenario = "default"
  package var protocolName = "pb"
  package var seed: UInt64 = 0
  /// Where set, the run used a cluster that was there; otherwise callload started one.
  package var edgeURLs: [String] = []
  package var coordinators = 0
  package var edges = 0
  package var natsServers = 1
  package var tls = false
  /// The faults that were asked for; empty: none.
  package var chaos = ""
  /// The attacks that were asked for; empty: none.
  package var attacks = ""
  /// The program that every second life of a node runs, where there is one.
  package var otherCallnode: String?
  package var pushGateways = 0
  /// Which share of the devices has no session; 0: none.
  package var sleepingShare: Double = 0
  package init() {}
}

package struct MachineFacts: Sendable, Equatable {
  package var cpus = 0
  package var cpuModel = ""
  package var memoryBytes: UInt64 = 0
  package var kernel = ""
  /// Of the nats-server of the local cluster.
  package var natsVersion = ""
  package init() {}
}

/// The parts whose cost is counted.
package enum ProcessRole: String, CaseIterable, Sendable {
  case edge, coordinator, push, nats
}

package struct ProcessUsage: Sendable, Equatable {
  package var role: ProcessRole
  package var name: String
  /// Of the measured load only.
  package var cpuMicroseconds: UInt64
  /// Resident, at the end of the load.
  package var memoryBytes: UInt64

  package init(role: ProcessRole, name: String, cpuMicroseconds: UInt64, memoryBytes: UInt64) {
    self.role = role
    self.name = name
    self.cpuMicroseconds = cpuMicroseconds
    self.memoryBytes = memoryBytes
  }
}

/// All that is printed and written at the end of a run.
package struct RunReport {
  package var settings: RunSettings
  package var machine: MachineFacts
  package var result: RunResult
  /// Empty where the servers are not ours to look at.
  package var processes: [ProcessUsage] = []
  /// Of callload itself, during the measured load.
  package var ownCPUMicroseconds: UInt64 = 0
  package var ownMemoryBytes: UInt64 = 0
  /// Resident memory that the edges gained by the connected devices, divided by those.
  package var edgeBytesPerDevice: UInt64?
  /// With `--check-growth`.
  package var growth: [Growth] = []
  /// With `--hostile`: the quiet run, which all else is of, and then a row for each attack.
  package var hostile: [HostileRow] = []
  /// What went wrong around the run: a server that died, a phase that timed out.
  package var incidents: [String] = []

  package init(settings: RunSettings, machine: MachineFacts, result: RunResult) {
    self.settings = settings
    self.machine = machine
    self.result = result
  }

  /// Microseconds of CPU per placed call in the measured load, of all processes of a role; nil: of all.
  package func cpuPerCall(_ role: ProcessRole? = nil) -> Double? {
    guard result.callsPlaced > 0, let sum = sum(role, \.cpuMicroseconds) else { return nil }
    return Double(sum) / Double(result.callsPlaced)
  }

  package func memoryBytes(_ role: ProcessRole? = nil) -> UInt64? { sum(role, \.memoryBytes) }

  /// Nil where there is no such process.
  private func sum(_ role: ProcessRole?, _ figure: KeyPath<ProcessUsage, UInt64>) -> UInt64? {
    let found = processes.filter { role == nil || $0.role == role }.map { $0[keyPath: figure] }
    return found.isEmpty ? nil : found.reduce(0, +)
  }
}

package struct Verdict: Sendable, Equatable {
  /// Phrases.
  package var problems: [String]
  package var wasInterrupted: Bool

  package init(_ report: RunReport) {
    let result = report.result
    wasInterrupted = result.interrupted
    problems = report.incidents
    if result.devicesConnected < result.devicesExpected {
      let missing = result.devicesExpected - result.devicesConnected
      problems.append(
        "\(Units.count(missing)) of \(Units.count(result.devicesExpected)) devices did not connect")
    }
    if result.callsAccountedFor < result.callsExpected {
      let missing = result.callsExpected - result.callsAccountedFor
      problems.append(
        "\(Units.count(missing)) of \(Units.count(result.callsExpected)) calls were not completed")
    }
    problems += result.brokenRules
    problems += HostileReport(report.hostile)?.problems ?? []
    for growth in report.growth where !growth.isFlat {
      problems.append(
        "\(growth.name) grew from \(Units.bytes(growth.before)) to \(Units.bytes(growth.after))")
    }
    if let chaos = result.chaos, chaos.injected.isEmpty, !result.interrupted {
      problems.append("no fault was injected: give it a longer --duration or shorter intervals")
    }
    if let chaos = result.chaos, chaos.neverAnswered > 0 {
      problems.append("shards never answered again after \(chaos.neverAnswered) faults")
    }
  }

  package var isOK: Bool { problems.isEmpty && !wasInterrupted }

  /// 0 without problems, 1 with, 130 ended by Ctrl-C or SIGTERM. (2 is for what never started.)
  package var exitStatus: Int32 { wasInterrupted ? 130 : problems.isEmpty ? 0 : 1 }

  package func line(_ result: RunResult) -> String {
    if wasInterrupted {
      let more = problems.filter { !$0.contains("calls were not completed") }
      return "INTERRUPTED before the end"
        + (more.isEmpty ? "" : "; " + more.joined(separator: "; "))
    }
    guard problems.isEmpty else { return "FAILED: " + problems.joined(separator: "; ") }
    return "OK: \(result.devicesConnected)/\(result.devicesExpected) devices, "
      + "\(result.callsCompleted)/\(result.callsExpected) calls, every correctness count is 0"
  }
}
