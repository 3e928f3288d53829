/// The address of a subscription's pushes. It comes from a device, so it is parsed strictly and composed anew from its
/// parts. Nothing else of its text reaches the network.
package struct PushEndpoint: Sendable, Equatable {
  static let bytesMax = 2048

  /// In lower case.
  package var host: String
  package var port: UInt16
  /// Path and query.
  package var target: String

  /// The audience of a VAPID token, and the key of the limits.
  package var origin: String { port == 443 ? "https://\(host)" : "https://\(host):\(port)" }
  package var url: String { origin + target }

  /// Returns nil for anything but an https address with a plain host name or IPv4 address.
  package init?(_ text: String) {
    let scheme = "https://"
    guard text.utf8.count <= Self.bytesMax, text.isGraphicASCII,
      text.lowercased().hasPrefix(scheme), !text.contains("\\"), !text.contains("#")
    else { return nil }
    let rest = text.dropFirst(scheme.count)
    let authority = rest.prefix { $0 != "/" && $0 != "?" }
    let target = rest.dropFirst(authority.utf8.count)
    // Allows no user, no password and no IPv6.
    guard target.first == "/", !authority.contains("@"), !authority.contains("[") else {
      return nil
    }
    guard let (name, port) = PushHostRule.hostAndPort(authority) else { return nil }
    self.port = port
    host = name.lowercased()
    guard PushHostRule.isName(host[...]) else { return nil }
    self.target = String(target)
  }

  /// Whether the host is an address, or a name of this machine or this network. A resolver may read any name with a
  /// numeric last part as an address, also `0x7f000001` and `127.1`.
  package var isAddressOrLocal: Bool {
    let labels = host.split(separator: ".")
    guard let last = labels.last, labels.count > 1 else { return true }
    if last.isASCIIDigits || last.hasPrefix("0x") { return true }
    return ["localhost", "local", "internal", "localdomain", "lan", "home", "arpa"]
      .contains(String(last))
  }
}

/// An entry of the list of allowed push services.
package struct PushHostRule: Sendable, Equatable {
  var host: String
  var port: UInt16
  /// Whether it allows all names below `host`, but not `host` itself.
  var below: Bool

  /// Returns nil for text that is no rule.
  package init?(_ text: String) {
    guard let parts = Self.hostAndPort(text.lowercased()[...]) else { return nil }
    port = parts.port
    var name = parts.host
    below = name.hasPrefix("*.")
    if below { name = name.dropFirst(2) }
    guard Self.isName(name), !below || name.contains(".") else { return nil }
    host = String(name)
  }

  package func allows(_ endpoint: PushEndpoint) -> Bool {
    guard endpoint.port == port else { return false }
    return below ? endpoint.host.hasSuffix("." + host) : endpoint.host == host
  }

  /// The parts of `host` or `host:port`; the port of https where there is none.
  static func hostAndPort(_ text: Substring) -> (host: Substring, port: UInt16)? {
    let parts = text.split(separator: ":", omittingEmptySubsequences: false)
    switch parts.count {
    case 1: return (parts[0], 443)
    case 2: return port(parts[1]).map { (parts[0], $0) }
    default: return nil
    }
  }

  private static func port(_ text: Substring) -> UInt16? {
    guard (1...5).contains(text.utf8.count), text.isASCIIDigits,
      let number = UInt16(text), number > 0
    else { return nil }
    return number
  }

  /// Whether it is labels of letters, digits, `-` and `_`, in lower case.
  static func isName(_ text: Substring) -> Bool {
    guard (1...253).contains(text.utf8.count), !text.contains(where: \.isUppercase) else {
      return false
    }
    return text.split(separator: ".", omittingEmptySubsequences: false).allSatisfy { label in
      (1...63).contains(label.utf8.count) && label.isAlphanumericASCII(or: "-_")
    }
  }
}

/// The endpoints that a push may go to.
///
/// Devices choose the endpoints, so without this policy a device could make a gateway connect to any server within its
/// reach. The policy is a list of names. A server behind a listed name, even at a private address, must still present a
/// certificate for that name, since all connections use TLS.
package struct PushEndpointPolicy: Sendable {
  private let rules: [PushHostRule]
  private let allowsPrivate: Bool

  package init(rules: [PushHostRule], allowsPrivate: Bool = false) {
    self.rules = rules
    self.allowsPrivate = allowsPrivate
  }

  /// The reason for which an endpoint is refused, without its address; nil: it is allowed.
  package func refusal(_ endpoint: PushEndpoint) -> String? {
    if endpoint.isAddressOrLocal && !allowsPrivate {
      return "the endpoint is an address, not a push service"
    }
    guard rules.contains(where: { $0.allows(endpoint) }) else {
      return "the endpoint is at no push service of the list"
    }
    return nil
  }
}
