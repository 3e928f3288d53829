internal import CallCore

/// A browser's push subscription (W3C Push API, `PushSubscription.toJSON()`), checked. As a push
/// token it is kept as `json`.
public struct WebPushSubscription: Sendable, Equatable {
  /// Where pushes are posted to: https, no user.
  public let endpoint: String
  /// The endpoint's origin, `https://host[:port]`, in lower case: the audience of a VAPID token.
  public let origin: String
  /// The browser's public key: an uncompressed point of P-256.
  public let p256dh: [UInt8]
  /// The secret that both sides of RFC 8291 share.
  public let auth: [UInt8]

  /// Edge on Windows has endpoints of more than 850 bytes.
  public static let endpointBytesMax = 2048
  public static let p256dhBytes = 65
  public static let authBytes = 16

  /// nil for anything else than such a subscription. Members that it does not need are ignored.
  public init?(json: String) {
    var text = json
    let read = text.withUTF8 { utf8 -> (String, String, String)? in
      do throws(Fault) {
        return unsafe try JSONCursor.whole(UnsafeRawBufferPointer(utf8), Self.members)
      } catch {
        return nil
      }
    }
    guard let (endpoint, p256dh, auth) = read, let origin = Self.origin(of: endpoint),
      let point = Base64URL.bytes(p256dh), point.count == Self.p256dhBytes, point[0] == 0x04,
      let secret = Base64URL.bytes(auth), secret.count == Self.authBytes
    else { return nil }
    self.endpoint = endpoint
    self.origin = origin
    self.p256dh = point
    self.auth = secret
  }

  /// The one text of this subscription.
  public var json: String {
    let bytes = JSONWriter.object { json in
      json.member("endpoint", endpoint)
      json.object("keys") {
        $0.member("auth", Base64URL.text(auth))
        $0.member("p256dh", Base64URL.text(p256dh))
      }
    }
    return String(decoding: bytes, as: UTF8.self)
  }

  private static func members(_ json: inout JSONCursor) throws(Fault) -> (
    endpoint: String, p256dh: String, auth: String
  ) {
    var (endpoint, p256dh, auth) = ("", "", "")
    try json.object("") { (json, key) throws(Fault) in
      switch key {
      case "endpoint": endpoint = try json.text("endpoint")
      case "keys":
        try json.object("keys") { (json, key) throws(Fault) in
          switch key {
          case "p256dh": p256dh = try json.text("p256dh")
          case "auth": auth = try json.text("auth")
          default: try json.skip()
          }
        }
      default: try json.skip()
      }
    }
    return (endpoint, p256dh, auth)
  }

  // MARK: The endpoint (RFC 3986)

  private static func origin(of endpoint: String) -> String? {
    let scheme = "https://"
    guard endpoint.utf8.count <= endpointBytesMax, endpoint.lowercased().hasPrefix(scheme),
      endpoint.utf8.allSatisfy(isURIByte)
    else { return nil }
    let rest = endpoint.dropFirst(scheme.count)
    let authority = rest.prefix { $0 != "/" && $0 != "?" }.lowercased()
    guard let (host, port) = split(authority) else { return nil }
    // The port that https has anyway is no part of an origin (RFC 6454, 6.2).
    return scheme + host + (port == 443 ? "" : ":\(port)")
  }

  /// No user, and a host that is a name or an address.
  private static func split(_ authority: String) -> (host: String, port: Int)? {
    var host = authority[...]
    var port = 443
    if let colon = authority.lastIndex(of: ":"), !authority.hasSuffix("]") {
      let digits = authority[authority.index(after: colon)...]
      guard (1...5).contains(digits.utf8.count),
        digits.utf8.allSatisfy(\.isASCIIDigit),
        let number = Int(digits), (1...65_535).contains(number)
      else { return nil }
      port = number
      host = authority[..<colon]
    }
    let isAddress = host.hasPrefix("[") && host.hasSuffix("]")
    let name = isAddress ? host.dropFirst().dropLast() : host
    let isGood = name.utf8.allSatisfy { byte in
      byte.isASCIILetter || byte.isASCIIDigit || "-._".utf8.contains(byte)
        || isAddress && byte == UInt8(ascii: ":")
    }
    guard !name.isEmpty, name.utf8.count <= 253, isGood else { return nil }
    return (String(host), port)
  }

  /// Whether a byte may stand in a URI that is sent to a server: no fragment, nothing that needs encoding.
  private static func isURIByte(_ byte: UInt8) -> Bool {
    switch byte {
    case 0x21...0x7e: !"\"#<>\\^`{|}".utf8.contains(byte)
    default: false
    }
  }
}

/// Its keys are shown by nothing that prints it.
extension WebPushSubscription: CustomStringConvertible, CustomDebugStringConvertible,
  CustomReflectable
{
  public var description: String { "WebPushSubscription(\(origin))" }
  public var debugDescription: String { description }
  public var customMirror: Mirror { Mirror(self, children: ["origin": origin]) }
}
