internal import Crypto
internal import FoundationEssentials

/// A server of an app, and the secrets with which what it gets is signed, as Standard Webhooks describe it.
package struct SignedEndpoint: Sendable, Equatable {
  /// https, or http on the loopback. It may hold a secret, so it is in no log.
  package let url: String
  /// Each signs: the app's server accepts any of them, so that they can be changed without a pause.
  private let secrets: [SymmetricKey]

  static let urlBytesMax = 512
  static let secretsMax = 2
  /// As Standard Webhooks ask for.
  static let secretBytes = 24...64

  /// - Parameter secrets: the bytes, decoded.
  package init(url: String, secrets: [[UInt8]]) {
    self.url = url
    self.secrets = secrets.map { SymmetricKey(data: $0) }
  }

  /// The `webhook-signature` of a message: one for each secret.
  /// - Parameters:
  ///   - id: the `webhook-id`.
  ///   - seconds: the `webhook-timestamp`, since 1970.
  package func signature(id: String, seconds: Int64, body: [UInt8]) -> String {
    let signed = Data("\(id).\(seconds).".utf8) + body
    return secrets.map {
      "v1," + Data(HMAC<SHA256>.authenticationCode(for: signed, using: $0)).base64EncodedString()
    }.joined(separator: " ")
  }

  /// The URL's host, for logs and operators.
  package var host: String { URLComponents(string: url)?.host ?? "" }

  /// Identifies the URL without saying it: 16 hex digits.
  package var id: String {
    SHA256.hash(data: Data(url.utf8)).prefix(8).map { byte in
      (byte < 16 ? "0" : "") + String(byte, radix: 16)
    }.joined()
  }
}

extension SignedEndpoint {
  /// - Parameter what: the owner of the endpoint, for errors.
  init(
    _ url: String, _ secrets: [String], of what: String, _ place: AppKeysError.Place
  ) throws(AppKeysError) {
    guard Self.isURL(url) else {
      throw place.error(
        "the \(what)'s url is not usable",
        "give an https URL of at most \(Self.urlBytesMax) bytes, or an http one at 127.0.0.1, "
          + "[::1] or localhost, without user, password and #")
    }
    guard (1...Self.secretsMax).contains(secrets.count) else {
      throw place.error(
        "the \(what) has \(secrets.count) secrets",
        "give one, or two while the first is replaced")
    }
    var decoded: [[UInt8]] = []
    for text in secrets {
      let encoded = text.hasPrefix("whsec_") ? String(text.dropFirst(6)) : text
      guard let secret = Data(base64Encoded: encoded), Self.secretBytes.contains(secret.count)
      else {
        throw place.error(
          "a secret of the \(what) is not base64 of 24 to 64 bytes",
          "make one with: echo whsec_$(openssl rand -base64 32)")
      }
      decoded.append(Array(secret))
    }
    self.init(url: url, secrets: decoded)
  }

  /// Nothing that is signed for the app may be read on its way, or go to a place that a reader would not expect.
  private static func isURL(_ text: String) -> Bool {
    guard text.utf8.count <= urlBytesMax, text.utf8.allSatisfy({ 0x21...0x7e ~= $0 }),
      let parts = URLComponents(string: text), let host = parts.host, !host.isEmpty,
      parts.user == nil, parts.password == nil, parts.fragment == nil
    else { return false }
    switch parts.scheme {
    case "https": return true
    case "http": return ["127.0.0.1", "::1", "[::1]", "localhost"].contains(host)
    default: return false
    }
  }
}
