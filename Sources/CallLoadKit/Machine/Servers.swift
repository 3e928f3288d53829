package import CallAuth
package import CallBus
package import CallClient
import CallProcesses
import Glibc

/// The edges under load, and their processes where callload started them.
package struct Servers: Sendable {
  package var edgeURLs: [String]
  package var trust = EdgeTrust.system
  package var keys: AppKeys
  package var app: String
  package var local: LocalCluster?
  package var pushProvider: LocalPushProvider?
  package var webhooks: WebhookServer?
  package var hook: HookServer?
  /// The journal of the local cluster, where it is judged.
  package var journal: (any Journal)?
  /// The frames that devices send and receive, for that judge.
  package let events = EventQueue()

  func sample() -> [(role: ProcessRole, name: String, sample: ProcessFiles.Sample)] {
    guard let local else { return [] }
    return local.processes.map { process in
      let sample = process.sample()
      return (
        process.role, sample == nil ? "\(process.name) (ended)" : process.name, sample ?? .init()
      )
    }
  }

  func edgeMemoryBytes() -> UInt64? {
    guard local != nil else { return nil }
    return sample().filter { $0.role == .edge || $0.role == .node }.reduce(0) {
      $0 + $1.sample.residentBytes
    }
  }
}

/// The usage of callload's and of the local cluster's processes at one time.
struct Usage: Sendable {
  var servers: [(role: ProcessRole, name: String, sample: ProcessFiles.Sample)]
  /// The usage of this process.
  var own = ProcessFiles.Sample()
  var at = ContinuousClock.now

  init(_ servers: Servers) {
    self.servers = servers.sample()
    if let sample = ProcessFiles.sample(processID: getpid()) { own = sample }
  }

  func processes(since before: Usage) -> [ProcessUsage] {
    zip(before.servers, servers).map { before, after in
      ProcessUsage(
        role: after.role, name: after.name,
        cpuMicroseconds: after.sample.cpuMicroseconds(since: before.sample),
        memoryBytes: after.sample.residentBytes)
    }
  }
}

extension ProcessFiles.Sample {
  /// 0 for a process that has ended, whose usage cannot be read.
  func cpuMicroseconds(since before: Self) -> UInt64 {
    cpuMicroseconds - min(before.cpuMicroseconds, cpuMicroseconds)
  }
}
