internal import Glibc

/// A socket of this process.
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
