public import CallCore
internal import Crypto
internal import FoundationEssentials

/// The keys with which apps sign their users' tokens, read from the key file:
///
///     {"apps": [{"app": "demo", "keys": [
///       {"kid": "k1", "alg": "HS256", "secret": "<base64, 32 bytes or more>"},
///       {"kid": "k2", "alg": "ES256", "publicKey": "<PEM>", "privateKey": "<PEM, to mint with>"}
///     ], "limits": {"callsPerSecond": 100}, "pushTopics": ["org.example.app"],
///     "hook": {"url": "https://…", "secrets": ["whsec_…"]},
///     "webhooks": [{"url": "https://…", "secrets": ["whsec_…"], "events": ["call.ended"]}]}]}
public struct AppKeys: Sendable {
  /// One key. Its secret appears in no log and no error.
  struct Key: Sendable {
    enum Material: Sendable {
      case hs256(SymmetricKey)
      case es256(P256.Signing.PublicKey, privateKey: P256.Signing.PrivateKey?)
    }
    let kid: String
    let material: Material
    /// Identifies the key, also among keys of the same name: part of a digest.
    let number: UInt32

    init(app: String, kid: String, material: Material) {
      self.kid = kid
      self.material = material
      var digest = SHA256()
      digest.update(data: Data("\(app)\0\(kid)\0".utf8))
      switch material {
      case .hs256(let secret): secret.withUnsafeBytes { digest.update(bufferPointer: $0) }
      case .es256(let key, _): digest.update(data: key.rawRepresentation)
      }
      number = digest.finalize().prefix(4).reduce(0) { $0 << 8 | UInt32($1) }
    }

    /// The `alg` that a token signed with this key must name.
    var algorithm: String {
      switch material {
      case .hs256: "HS256"
      case .es256: "ES256"
      }
    }
    var canSign: Bool {
      switch material {
      case .hs256: true
      case .es256(_, let privateKey): privateKey != nil
      }
    }
  }

  struct App: Sendable {
    let name: String
    /// In the file's order. New tokens are signed with the first key that can sign.
    let keys: [Key]
    var terms = AppTerms()
    var hook: HookSettings?
    var webhooks: [WebhookSettings] = []
  }

  let apps: [String: App]

  /// The names of all apps, sorted.
  public var appNames: [String] { apps.keys.sorted() }

  /// The numbers of the keys of all apps.
  var keyNumbers: Set<UInt32> { Set(apps.values.flatMap(\.keys).map(\.number)) }

  /// The limits and topics of each app.
  public var terms: [String: AppTerms] { apps.mapValues(\.terms) }

  /// The hooks of the apps that have one.
  public var hooks: [String: HookSettings] { apps.compactMapValues(\.hook) }

  /// The webhooks of the apps that have some.
  public var webhooks: [String: [WebhookSettings]] {
    apps.mapValues(\.webhooks).filter { !$0.value.isEmpty }
  }

  init(apps: [String: App]) { self.apps = apps }

  /// No app's: no token is good.
  public static let none = AppKeys(apps: [:])

  /// The same keys, with other terms of one app.
  package func with(_ terms: AppTerms, of name: String) -> AppKeys {
    var apps = apps
    apps[name]?.terms = terms
    return AppKeys(apps: apps)
  }

  /// The same keys, with another hook of one app; nil: without one.
  package func with(_ hook: HookSettings?, of name: String) -> AppKeys {
    var apps = apps
    apps[name]?.hook = hook
    return AppKeys(apps: apps)
  }

  /// The same keys, with other webhooks of one app.
  package func with(webhooks: [WebhookSettings], of name: String) -> AppKeys {
    var apps = apps
    apps[name]?.webhooks = webhooks
    apps[name]?.terms.subscriptions.remove(.webhooks)
    if !webhooks.isEmpty { apps[name]?.terms.subscriptions.insert(.webhooks) }
    return AppKeys(apps: apps)
  }
}
