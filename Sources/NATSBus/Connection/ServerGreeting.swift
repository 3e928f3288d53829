internal import Glibc
internal import Synchronization

/// The INFO line that a server sends to every client that connects. The library reads it and does not expose it.
package enum ServerGreeting {
  /// The version of the server at an address such as `nats://127.0.0.1:4222`; nil if it does not answer within a
  /// second. Blocks.
  static func version(of address: String) -> String? {
    guard let (host, port) = split(address) else { return nil }
    var hints = unsafe addrinfo()
    unsafe hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
    var found: UnsafeMutablePointer<addrinfo>?
    guard unsafe getaddrinfo(host, port, &hints, &found) == 0, let first = unsafe found?.pointee
    else {
      return nil
    }
    defer { unsafe freeaddrinfo(found) }
    let type = Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue)
    let descriptor = unsafe socket(first.ai_family, type, 0)
    guard descriptor >= 0 else { return nil }
    defer { close(descriptor) }
    var limit = timeval(tv_sec: 1, tv_usec: 0)
    let size = socklen_t(MemoryLayout<timeval>.size)
    unsafe setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &limit, size)
    unsafe setsockopt(descriptor, SOL_SOCKET, SO_SNDTIMEO, &limit, size)
    guard unsafe connect(descriptor, first.ai_addr, first.ai_addrlen) == 0 else { return nil }
    return parse(line(from: descriptor))
  }

  /// The version in `INFO {…}`.
  package static func parse(_ line: [UInt8]) -> String? {
    guard let start = line.firstIndex(of: UInt8(ascii: "{")) else { return nil }
    return JSONValue(parsing: line[start...])?["version"]?.text
  }

  /// Host and port, without scheme and credentials, and the host without brackets.
  package static func split(_ address: String) -> (host: String, port: String)? {
    var rest = address.hasSuffix("/") ? address.dropLast() : address[...]
    if let at = rest.lastIndex(of: "@") { rest = rest[rest.index(after: at)...] }
    if let slash = rest.lastIndex(of: "/") { rest = rest[rest.index(after: slash)...] }
    var port = "4222"
    if let colon = rest.lastIndex(of: ":"), !rest[colon...].contains("]") {
      port = String(rest[rest.index(after: colon)...])
      rest = rest[..<colon]
    }
    let host = rest.drop { $0 == "[" }.prefix { $0 != "]" }
    return host.isEmpty ? nil : (String(host), port)
  }

  /// The address without user, password or token.
  package static func withoutCredentials(_ address: String) -> String {
    guard let at = address.lastIndex(of: "@") else { return address }
    let scheme = address.firstRange(of: "://").map { address[..<$0.upperBound] } ?? ""
    return String(scheme + address[address.index(after: at)...])
  }

  private static func line(from descriptor: Int32) -> [UInt8] {
    var line: [UInt8] = []
    while line.count < 64 << 10, line.last != UInt8(ascii: "\n") {
      var buffer = [UInt8](repeating: 0, count: 4096)
      let count = unsafe recv(descriptor, &buffer, buffer.count, 0)
      guard count > 0 else { break }
      line += buffer.prefix(count)
    }
    return line
  }
}

extension ConnectionThread {
  /// Reads the version of the server that the connection leads to. Blocks.
  func readServerVersion() {
    let version = ServerGreeting.version(of: counters.server.withLock { $0 })
    counters.serverVersion.withLock { $0 = version ?? "" }
  }
}

/// In which order servers are tried.
package enum ServerOrder {
  /// Any, so that nodes spread; but the one that was lost just now comes last, since its host may be gone, and to find
  /// that out takes the whole of `connectTimeout`.
  ///
  /// - Parameters:
  ///   - list: one URL, or several separated by commas.
  ///   - lost: without credentials; empty: none was.
  package static func drawn(from list: String, lost: String) -> [String] {
    let all = list.split(separator: ",").map(String.init).shuffled()
    let isLost = { ServerGreeting.withoutCredentials($0) == lost }
    return all.filter { !isLost($0) } + all.filter(isLost)
  }
}
