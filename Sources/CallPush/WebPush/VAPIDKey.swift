package import CallCore
internal import CallWire
internal import Crypto

/// The key that identifies us to push services (RFC 8292). Never part of a log line or an error.
package struct VAPIDKey: Sendable {
  /// The lifetime of a token; at most 24 hours.
  static let lifetimeSeconds: Int64 = 12 * 3600

  private let key: P256.Signing.PrivateKey
  private let subject: String
  /// The public key as browsers and push services expect it: the uncompressed point, base64url.
  package let publicKey: String

  /// - Throws: what is wrong, and how to fix it.
  package init(
    pem: [UInt8], file: String, subject: String, sender: String
  ) throws(SenderConfigurationError) {
    guard Self.isSubject(subject) else {
      throw SenderConfigurationError(
        sender: sender, place: "subject", what: "it is neither a mailto: nor an https: address",
        remedy: "name whom a push service can turn to, such as mailto:push@example.com")
    }
    // The decoder's error may quote the key.
    guard let text = String(validating: pem, as: UTF8.self),
      let key = try? P256.Signing.PrivateKey(pemRepresentation: text)
    else {
      throw SenderConfigurationError(
        sender: sender, place: file, what: "it is not the PEM text of a P-256 private key",
        remedy: "make one with: openssl ecparam -name prime256v1 -genkey -noout")
    }
    self.key = key
    self.subject = subject
    publicKey = Base64URL.text(Array(key.publicKey.x963Representation))
  }

  private static func isSubject(_ text: String) -> Bool {
    guard text.utf8.count <= 256, text.isGraphicASCII else { return false }
    if text.hasPrefix("mailto:") { return text.dropFirst(7).contains("@") }
    return text.hasPrefix("https://") && text.utf8.count > 8
  }

  /// The value of `Authorization` for one push service (RFC 8292, 2 and 3).
  /// - Throws: the error of signing.
  package func authorization(origin: String, nowSeconds: Int64) throws -> String {
    let claims =
      #"{"aud":\#(JSONWriter.quoted(origin)),"exp":\#(nowSeconds + Self.lifetimeSeconds)"#
      + #","sub":\#(JSONWriter.quoted(subject))}"#
    let token = try SignedJWT.text(
      header: #"{"typ":"JWT","alg":"ES256"}"#, claims: claims, es256: key)
    return "vapid t=\(token), k=\(publicKey)"
  }
}

/// Authorizations by push service: signed once, used for hours.
///
/// Policy when full: drop the one that expires first.
package struct VAPIDCache: Sendable {
  static let originsMax = 1024

  private struct Entry {
    var authorization: String
    var renewAt: Timestamp
  }
  private let key: VAPIDKey
  private var entries: [String: Entry] = [:]

  package init(key: VAPIDKey) { self.key = key }

  /// - Parameter chance: jitter: a token is renewed after half of its lifetime and up to an eighth more.
  package mutating func authorization(origin: String, now: Timestamp, chance: UInt64) -> String? {
    if let entry = entries[origin], now < entry.renewAt { return entry.authorization }
    guard
      let made = try? key.authorization(origin: origin, nowSeconds: now.microseconds / 1_000_000)
    else { return nil }
    let seconds = VAPIDKey.lifetimeSeconds
    let spread = Int64(chance % UInt64(seconds / 8))
    if entries[origin] == nil, entries.count >= Self.originsMax,
      let first = entries.min(by: { $0.value.renewAt < $1.value.renewAt })
    {
      entries[first.key] = nil
    }
    entries[origin] = Entry(authorization: made, renewAt: now + .seconds(seconds / 2 + spread))
    return made
  }

  /// Removes an authorization that the push service has refused.
  package mutating func refused(_ authorization: String, origin: String) {
    if entries[origin]?.authorization == authorization { entries[origin] = nil }
  }
}
