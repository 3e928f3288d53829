/// Signs tokens, for development and tests. In production the app's own server does that.
public struct TokenMinter: Sendable {
  /// Ten years.
  public static let lifetimeSecondsMax: Int64 = 10 * 365 * 86_400

  private let keys: AppKeys

  public init(keys: AppKeys) { self.keys = keys }

  /// Signs a token with the app's first key that can sign.
  /// - Parameters:
  ///   - device: where set, the token is good for this device only.
  ///   - now: seconds since 1970; the token expires `lifetimeSeconds` later.
  /// - Throws: `TokenMinterError`, or the error of signing.
  public func mint(
    app: String, user: String, device: String? = nil, lifetimeSeconds: Int64, now: Int64
  ) async throws -> String {
    try keys.mintToken(
      app: app, user: user, device: device, lifetimeSeconds: lifetimeSeconds, now: now)
  }

  /// Signs a token with the key `kid`.
  /// - Throws: `TokenMinterError`, or the error of signing.
  package func mint(
    kid: String, app: String, user: String, device: String? = nil, lifetimeSeconds: Int64,
    now: Int64
  ) async throws -> String {
    guard let key = keys.apps[app]?.keys.first(where: { $0.kid == kid }), key.canSign else {
      throw TokenMinterError("app \"\(app)\" has no key \"\(kid)\" that can sign")
    }
    return try key.mintToken(
      app: app, user: user, device: device, lifetimeSeconds: lifetimeSeconds, now: now)
  }
}

/// Why no token could be made.
public struct TokenMinterError: Error, Sendable, Equatable, CustomStringConvertible {
  public var message: String
  init(_ message: String) { self.message = message }
  public var description: String { message }
}
