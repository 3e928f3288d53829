public import CallAuth
public import CallCore
internal import CallWire

/// The TURN servers that devices may use, and for how long one credential is good.
public struct RelayServers: Sendable {
  public static let urlsMax = 8
  static let urlBytesMax = 256

  /// `turn:` and `turns:` URLs, as `isAcceptable(_:)` takes them.
  public var urls: [String]
  public var secret: RelaySecret
  /// A TURN server checks the expiry when a device begins to use it: a call goes on after it.
  public var lifetime: Span

  public init(urls: [String], secret: RelaySecret, lifetime: Span) {
    self.urls = urls
    self.secret = secret
    self.lifetime = lifetime
  }

  /// Whether it is a URL of RFC 7065: `turn:host`, perhaps with `:port` and `?transport=udp` or `tcp`.
  public static func isAcceptable(_ url: String) -> Bool {
    guard url.utf8.count <= urlBytesMax else { return false }
    guard let scheme = ["turn:", "turns:"].first(where: url.hasPrefix) else { return false }
    var rest = url.dropFirst(scheme.count)
    if let query = ["?transport=udp", "?transport=tcp"].first(where: { rest.hasSuffix($0) }) {
      rest = rest.dropLast(query.count)
    }
    return !rest.isEmpty
      && rest.unicodeScalars.allSatisfy {
        switch $0 {
        case "a"..."z", "A"..."Z", "0"..."9", "-", ".", ":", "[", "]": true
        default: false
        }
      }
  }

  func credentials(for user: String, now: Timestamp) -> RelayCredentials {
    let expires = (now + lifetime).microseconds / 1_000_000
    let (username, password) = secret.credentials(for: user, expires: expires)
    return RelayCredentials(
      urls: urls, username: username, password: password,
      expiresAt: Timestamp(microseconds: expires * 1_000_000))
  }
}
