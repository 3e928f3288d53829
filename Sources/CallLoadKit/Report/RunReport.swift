package import CallProcesses

/// The settings of a run that a reader of the report needs to judge or repeat it.
package struct RunSettings: Sendable, Equatable {
  package var devices = 0
  package var devicesPerUser = 3
  /// The number of callloads that have the devices.
  package var processes = 1
  /// Which of them this report is of, from 1; nil: of all.
  package var slice: Int?
  package var callsPerSecond: Double = 0
  package var durationSeconds: Double = 0
  package var scenario = "default"
  package var protocolName = "pb"
  package var seed: UInt64 = 0
  /// The edges of a running cluster; empty: callload started one.
  package var edgeURLs: [String] = []
  package var coordinators = 0
  package var edges = 0
  /// Processes that are an edge and a coordinator each.
  package var nodes = 0
  /// Devices move to the node that owns their user's shard.
  package var nearer = false
  package var natsServers = 1
  package var tls = false
  package var chaos = ""
  package var attacks = ""
  /// The program of every second start of a node, where there is one.
  package var otherCallnode: String?
  package var pushGateways = 0
  /// The share of devices without a session.
  package var sleepingShare: Double = 0
  package var webhooks = false
  package var history = false
  /// The devices of all users are shown their users' calls.
  package var ongoing = false
  package var hook = false
  package init() {}
}

package struct MachineFacts: Decodable, Sendable, Equatable {
  package var cpus = 0
  package var cpuModel = ""
  package var memoryBytes: UInt64 = 0
  package var kernel = ""
  package var natsVersion = ""
  package init() {}
}

package struct ProcessUsage: Sendable, Equatable {
  package var role: ProcessRole
  package var name: String
  /// During the measured load only.
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

/// The cost of connected devices while no call is placed.
package struct IdleUsage: Sendable, Equatable {
  package var seconds: Double
  /// Connected.
  package var devices: Int
  package var processes: [ProcessUsage]
  /// CPU time of callload itself.
  package var ownCPUMicroseconds: UInt64

  package init(
    seconds: Double, devices: Int, processes: [ProcessUsage], ownCPUMicroseconds: UInt64
  ) {
    self.seconds = seconds
    self.devices = devices
    self.processes = processes
    self.ownCPUMicroseconds = ownCPUMicroseconds
  }

  /// Microseconds of CPU per second, of a role's processes; nil: of all. nil without such a process.
  package func cpuPerSecond(_ role: ProcessRole? = nil) -> Double? {
    processes.sum(role, \.cpuMicroseconds).map { Double($0) / seconds }
  }

  package var ownCPUPerSecond: Double { Double(ownCPUMicroseconds) / seconds }

  package func perDevice(_ microseconds: Double) -> Double {
    microseconds / Double(max(devices, 1))
  }
}

extension [ProcessUsage] {
  /// nil without a process of the role.
  fileprivate func sum(_ role: ProcessRole?, _ figure: KeyPath<ProcessUsage, UInt64>) -> UInt64? {
    let found = filter { role == nil || $0.role == role }.map { $0[keyPath: figure] }
    return found.isEmpty ? nil : found.reduce(0, +)
  }
}

/// All that is printed and written at the end of a run.
package struct RunReport {
  package var settings: RunSettings
  package var machine: MachineFacts
  package var result: RunResult
  /// Empty where callload did not start the servers.
  package var processes: [ProcessUsage] = []
  /// CPU time of callload itself, during the measured load.
  package var ownCPUMicroseconds: UInt64 = 0
  package var ownMemoryBytes: UInt64 = 0
  /// Resident memory that the edges gained for each connected device.
  package var edgeBytesPerDevice: UInt64?
  /// Only with `--idle`.
  package var idle: IdleUsage?
  package var growth: [Growth] = []
  /// With `--hostile`: the quiet run, to which the other figures belong, and a row for each attack.
  package var hostile: [HostileRow] = []
  /// Problems around the run: a server that ended, a phase that timed out.
  package var incidents: [String] = []

  package init(settings: RunSettings, machine: MachineFacts, result: RunResult) {
    self.settings = settings
    self.machine = machine
    self.result = result
  }

  /// Microseconds of CPU per placed call in the measured load, of a role's processes; nil: of all.
  package func cpuPerCall(_ role: ProcessRole? = nil) -> Double? {
    guard result.callsPlaced > 0, let sum = processes.sum(role, \.cpuMicroseconds) else {
      return nil
    }
    return Double(sum) / Double(result.callsPlaced)
  }

  package func memoryBytes(_ role: ProcessRole? = nil) -> UInt64? {
    processes.sum(role, \.memoryBytes)
  }
}

package struct Verdict: Sendable, Equatable {
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
    problems += result.journal.map { JournalReport(findings: $0).problems } ?? []
    problems += HostileReport(report.hostile)?.problems ?? []
    for growth in report.growth where !growth.isFlat {
      problems.append(
        "\(growth.name) grew from \(Units.bytes(growth.before)) to \(Units.bytes(growth.after))")
    }
    if let chaos = result.chaos, chaos.injected.isEmpty, !result.interrupted {
      problems.append("no fault was injected: give it a longer --duration or shorter intervals")
    }
    if let chaos = result.chaos, chaos.neverBack > 0 {
      problems.append("\(Units.count(chaos.neverBack)) devices never came back after a fault")
    }
    if let chaos = result.chaos, chaos.neverAnswered > 0 {
      problems.append("shards never answered again after \(chaos.neverAnswered) faults")
    }
  }

  package var isOK: Bool { problems.isEmpty && !wasInterrupted }

  /// 0 without problems, 1 with, 130 ended by Ctrl-C or SIGTERM. (2: the run could not begin.)
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
