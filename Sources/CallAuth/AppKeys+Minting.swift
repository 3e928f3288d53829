internal import CallCore
internal import Crypto
internal import FoundationEssentials

extension AppKeys {
  /// Signs a token, for development and tests. In production the app's own server does that.
  /// - Parameters:
  ///   - kid: the key; nil: the app's first one that can sign.
  ///   - device: where set, the token is good for this device only.
  ///   - now: seconds since 1970; the token expires `lifetimeSeconds` later.
  /// - Throws: `TokenMinterError`, or the error of signing.
  package func mintToken(
    kid: String? = nil, app: String, user: String, device: String? = nil, lifetimeSeconds: Int64,
    now: Int64
  ) throws -> String {
    guard let entry = apps[app] else {
      throw TokenMinterError(
        "there is no app \"\(app)\"; known are: \(appNames.joined(separator: ", "))")
    }
    guard let key = entry.keys.first(where: { $0.canSign && kid ?? $0.kid == $0.kid }) else {
      throw TokenMinterError(
        "app \"\(app)\" has only public keys; add the privateKey of one to the key file")
    }
    return try key.mintToken(
      app: app, user: user, device: device, lifetimeSeconds: lifetimeSeconds, now: now)
  }

  /// The id of an app's first key of an algorithm, such as `ES256`; nil if it has none.
  package func keyID(app: String, algorithm: String) -> String? {
    apps[app]?.keys.first { $0.algorithm == algorithm }?.kid
  }
}

/// Why no token could be made.
public struct TokenMinterError: Error, Sendable, Equatable, CustomStringConvertible {
  /// Ten years.
  static let lifetimeSecondsMax: Int64 = 10 * 365 * 86_400

  public var description: String
  init(_ description: String) { self.description = description }
}

extension AppKeys.Key {
  fileprivate func mintToken(
    app: String, user: String, device: String?, lifetimeSeconds: Int64, now: Int64
  ) throws -> String {
    guard IdentifierRules.isUser(user) else {
      throw TokenMinterError("a user id is 1 to 128 bytes of text that can be seen")
    }
    guard device.map(IdentifierRules.isDevice) ?? true else {
      throw TokenMinterError("a device id is 1 to 64 bytes of text that can be seen")
    }
    guard (1...TokenMinterError.lifetimeSecondsMax).contains(lifetimeSeconds) else {
      throw TokenMinterError("a token lives 1 to \(TokenMinterError.lifetimeSecondsMax) seconds")
    }
    let encoder = JSONEncoder()
    encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
    let header = Header(alg: algorithm, kid: kid, typ: "JWT")
    let claims = Claims(app: app, sub: user, iat: now, exp: now &+ lifetimeSeconds, device: device)
    let text =
      base64URL(try encoder.encode(header)) + "." + base64URL(try encoder.encode(claims))
    return text + "." + base64URL(try signature(of: Data(text.utf8)))
  }

  private func signature(of text: Data) throws -> Data {
    switch material {
    case .hs256(let secret):
      return Data(HMAC<SHA256>.authenticationCode(for: text, using: secret))
    case .es256(_, let privateKey):
      guard let privateKey else { throw TokenMinterError("the key cannot sign") }
      return try privateKey.signature(for: text).rawRepresentation
    }
  }
}

private struct Header: Encodable {
  var alg: String
  var kid: String
  var typ: String
}

private struct Claims: Encodable {
  var app: String
  var sub: String
  var iat: Int64
  var exp: Int64
  var device: String?
}

/// RFC 4648, section 5, without padding.
func base64URL(_ data: Data) -> String {
  String(
    data.base64EncodedString().compactMap { character -> Character? in
      switch character {
      case "+": "-"
      case "/": "_"
      case "=": nil
      default: character
      }
    })
}

/// nil if the text is not base64url.
func base64URLBytes(_ text: ArraySlice<UInt8>) -> [UInt8]? {
  var plain = text.map { byte in
    switch byte {
    case UInt8(ascii: "-"): UInt8(ascii: "+")
    case UInt8(ascii: "_"): UInt8(ascii: "/")
    default: byte
    }
  }
  while plain.count % 4 != 0 { plain.append(UInt8(ascii: "=")) }
  return Data(base64Encoded: Data(plain)).map { Array($0) }
}
