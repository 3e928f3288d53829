import FoundationEssentials
import Glibc

/// The limits of open files and sockets of this process and its children.
package struct FileLimit: Sendable, Equatable {
  package var soft: UInt64
  package var hard: UInt64

  package init(soft: UInt64, hard: UInt64) {
    self.soft = soft
    self.hard = hard
  }

  /// Sockets to the edges, and some for logs, event loops and the terminal.
  package static func needed(devices: Int) -> UInt64 { UInt64(max(devices, 0)) + 256 }

  /// The most devices of one process with this limit.
  package var devicesMax: Int {
    Int(clamping: soft) - Int(Self.needed(devices: 0))
  }

  /// The most connections of an edge with this limit. A node keeps the other files for itself, some of them
  /// for each of its event loops.
  package var connectionsMax: Int {
    let processors = ProcessInfo.processInfo.activeProcessorCount
    return max(1, min(Int(clamping: soft), 1_000_000) - 64 - 20 * processors)
  }

  package static func current() -> FileLimit {
    var limit = rlimit()
    guard getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 else {
      return FileLimit(soft: 0, hard: 0)
    }
    return FileLimit(soft: UInt64(limit.rlim_cur), hard: UInt64(limit.rlim_max))
  }

  /// Raises the soft limit to the hard one, and that to `needed` where this process may.
  /// - Returns: the limits after that. Children inherit them.
  package static func raise(toward needed: UInt64) -> FileLimit {
    let hard = current().hard
    for most in [max(hard, needed), hard] {
      var wanted = rlimit(rlim_cur: rlim_t(most), rlim_max: rlim_t(most))
      if setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &wanted) == 0 { break }
    }
    return current()
  }

  /// Why `devices` are too many; nil where they are not.
  /// - Parameter probes: connections beside those of the devices.
  package func refusal(devices: Int, probes: Int = 0) -> String? {
    let needed = Self.needed(devices: devices + probes)
    guard soft < needed else { return nil }
    return """
      \(Units.count(devices)) devices in one process need \(Units.count(needed)) open files, and it may \
      have \(Units.count(soft)) (hard limit \(Units.count(hard))).
      Raise it with one of
        sudo prlimit --pid $$ --nofile=\(needed):\(needed)    (this shell, until it ends)
        a line "* hard nofile \(needed)" in /etc/security/limits.conf    (from the next login)
        docker run --ulimit nofile=\(needed):\(needed)    (in a container)
      or ask for at most --devices \(max(devicesMax - probes, 0)), or divide them: loadtest/slices.sh.
      """
  }
}
