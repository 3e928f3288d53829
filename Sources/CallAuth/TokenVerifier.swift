internal import CallCore
internal import Crypto
internal import FoundationEssentials

/// Verifies bearer tokens: JWTs signed with HS256 or ES256 by one of an app's keys.
///
/// The signature is verified with the key that app and `kid` select, and with that key's algorithm only, regardless of
/// the token's header.
public struct TokenVerifier: Sendable {
  /// Longer tokens are refused unread.
  public static let tokenBytesMax = 4096
  /// How far an issuer's clock may be ahead: the latest `nbf` and `iat` that are accepted, from now.
  /// RFC 7519, 4.1.5, allows "a few minutes" at most. Devices do not retry a token that was refused, so a clock that is
  /// two seconds ahead would lock a user out.
  public static let clockLeewaySeconds: Int64 = 60
  /// A week.
  public static let standardMaximumAgeSeconds: Int64 = 7 * 86_400

  /// The longest time until the expiry of an app's server's token, and since it was issued: it may do more than a
  /// user's, and its holder can sign one for each request.
  public static let serverMaximumAgeSeconds: Int64 = 3600

  let keys: AppKeys
  /// The longest time until a token's expiry, and since it was issued.
  let maximumAgeSeconds: Int64

  public init(
    keys: AppKeys, maximumAgeSeconds: Int64 = TokenVerifier.standardMaximumAgeSeconds
  ) {
    self.keys = keys
    self.maximumAgeSeconds = maximumAgeSeconds
  }

  /// - Parameters:
  ///   - token: the token alone, without `Bearer`.
  ///   - now: seconds since 1970.
  /// - Returns: the token's claims. A token without `iat` counts as issued `maximumAgeSeconds` before its `exp`.
  /// - Throws: `expired` for a token that was valid before its `exp`, `tooLong` for one whose lifetime is too long,
  ///   `servers` for one of an app's server, else `notAccepted`.
  public func verify(_ token: String, now: Int64) throws(AuthFailure) -> DeviceClaims {
    guard case .device(let claims) = try verifyAny(token, now: now) else { throw .servers }
    return claims
  }

  /// Verifies a token of an app's server: one with the claim `server` and no user.
  /// - Throws: as `verify`, but `users` for a user's.
  public func verifyServer(_ token: String, now: Int64) throws(AuthFailure) -> ServerClaims {
    guard case .server(let claims) = try verifyAny(token, now: now) else { throw .users }
    return claims
  }

  /// Verifies a token, whosever it is.
  /// - Throws: as `verify`.
  public func verifyAny(_ token: String, now: Int64) throws(AuthFailure) -> TokenClaims {
    do {
      return try check(token, now: now)
    } catch {
      throw error.failure
    }
  }

  /// Verifies a token, whosever it is.
  /// - Throws: what is wrong with it.
  func check(_ token: String, now: Int64) throws(TokenFault) -> TokenClaims {
    let bytes = Array(token.utf8)
    guard bytes.count <= Self.tokenBytesMax else {
      throw TokenFault(.form, "it is longer than \(Self.tokenBytesMax) bytes")
    }
    let parsed = try SignedToken(bytes)
    guard !parsed.header.isCritical else {
      throw TokenFault(.header, "crit: no extension is supported")
    }
    // Names of apps are ASCII, for which equality of strings is equality of bytes.
    guard IdentifierRules.isApp(parsed.payload.app), let app = keys.apps[parsed.payload.app] else {
      throw TokenFault(.app, "app is none of the file of keys")
    }
    guard let key = key(of: app, kid: parsed.header.kid) else {
      throw TokenFault(.key, "the app has no key with this kid, or has several and there is no kid")
    }
    guard parsed.header.alg == key.algorithm else {
      throw TokenFault(.header, "alg is not that of the key: \(key.algorithm)")
    }
    guard key.accepts(signature: parsed.signature, of: parsed.text) else {
      throw TokenFault(.signature, "the signature is not the key's")
    }
    // The signature is valid: the claims are the app's.
    return try claims(parsed.payload, app, key, now: now)
  }

  private func claims(
    _ payload: SignedToken.Payload, _ app: AppKeys.App, _ key: AppKeys.Key, now: Int64
  ) throws(TokenFault) -> TokenClaims {
    guard let expiry = payload.expirySeconds else {
      throw TokenFault(.exp, "exp is no time: seconds since 1970")
    }
    let isServers = payload.isServers
    let user = payload.sub ?? ""
    guard isServers || IdentifierRules.isUser(user) else {
      throw TokenFault(.sub, "sub is no user id, of 1 to 128 bytes: docs/device-protocol.md")
    }
    guard isServers || payload.device.map(IdentifierRules.isDevice) ?? true else {
      throw TokenFault(.device, "device is no device id: docs/device-protocol.md")
    }
    let maximumAgeSeconds =
      isServers ? min(self.maximumAgeSeconds, Self.serverMaximumAgeSeconds) : self.maximumAgeSeconds
    guard now < expiry else {
      throw TokenFault(.exp, "it expired \(now - expiry) s ago", .expired)
    }
    let soon = now + Self.clockLeewaySeconds
    for (part, time) in [(TokenFault.Part.nbf, payload.nbf), (.iat, payload.iat)] {
      guard let time, time > Double(soon) else { continue }
      throw TokenFault(
        part, "\(part) is more than \(Self.clockLeewaySeconds) s ahead of this clock")
    }
    let issued = payload.issuedSeconds ?? expiry - maximumAgeSeconds
    guard expiry - soon <= maximumAgeSeconds,
      now - issued <= maximumAgeSeconds + Self.clockLeewaySeconds
    else {
      throw TokenFault(
        .lifetime, "it is good for longer than \(maximumAgeSeconds) s, or was issued before that",
        .tooLong(maximumSeconds: maximumAgeSeconds))
    }
    if isServers {
      return .server(
        ServerClaims(app: app.name, expiresAtSeconds: expiry, keyNumber: key.number))
    }
    return .device(
      DeviceClaims(
        app: app.name, user: user, device: payload.device,
        name: DisplayName.shown(payload.name?.text ?? ""), expiresAtSeconds: expiry,
        issuedAtSeconds: issued, keyNumber: key.number))
  }

  /// A token without `kid` is accepted if the app has a single key.
  private func key(of app: AppKeys.App, kid: String?) -> AppKeys.Key? {
    if let kid { return app.keys.first { $0.kid == kid } }
    return app.keys.count == 1 ? app.keys[0] : nil
  }
}

extension AppKeys.Key {
  fileprivate func accepts(signature: [UInt8], of text: ArraySlice<UInt8>) -> Bool {
    switch material {
    case .hs256(let secret):
      return HMAC<SHA256>.isValidAuthenticationCode(
        signature, authenticating: text, using: secret)
    case .es256(let publicKey, _):
      guard let signature = try? P256.Signing.ECDSASignature(rawRepresentation: signature)
      else { return false }
      return publicKey.isValidSignature(signature, for: text)
    }
  }
}
