internal import Crypto
internal import FoundationEssentials

extension AppKeys {
  /// Signs a token like ``TokenMinter``, but without suspending: a load generator makes tens of
  /// thousands while it opens connections.
  /// - Parameter now: seconds since 1970; the token expires `lifetimeSeconds` later.
  package func mintToken(
    app: String, user: String, device: String? = nil, lifetimeSeconds: Int64, now: Int64
  ) throws -> String {
    guard let entry = apps[app] else {
      throw TokenMinterError(
        "there is no app \"\(app)\"; known are: \(appNames.joined(separator: ", "))")
    }
    guard let key = entry.keys.first(where: \.canSign) else {
      throw TokenMinterError(
        "app \"\(app)\" has only public keys; add the privateKey of one to the key file")
    }
    let encoder = JSONEncoder()
    encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
    let header = Header(alg: key.algorithm, kid: key.kid, typ: "JWT")
    let claims = Claims(app: app, sub: user, exp: now + lifetimeSeconds, device: device)
    let text =
      base64URL(try encoder.encode(header)) + "." + base64URL(try encoder.encode(claims))
    return text + "." + base64URL(try key.signature(of: Data(text.utf8)))
  }
}

extension AppKeys.Key {
  fileprivate func signature(of text: Data) throws -> Data {
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
  var exp: Int64
  var device: String?
}

/// RFC 4648, section 5, without padding.
private func base64URL(_ data: Data) -> String {
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
