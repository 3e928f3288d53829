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
  package func refusal(devices: Int) -> String? {
    let needed = Self.needed(devices: devices)
    guard soft < needed else { return nil }
    let most = Int(soft) - Int(Self.needed(devices: 0))
    return """
      \(Units.count(devices)) devices need \(Units.count(needed)) open files, and this process may \
      have \(Units.count(soft)) (hard limit \(Units.count(hard))).
      Raise it with one of
        sudo prlimit --pid $$ --nofile=\(needed):\(needed)    (this shell, until it ends)
        a line "* hard nofile \(needed)" in /etc/security/limits.conf    (from the next login)
        docker run --ulimit nofile=\(needed):\(needed)    (in a container)
      or ask for at most --devices \(max(most, 0)).
      """
  }
}

/// The number of connections that one process can open to one address and port.
package enum PortRange {
  /// Of Linux's local ports; its default where that cannot be read.
  package static func size() -> Int {
    let text = ProcessFiles.read("/proc/sys/net/ipv4/ip_local_port_range") ?? ""
    let ends = text.split(whereSeparator: \.isWhitespace).compactMap { Int($0) }
    return ends.count == 2 && ends[1] > ends[0] ? ends[1] - ends[0] + 1 : 28_232
  }

  /// Why `devices` are too many for `edges`; nil where they are not.
  package static func refusal(devices: Int, edges: Int, range: Int) -> String? {
    // Other processes use some ports of the range.
    let usable = max(range - 500, 1)
    guard edges > 0, devices > usable * edges else { return nil }
    let enough = (devices + usable - 1) / usable
    return """
      \(Units.count(devices)) devices on \(edges) edge\(edges == 1 ? "" : "s") need more local ports \
      than the \(Units.count(range)) that this machine gives to one address; \
      use --edges \(enough), or widen net.ipv4.ip_local_port_range.
      """
  }
}
