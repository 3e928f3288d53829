import Glibc

/// Ports of 127.0.0.1 that nobody listens on at this moment, below those that the kernel gives to
/// outgoing connections: a process that is started again finds its port free.
package enum FreePorts {
  package static func find(_ count: Int) throws -> [Int] {
    var sockets: [Int32] = []
    defer { for socket in sockets { close(socket) } }
    var ports: [Int] = []
    for _ in 0..<(100 + 20 * count) where ports.count < count {
      let port = Int.random(in: 10_000..<PortRange.first())
      let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
      guard descriptor >= 0 else { throw failure() }
      // Held until all are found, so that none comes twice.
      sockets.append(descriptor)
      var address = sockaddr_in()
      address.sin_family = sa_family_t(AF_INET)
      address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
      address.sin_port = in_port_t(port).bigEndian
      let status = withUnsafePointer(to: &address) { pointer in
        pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
          bind(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
        }
      }
      if status == 0 { ports.append(port) }
    }
    guard ports.count == count else { throw failure() }
    return ports
  }

  private static func failure() -> SetupError {
    SetupError("no free port on 127.0.0.1: \(String(cString: strerror(errno)))")
  }
}
