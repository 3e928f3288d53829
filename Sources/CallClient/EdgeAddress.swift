/// Where an edge is: `ws://host:port/path`. Plain TCP only: whoever needs TLS puts it in front.
public struct EdgeAddress: Hashable, Sendable, CustomStringConvertible {
  public var host: String
  public var port: Int
  public var path: String

  public static let defaultPath = "/v1/connect"

  public init(host: String, port: Int, path: String = defaultPath) {
    self.host = host
    self.port = port
    self.path = path
  }

  /// Reads `ws://host[:port][/path]`; the scheme may be missing. nil for anything else.
  public init?(_ text: String) {
    var rest = Substring(text)
    if rest.hasPrefix("ws://") {
      rest = rest.dropFirst(5)
    } else if rest.contains("://") {
      return nil
    }
    let slash = rest.firstIndex(of: "/") ?? rest.endIndex
    let authority = rest[..<slash]
    let path = String(rest[slash...])
    var host = authority
    var port = 80
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
      host: String(host), port: port, path: path.isEmpty || path == "/" ? Self.defaultPath : path)
  }

  public var description: String { "ws://\(host):\(port)\(path)" }
}
