internal import Crypto
internal import FoundationEssentials
internal import JWTKit

/// Signs tokens, for development and tests: in production the app's own server does that.
public struct TokenMinter: Sendable {
  /// Ten years.
  public static let lifetimeSecondsMax: Int64 = 10 * 365 * 86_400

  private let keys: AppKeys

  public init(keys: AppKeys) { self.keys = keys }

  /// Signs a token with the app's first key that can sign.
  /// - Parameters:
  ///   - device: where set, the token is good for this device only.
  ///   - now: seconds since 1970; the token expires `lifetimeSeconds` later.
  /// - Throws: `TokenMinterError`, or JWTKit's error when signing fails.
  public func mint(
    app: String, user: String, device: String? = nil, lifetimeSeconds: Int64, now: Int64
  ) async throws -> String {
    guard let entry = keys.apps[app] else {
      throw TokenMinterError(
        "there is no app \"\(app)\"; known are: \(keys.appNames.joined(separator: ", "))")
    }
    guard let key = entry.keys.first(where: \.canSign) else {
      throw TokenMinterError(
        "app \"\(app)\" has only public keys; add the privateKey of one to the key file")
    }
    return try await mint(
      key: key, app: app, user: user, device: device, lifetimeSeconds: lifetimeSeconds, now: now)
  }

  /// The same, with a key of choice.
  package func mint(
    kid: String, app: String, user: String, device: String? = nil, lifetimeSeconds: Int64,
    now: Int64
  ) async throws -> String {
    guard let key = keys.apps[app]?.keys.first(where: { $0.kid == kid }), key.canSign else {
      throw TokenMinterError("app \"\(app)\" has no key \"\(kid)\" that can sign")
    }
    return try await mint(
      key: key, app: app, user: user, device: device, lifetimeSeconds: lifetimeSeconds, now: now)
  }

  private func mint(
    key: AppKeys.Key, app: String, user: String, device: String?, lifetimeSeconds: Int64,
    now: Int64
  ) async throws -> String {
    guard IdentifierRules.isUser(user) else {
      throw TokenMinterError("a user id is 1 to 128 bytes of printable text")
    }
    guard device.map(IdentifierRules.isDevice) ?? true else {
      throw TokenMinterError("a device id is 1 to 64 bytes of printable text")
    }
    guard (1...Self.lifetimeSecondsMax).contains(lifetimeSeconds) else {
      throw TokenMinterError("a token lives 1 to \(Self.lifetimeSecondsMax) seconds")
    }
    let collection = JWTKeyCollection()
    switch key.material {
    case .hs256(let secret):
      await collection.add(hmac: HMACKey(key: secret), digestAlgorithm: .sha256)
    case .es256(_, let privateKey):
      guard let privateKey else { throw TokenMinterError("the key cannot sign") }
      await collection.add(ecdsa: try ES256PrivateKey(backing: privateKey))
    }
    let payload = MintedPayload(app: app, sub: user, exp: now &+ lifetimeSeconds, device: device)
    var header = JWTHeader()
    header.kid = key.kid
    return try await collection.sign(payload, header: header)
  }
}

/// `exp` in whole seconds: JWTKit's own claim would write a fraction.
private struct MintedPayload: JWTPayload {
  var app: String
  var sub: String
  var exp: Int64
  var device: String?
  func verify(using algorithm: some JWTAlgorithm) async throws {}
}

/// Why no token could be made.
public struct TokenMinterError: Error, Sendable, Equatable, CustomStringConvertible {
  public var message: String
  init(_ message: String) { self.message = message }
  public var description: String { message }
}
