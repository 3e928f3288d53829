internal import CallBus
internal import Glibc
internal import Synchronization

/// Breaks a connection off in whose handshake the server fell silent.
///
/// Before 3.8 the library has no deadline for a server that greets and then says nothing more: it spins, and
/// its buffer grows, until the socket breaks (nats.c issue 706). It shows the socket to nobody before it is
/// done, so it is looked for among the process's own: a TCP connection that came after the watch, leads to the
/// port of one of the servers, lingers as the library's do, was taken over by no link, and is seen twice.
final class HandshakeWatch: Sendable {
  private let ports: Set<UInt16>
  private let former: Set<Socket>
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
      servers.split(separator: ",").map { server in
        ServerGreeting.split(String(server)).flatMap { UInt16($0.port) } ?? Self.defaultPort
      })
    former = Socket.ofLibrary(to: ports)
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
      let found = Socket.ofLibrary(to: ports).subtracting(former)
      for socket in found where seen.contains(socket) {
        // First: the library is back before this thread is.
        brokeOff.store(true, ordering: .releasing)
        socket.shutDown()
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

  /// Those of TCP connections to one of these ports that linger as the library's do.
  static func ofLibrary(to ports: Set<UInt16>) -> Set<Socket> {
    guard let folder = opendir("/proc/self/fd") else { return [] }
    defer { closedir(folder) }
    var found: Set<Socket> = []
    while let entry = readdir(folder) {
      // In place: records are shorter than the type says.
      guard let name = entry.pointer(to: \.d_name) else { continue }
      let descriptor = atoi(UnsafeRawPointer(name).assumingMemoryBound(to: CChar.self))
      guard let port = peerPort(descriptor), ports.contains(port), lingers(descriptor),
        let inode = inode(descriptor)
      else { continue }
      found.insert(Socket(descriptor: descriptor, inode: inode))
    }
    return found
  }

  /// Where no link has taken it over.
  func shutDown() {
    // The number may be closed, and another socket's, at any moment; the copy's is not.
    let copy = fcntl(descriptor, F_DUPFD_CLOEXEC, 0)
    guard copy >= 0 else { return }
    defer { close(copy) }
    guard Self.inode(copy) == inode, !LinkState.isTaken(descriptor) else { return }
    shutdown(copy, Int32(SHUT_RDWR))
  }

  private static func inode(_ descriptor: Int32) -> UInt64? {
    var status = stat()
    return fstat(descriptor, &status) == 0 ? UInt64(status.st_ino) : nil
  }

  /// The library sets this, so that closing does not wait; nothing else here does.
  private static func lingers(_ descriptor: Int32) -> Bool {
    var value = linger()
    var size = socklen_t(MemoryLayout<linger>.size)
    return getsockopt(descriptor, SOL_SOCKET, SO_LINGER, &value, &size) == 0
      && value.l_onoff != 0 && value.l_linger == 0
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
