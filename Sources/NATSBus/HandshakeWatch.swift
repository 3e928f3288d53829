internal import CallBus
internal import Glibc
internal import Synchronization

/// Breaks a connection off in whose handshake the server fell silent.
///
/// Before 3.8 the library has no deadline for a server that greets and then says nothing more: it spins, and
/// its buffer grows, until the socket breaks (nats.c issue 706). It shows the socket to nobody before it is
/// done, so it is looked for among the process's own: a TCP connection to a port of one of the servers that no
/// link has taken over, seen twice.
final class HandshakeWatch: Sendable {
  private let ports: Set<UInt16>
  /// Between two looks. Longer than the library waits for what it has a deadline for.
  private let interval: Duration
  private let signal = ThreadSignal()
  private let isOver = Atomic(false)
  private let brokeOff = Atomic(false)

  private static let defaultPort: UInt16 = 4222

  /// - Parameters:
  ///   - servers: the URLs, separated by commas.
  ///   - connectTimeout: the library's.
  init(servers: String, connectTimeout: Duration) {
    ports = Set(
      servers.split(separator: ",").map {
        ServerGreeting.split(String($0)).flatMap { UInt16($0.port) } ?? Self.defaultPort
      })
    interval = connectTimeout + .milliseconds(500)
    startThread(named: "nats-watch") { [self] in run() }
  }

  /// The library is done.
  func end() {
    isOver.store(true, ordering: .releasing)
    signal.signal()
  }

  /// Whether a server fell silent.
  var hasBrokenOff: Bool { brokeOff.load(ordering: .acquiring) }

  private func run() {
    var seen: Set<Socket> = []
    while true {
      signal.wait(atMost: interval)
      guard !isOver.load(ordering: .acquiring) else { return }
      let found = Socket.open(to: ports).filter { !LinkState.isTaken($0.descriptor) }
      for socket in found where seen.contains(socket) {
        brokeOff.store(true, ordering: .releasing)
        shutdown(socket.descriptor, Int32(SHUT_RDWR))
      }
      seen = found
    }
  }
}

/// A socket of this process.
private struct Socket: Hashable {
  var descriptor: Int32
  /// Descriptors are given out again, inodes of sockets are not.
  var inode: UInt64

  /// Those of TCP connections to one of these ports.
  static func open(to ports: Set<UInt16>) -> Set<Socket> {
    guard let folder = opendir("/proc/self/fd") else { return [] }
    defer { closedir(folder) }
    var found: Set<Socket> = []
    while let entry = readdir(folder) {
      let name = withUnsafeBytes(of: entry.pointee.d_name) { bytes in
        String(decoding: bytes.prefix { $0 != 0 }, as: UTF8.self)
      }
      guard let descriptor = Int32(name), let port = peerPort(descriptor), ports.contains(port)
      else { continue }
      var status = stat()
      guard fstat(descriptor, &status) == 0 else { continue }
      found.insert(Socket(descriptor: descriptor, inode: UInt64(status.st_ino)))
    }
    return found
  }

  private static func peerPort(_ descriptor: Int32) -> UInt16? {
    var address = sockaddr_storage()
    var size = socklen_t(MemoryLayout<sockaddr_storage>.size)
    let isConnected = withUnsafeMutablePointer(to: &address) {
      $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        getpeername(descriptor, $0, &size) == 0
      }
    }
    guard isConnected else { return nil }
    return withUnsafeBytes(of: address) { bytes in
      switch Int32(address.ss_family) {
      case AF_INET: UInt16(bigEndian: bytes.loadUnaligned(as: sockaddr_in.self).sin_port)
      case AF_INET6: UInt16(bigEndian: bytes.loadUnaligned(as: sockaddr_in6.self).sin6_port)
      default: nil
      }
    }
  }
}
