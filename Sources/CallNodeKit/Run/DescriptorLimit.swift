internal import Glibc

/// The limit of open files of this process, and how many of them may be connections.
package struct DescriptorLimit: Equatable {
  /// The soft limit (`ulimit -n`, `LimitNOFILE`).
  package var files: Int

  package init(files: Int) { self.files = files }

  /// For the connection to NATS, logs, the operators' port, files that are read again, and libraries.
  package static let reserve = 64
  /// For each event loop: its queue, its wake-up and its timer, and refused connections that get a reason
  /// (`PeerLimits.refusalsToldPerLoop`).
  package static let perLoop = 20

  package static func current() -> DescriptorLimit {
    var limit = rlimit()
    let resource = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)
    guard getrlimit(resource, &limit) == 0 else { return DescriptorLimit(files: 1024) }
    return DescriptorLimit(files: Int(clamping: limit.rlim_cur))
  }

  /// Connections that leave the process the descriptors that it needs besides: at most a million.
  package func connections(eventLoops: Int) -> Int {
    // On a machine with many cores and few files half of these are better than none.
    let besides = min(Self.reserve + Self.perLoop * eventLoops, files / 2)
    return max(1, min(files - besides, 1_000_000))
  }
}
