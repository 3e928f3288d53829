import Glibc

/// Ports of the loopback for servers that are started.
package enum FreePorts {
  /// Free ports, all different, and below those of outgoing connections, so that they are free again when a server
  /// restarts. No other process gets them from here while this one lives.
  /// - Throws: ``ProcessFailure``.
  package static func reserve(_ count: Int) throws -> [Int] {
    var ports: [Int] = []
    for _ in 0..<(100 * count) where ports.count < count {
      let port = UInt16.random(in: 15_000..<32_000)
      if claim(port), isFree(port) { ports.append(Int(port)) }
    }
    guard ports.count == count else { throw ProcessFailure("no free port on the loopback") }
    return ports
  }

  package static func reserve() throws -> Int { try reserve(1)[0] }

  private static func isFree(_ port: UInt16) -> Bool {
    // Close-on-exec, since programs that start meanwhile would hold the port.
    let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
    defer { close(descriptor) }
    return withIPv4("127.0.0.1", port) { bind(descriptor, $0, $1) } == 0
  }

  /// Binds a name in the abstract namespace that stands for the port. The kernel releases it with the process, so a port
  /// stays reserved while its server is down.
  private static func claim(_ port: UInt16) -> Bool {
    let kind = Int32(SOCK_DGRAM.rawValue | SOCK_CLOEXEC.rawValue)
    let descriptor = socket(AF_UNIX, kind, 0)
    guard descriptor >= 0 else { return false }
    var address = sockaddr_un()
    address.sun_family = sa_family_t(AF_UNIX)
    // The leading zero byte makes the name an abstract one.
    let name = [0] + Array("callmesh port \(port)".utf8)
    withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: name) }
    let length = MemoryLayout.offset(of: \sockaddr_un.sun_path)! + name.count
    let status = withUnsafePointer(to: &address) {
      $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        bind(descriptor, $0, socklen_t(length))
      }
    }
    if status != 0 { close(descriptor) }
    return status == 0
  }
}

/// Gives an IPv4 address to a function of the system.
func withIPv4<Value>(
  _ address: String, _ port: UInt16, _ body: (UnsafePointer<sockaddr>, socklen_t) -> Value
) -> Value {
  var name = sockaddr_in()
  name.sin_family = sa_family_t(AF_INET)
  name.sin_port = port.bigEndian
  name.sin_addr.s_addr = inet_addr(address)
  return withUnsafePointer(to: &name) {
    $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
      body($0, socklen_t(MemoryLayout<sockaddr_in>.size))
    }
  }
}
