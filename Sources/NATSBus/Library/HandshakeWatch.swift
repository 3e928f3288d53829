internal import CallBus
internal import Glibc
internal import Synchronization

/// Shuts down a connection whose server stops answering during the handshake.
///
/// Before 3.8 the library has no deadline for a server that sends its INFO and nothing else: it spins, and its buffer
/// grows, until the socket breaks (nats.c issue 706). It does not expose the socket before it is connected, so the
/// watch searches the sockets of the process: for a TCP connection opened after the watch began, to the server's port,
/// with the library's linger option, that belongs to no link and is found twice.
final class HandshakeWatch: Sendable {
  private let port: UInt16
  private let former: Set<ProcessSocket>
  /// The time between two searches. Longer than the library waits for what it has a deadline for.
  private let interval: Duration
  private let signal = ThreadSignal()
  private let isOver = Atomic(false)
  private let timedOut = Atomic(false)

  private static let defaultPort: UInt16 = 4222

  /// - Parameters:
  ///   - server: its URL.
  ///   - connectTimeout: the library's.
  init(server: String, connectTimeout: Duration) {
    port = ServerGreeting.split(server).flatMap { UInt16($0.port) } ?? Self.defaultPort
    former = ProcessSocket.ofLibrary(to: port)
    interval = connectTimeout + .milliseconds(500)
    startThread(named: "nats-watch") { [self] in run() }
  }

  /// Called when the library has connected or failed to.
  func end() {
    isOver.store(true, ordering: .releasing)
    signal.signal()
  }

  /// Whether the watch has shut down a connection.
  var hasTimedOut: Bool { timedOut.load(ordering: .acquiring) }

  private func run() {
    var seen: Set<ProcessSocket> = []
    while true {
      signal.wait(atMost: interval)
      guard !isOver.load(ordering: .acquiring) else { return }
      let found = ProcessSocket.ofLibrary(to: port).subtracting(former)
      for socket in found where seen.contains(socket) {
        // Before the shutdown, on which the library returns at once.
        timedOut.store(true, ordering: .releasing)
        socket.shutDown()
      }
      seen = found
    }
  }
}

struct ProcessSocket: Hashable {
  private var descriptor: Int32
  /// Descriptors are reused, inodes of sockets are not.
  var inode: UInt64

  /// The sockets of TCP connections to a port that have the library's linger option.
  static func ofLibrary(to port: UInt16) -> Set<ProcessSocket> {
    guard let folder = unsafe opendir("/proc/self/fd") else { return [] }
    defer { unsafe closedir(folder) }
    var found: Set<ProcessSocket> = []
    while let entry = unsafe readdir(folder) {
      // Read in place: records are shorter than the type.
      guard let name = unsafe entry.pointer(to: \.d_name) else { continue }
      let descriptor = unsafe atoi(UnsafeRawPointer(name).assumingMemoryBound(to: CChar.self))
      guard peerPort(descriptor) == port, lingers(descriptor),
        let inode = inode(descriptor)
      else { continue }
      found.insert(ProcessSocket(descriptor: descriptor, inode: inode))
    }
    return found
  }

  /// Shuts it down, unless it belongs to a link.
  func shutDown() {
    // The descriptor may be closed and reused at any moment; the duplicate is not.
    let copy = fcntl(descriptor, F_DUPFD_CLOEXEC, 0)
    guard copy >= 0 else { return }
    defer { close(copy) }
    guard Self.inode(copy) == inode, !LinkState.isAttached(descriptor) else { return }
    shutdown(copy, Int32(SHUT_RDWR))
  }

  private static func inode(_ descriptor: Int32) -> UInt64? {
    var status = stat()
    return unsafe fstat(descriptor, &status) == 0 ? UInt64(status.st_ino) : nil
  }

  /// The library sets SO_LINGER, so that closing does not block; nothing else in the process does.
  private static func lingers(_ descriptor: Int32) -> Bool {
    var value = linger()
    var size = socklen_t(MemoryLayout<linger>.size)
    return unsafe getsockopt(descriptor, SOL_SOCKET, SO_LINGER, &value, &size) == 0
      && value.l_onoff != 0 && value.l_linger == 0
  }

  private static func peerPort(_ descriptor: Int32) -> UInt16? {
    var address = sockaddr_storage()
    var size = socklen_t(MemoryLayout<sockaddr_storage>.size)
    let isConnected = unsafe withUnsafeMutablePointer(to: &address) {
      unsafe $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        unsafe getpeername(descriptor, $0, &size) == 0
      }
    }
    guard isConnected else { return nil }
    return unsafe withUnsafeBytes(of: address) { bytes in
      switch Int32(address.ss_family) {
      case AF_INET: UInt16(bigEndian: unsafe bytes.loadUnaligned(as: sockaddr_in.self).sin_port)
      case AF_INET6: UInt16(bigEndian: unsafe bytes.loadUnaligned(as: sockaddr_in6.self).sin6_port)
      default: nil
      }
    }
  }
}
