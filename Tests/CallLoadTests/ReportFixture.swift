import Histogram
import callload

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
  var ring = Histogram<UInt32>(highestTrackableValue: 60_000_000)
  for value: UInt64 in 1...100 { ring.record(value * 10) }
  ring.record(2_000)
  result.latency[.ring] = ring
  return result
}
