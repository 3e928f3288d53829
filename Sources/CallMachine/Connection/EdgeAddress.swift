/// An edge's address: `wss://host:port/path`, or `ws://` without TLS.
package struct EdgeAddress: Hashable, Sendable, CustomStringConvertible {
  package var host: String
  package var port: Int
  package var path: String
  /// Whether the connection is encrypted, and the edge shows a certificate for `host`.
  package var isSecure: Bool

  package static let defaultPath = "/v1/connect"

  package init(host: String, port: Int, path: String = defaultPath, isSecure: Bool = false) {
    self.host = host
    self.port = port
    self.path = path
    self.isSecure = isSecure
  }

  /// Reads `wss://host[:port][/path]`, or the same with `ws://`; without a scheme it is `ws`. nil for anything else.
  package init?(_ text: String) {
    var rest = Substring(text)
    var isSecure = false
    if rest.hasPrefix("ws://") {
      rest = rest.dropFirst(5)
    } else if rest.hasPrefix("wss://") {
      rest = rest.dropFirst(6)
      isSecure = true
    } else if rest.contains("://") {
      return nil
    }
    let slash = rest.firstIndex(of: "/") ?? rest.endIndex
    let authority = rest[..<slash]
    let path = String(rest[slash...])
    var host = authority
    var port = isSecure ? 443 : 80
    if authority.hasPrefix("[") {
      guard let end = authority.firstIndex(of: "]") else { return nil }
      host = authority[authority.index(after: authority.startIndex)..<end]
      let tail = authority[authority.index(after: end)...]
      if !tail.isEmpty {
        guard tail.hasPrefix(":"), let number = Int(tail.dropFirst()) else { return nil }
        port = number
      }
    } else if let colon = authority.lastIndex(of: ":") {
      guard let number = Int(authority[authority.index(after: colon)...]) else { return nil }
      port = number
      host = authority[..<colon]
    }
    guard !host.isEmpty, (1...65_535).contains(port) else { return nil }
    guard path.utf8.allSatisfy({ $0 > 32 && $0 < 127 }) else { return nil }
    self.init(
      host: String(host), port: port, path: path.isEmpty || path == "/" ? Self.defaultPath : path,
      isSecure: isSecure)
  }

  package var description: String { "\(isSecure ? "wss" : "ws")://\(authority)\(path)" }

  /// Host and port as in a URL and the Host header.
  package var authority: String { host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)" }
}
