package import CallCore
internal import CallTelemetry
internal import Crypto
internal import FoundationEssentials

extension AppKeys {
  /// Signs a token, for development and tests. In production the app's own server does that.
  /// - Parameters:
  ///   - kid: the key; nil: the app's first one that can sign.
  ///   - device: where set, the token is good for this device only.
  ///   - name: the user's display name.
  ///   - now: seconds since 1970; the token expires `lifetimeSeconds` later.
  /// - Throws: `TokenMinterError`, or the error of signing.
  package func mintToken(
    kid: String? = nil, app: String, user: String, device: String? = nil, name: String? = nil,
    lifetimeSeconds: Int64, now: Int64
  ) throws -> String {
    try signingKey(kid: kid, app: app).mintToken(
      app: app, user: user, device: device, name: name, lifetimeSeconds: lifetimeSeconds, now: now)
  }

  /// Signs a token of the app's server, for development and tests.
  /// - Parameters: as of `mintToken`.
  /// - Throws: as `mintToken`.
  package func mintServerToken(
    kid: String? = nil, app: String, lifetimeSeconds: Int64, now: Int64
  ) throws -> String {
    let most = TokenVerifier.serverMaximumAgeSeconds
    guard (1...most).contains(lifetimeSeconds) else {
      throw TokenMinterError("a token of an app's server lives 1 to \(most) seconds")
    }
    let claims = Claims(
      app: app, sub: nil, iat: now, exp: now &+ lifetimeSeconds, device: nil, name: nil,
      server: true)
    return try signingKey(kid: kid, app: app).sign(claims)
  }

  private func signingKey(kid: String?, app: String) throws -> Key {
    guard let entry = apps[app] else {
      throw TokenMinterError(
        "there is no app \"\(app)\"; known are: \(appNames.joined(separator: ", "))")
    }
    guard let key = entry.keys.first(where: { $0.canSign && kid ?? $0.kid == $0.kid }) else {
      throw TokenMinterError(
        "app \"\(app)\" has only public keys; add the privateKey of one to the key file")
    }
    return key
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
    app: String, user: String, device: String?, name: String?, lifetimeSeconds: Int64, now: Int64
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
    return try sign(
      Claims(
        app: app, sub: user, iat: now, exp: now &+ lifetimeSeconds, device: device, name: name,
        server: nil))
  }

  fileprivate func sign(_ claims: Claims) throws -> String {
    func part(_ value: some Encodable) throws -> String {
      base64URL(Data(try value.sortedJSON().utf8))
    }
    let text = try part(Header(alg: algorithm, kid: kid, typ: "JWT")) + "." + part(claims)
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
  var sub: String?
  var iat: Int64
  var exp: Int64
  var device: String?
  var name: String?
  var server: Bool?
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

extension AppKeys {
  /// Generates an HS256 and an ES256 key for one app, and the key file that contains them. For development: whoever
  /// has the file can be any user.
  public static func generateDevelopment(app: String) -> (AppKeys, json: String) {
    generateDevelopment(apps: [app])
  }

  /// The settings of a development app beside its keys.
  package struct DevelopmentExtras: Sendable {
    package var keepsHistory = false
    package var webhook: (url: String, secret: [UInt8])?
    package var hook: Hook?
    package var secondCalls: SecondCalls?
    package var ongoingCalls = false
    /// It may register push tokens of all topics, even where there are several apps.
    package var usesAllTopics = false
    package init() {}

    package struct Hook: Sendable {
      package var url: String
      package var secret: [UInt8]
      package var timeout: Span
      package var whenAway: HookSettings.WhenAway

      package init(
        url: String, secret: [UInt8], timeout: Span, whenAway: HookSettings.WhenAway
      ) {
        (self.url, self.secret) = (url, secret)
        (self.timeout, self.whenAway) = (timeout, whenAway)
      }
    }
  }

  /// The same for several apps.
  /// - Parameters:
  ///   - limits: by app, where they differ from the default.
  ///   - extras: by app.
  package static func generateDevelopment(
    apps names: [String], limits: [String: [AppLimit: Int]] = [:],
    extras: [String: DevelopmentExtras] = [:]
  ) -> (AppKeys, json: String) {
    var apps: [String: App] = [:]
    var file = KeyFile(apps: [])
    for name in names {
      var (app, entry) = developmentApp(name)
      if let extras = extras[name] { add(extras, to: &app, &entry) }
      for (limit, value) in limits[name] ?? [:] {
        app.terms.limits[limit] = value
        entry.limits = (entry.limits ?? [:]).merging([limit.rawValue: value]) { $1 }
      }
      apps[name] = app
      file.apps.append(entry)
    }
    // Strings and integers can always be encoded.
    return (AppKeys(apps: apps), (try? file.sortedJSON(indented: true)) ?? "")
  }

  private static func add(
    _ extras: DevelopmentExtras, to app: inout App, _ entry: inout KeyFile.App
  ) {
    if extras.keepsHistory {
      entry.history = true
      app.terms.subscriptions.insert(.history)
    }
    (entry.secondCalls, app.terms.secondCalls) = (extras.secondCalls?.rawValue, extras.secondCalls)
    if extras.ongoingCalls { (entry.ongoingCalls, app.terms.ongoingCalls) = (true, true) }
    if extras.usesAllTopics { entry.pushTopics = ["*"] }
    func text(_ secret: [UInt8]) -> String { "whsec_" + Data(secret).base64EncodedString() }
    if let hook = extras.hook {
      entry.hook = KeyFile.Hook(
        url: hook.url, secrets: [text(hook.secret)],
        timeoutMilliseconds: Int(hook.timeout.microseconds / 1000),
        whenAway: hook.whenAway.rawValue)
      app.hook = HookSettings(
        url: hook.url, secrets: [hook.secret], timeout: hook.timeout, whenAway: hook.whenAway)
    }
    if let webhook = extras.webhook {
      entry.webhooks = [KeyFile.Webhook(url: webhook.url, secrets: [text(webhook.secret)])]
      app.webhooks = [
        WebhookSettings(SignedEndpoint(url: webhook.url, secrets: [webhook.secret]))
      ]
      app.terms.subscriptions.insert(.webhooks)
    }
  }

  private static func developmentApp(_ name: String) -> (App, KeyFile.App) {
    let secret = SymmetricKey(size: .bits256)
    let pair = P256.Signing.PrivateKey()
    let text = secret.withUnsafeBytes { Data($0).base64EncodedString() }
    let entry = KeyFile.App(
      app: name,
      keys: [
        .init(kid: "dev-hs256", alg: "HS256", secret: text, publicKey: nil, privateKey: nil),
        .init(
          kid: "dev-es256", alg: "ES256", secret: nil,
          publicKey: pair.publicKey.pemRepresentation, privateKey: pair.pemRepresentation),
      ])
    let app = App(
      name: name,
      keys: [
        Key(app: name, kid: "dev-hs256", material: .hs256(secret)),
        Key(app: name, kid: "dev-es256", material: .es256(pair.publicKey, privateKey: pair)),
      ])
    return (app, entry)
  }
}
