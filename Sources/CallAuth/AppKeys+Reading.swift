internal import CallCore
internal import CallTelemetry
internal import Crypto
internal import FoundationEssentials

/// A key file as JSON.
struct KeyFile: Codable {
  struct App: Codable {
    var app: String
    var keys: [Key]
    var limits: [String: Int]?
    var pushTopics: [String]?
    var secondCalls: String?
    var forwardedRing: String?
    var ongoingCalls: Bool?
    var history: Bool?
    var hook: Hook?
    var webhooks: [Webhook]?
  }
  struct Webhook: Codable {
    var url: String
    var secrets: [String]
    var events: [String]?
  }
  struct Hook: Codable {
    var url: String
    var secrets: [String]
    var timeoutMilliseconds: Int?
    var whenAway: String?
  }
  struct Key: Codable {
    var kid: String
    var alg: String
    var secret: String?
    var publicKey: String?
    var privateKey: String?
  }
  var apps: [App]
}

extension AppKeys {
  /// Reads a key file.
  /// - Throws: what is wrong, with file, app and key, and how to fix it.
  public static func load(path: String) throws(AppKeysError) -> AppKeys {
    let data: Data
    do {
      data = try Data(contentsOf: URL(filePath: path))
    } catch {
      throw AppKeysError.Place(file: path).error(
        "the file cannot be read (\(Self.plain(error)))",
        "give the path of a key file that this user may read")
    }
    return try AppKeys(json: Array(data), file: path)
  }

  /// Reads the text of a key file.
  /// - Parameter file: its name in errors.
  /// - Throws: what is wrong, with file, app and key, and how to fix it.
  public init(json: [UInt8], file: String = "keys") throws(AppKeysError) {
    let place = AppKeysError.Place(file: file)
    let document: KeyFile
    do {
      document = try BoundedJSON.read(KeyFile.self, json)
    } catch {
      throw place.error(
        "it is not a key file (\(Self.plain(error)))",
        #"write {"apps":[{"app":"NAME","keys":[…]}]}"#)
    }
    guard !document.apps.isEmpty else {
      throw place.error("it names no app", "add an app with at least one key")
    }
    var apps: [String: App] = [:]
    for entry in document.apps {
      let place = AppKeysError.Place(file: file, app: entry.app)
      let app = try App(entry, isOnly: document.apps.count == 1, place)
      guard apps.updateValue(app, forKey: app.name) == nil else {
        throw place.error("the app stands there twice", "put all of its keys in one entry")
      }
    }
    self.init(apps: apps)
  }

  private static func plain(_ error: any Error) -> String {
    switch error {
    case DecodingError.keyNotFound(let key, _): "\"\(key.stringValue)\" is missing"
    case DecodingError.typeMismatch(_, let context), DecodingError.valueNotFound(_, let context):
      "\"\(context.codingPath.map(\.stringValue).joined(separator: "."))\" has the wrong type"
    case DecodingError.dataCorrupted: "it is not JSON"
    case let error as CocoaError where error.code == .fileReadNoSuchFile: "there is no such file"
    case let error as CocoaError where error.code == .fileReadNoPermission:
      "this user may not read it"
    default: "\(error)"
    }
  }
}

extension AppKeys.App {
  fileprivate init(
    _ entry: KeyFile.App, isOnly: Bool, _ place: AppKeysError.Place
  ) throws(AppKeysError) {
    guard IdentifierRules.isApp(entry.app) else {
      throw place.error(
        "the app's name is not valid", "use 1 to 64 letters, digits, '.', '_' and '-'")
    }
    guard !entry.keys.isEmpty else {
      throw place.error("the app has no keys", "add one, or remove the app")
    }
    var keys: [AppKeys.Key] = []
    for candidate in entry.keys {
      var place = place
      place.kid = candidate.kid
      guard !candidate.kid.isEmpty else {
        throw place.error("the key has no kid", "give it a name that is unique in its app")
      }
      guard !keys.contains(where: { $0.kid == candidate.kid }) else {
        throw place.error("two keys of the app have this kid", "give each key its own")
      }
      keys.append(
        AppKeys.Key(
          app: entry.app, kid: candidate.kid, material: try .init(candidate, place)))
    }
    let webhooks = try WebhookSettings.read(entry.webhooks ?? [], place)
    var subscriptions: Subscriptions = webhooks.isEmpty ? [] : .webhooks
    if entry.history ?? false { subscriptions.insert(.history) }
    var terms = AppTerms(
      limits: try AppLimits(entry.limits ?? [:], place),
      pushTopics: try Self.pushTopics(entry, isOnly: isOnly, place),
      secondCalls: try Self.choice(entry.secondCalls, "secondCalls", place),
      ongoingCalls: entry.ongoingCalls ?? false, subscriptions: subscriptions)
    terms.forwardedRing =
      try Self.choice(entry.forwardedRing, "forwardedRing", place) ?? terms.forwardedRing
    self.init(
      name: entry.app, keys: keys, terms: terms,
      hook: try entry.hook.map { hook throws(AppKeysError) in try HookSettings(hook, place) },
      webhooks: webhooks)
  }

  private static func choice<Choice: RawRepresentable<String> & CaseIterable>(
    _ text: String?, _ name: String, _ place: AppKeysError.Place
  ) throws(AppKeysError) -> Choice? {
    guard let text else { return nil }
    guard let choice = Choice(rawValue: text) else {
      let choices = Choice.allCases.map { "\"\($0.rawValue)\"" }.joined(separator: " or ")
      throw place.error("\(name) \"\(text)\" is none", "use \(choices), or leave it away")
    }
    return choice
  }

  /// nil: all topics. A single app may use every topic unless it names some; of several apps, each may use those
  /// that it names.
  private static func pushTopics(
    _ entry: KeyFile.App, isOnly: Bool, _ place: AppKeysError.Place
  ) throws(AppKeysError) -> [String]? {
    guard let topics = entry.pushTopics else { return isOnly ? nil : [] }
    if topics == ["*"] { return nil }
    for topic in topics where topic.hasSuffix(".voip") || topic.contains("*") {
      throw place.error(
        "the push topic \"\(topic)\" is none",
        "give bundle ids without .voip and ids of Firebase projects, or [\"*\"] for all")
    }
    return topics
  }
}

extension AppLimits {
  fileprivate init(
    _ values: [String: Int], _ place: AppKeysError.Place
  ) throws(AppKeysError) {
    self.init()
    for (name, value) in values.sorted(by: { $0.key < $1.key }) {
      guard let limit = AppLimit(rawValue: name) else {
        let names = AppLimit.allCases.map(\.rawValue)
        throw place.error(
          "there is no limit \"\(name)\"",
          Suggestion.closest(to: name, among: names).map { "did you mean \($0)?" }
            ?? "limits are \(names.joined(separator: ", "))")
      }
      let range = limit.facts.range
      guard range.contains(value) else {
        throw place.error(
          "the limit \(name) is \(value)",
          "give a whole number from \(range.lowerBound) to \(range.upperBound)")
      }
      self[limit] = value
    }
  }
}

extension AppKeys.Key.Material {
  fileprivate init(_ entry: KeyFile.Key, _ place: AppKeysError.Place) throws(AppKeysError) {
    switch entry.alg {
    case "HS256": self = try Self.symmetric(entry, place)
    case "ES256": self = try Self.elliptic(entry, place)
    default:
      throw place.error("the algorithm \"\(entry.alg)\" is not known", "use HS256 or ES256")
    }
  }

  private static func symmetric(
    _ entry: KeyFile.Key, _ place: AppKeysError.Place
  ) throws(AppKeysError) -> Self {
    guard let text = entry.secret else {
      throw place.error("an HS256 key needs a secret", "set secret to 32 bytes or more in base64")
    }
    guard let secret = Data(base64Encoded: text) else {
      throw place.error("the secret is not base64", "make one with: openssl rand -base64 32")
    }
    guard secret.count >= 32 else {
      throw place.error(
        "the secret has \(secret.count) bytes; HS256 is as weak as a short secret",
        "make one of 32 bytes or more with: openssl rand -base64 32")
    }
    return .hs256(SymmetricKey(data: secret))
  }

  private static func elliptic(
    _ entry: KeyFile.Key, _ place: AppKeysError.Place
  ) throws(AppKeysError) -> Self {
    let privateKey: P256.Signing.PrivateKey?
    do {
      privateKey = try entry.privateKey.map { try .init(pemRepresentation: $0) }
    } catch {
      throw place.error(
        "privateKey is not the PEM text of a P-256 key",
        "make one with: openssl ecparam -name prime256v1 -genkey -noout")
    }
    let derived = privateKey?.publicKey
    guard let text = entry.publicKey else {
      guard let derived else {
        throw place.error(
          "an ES256 key needs a publicKey",
          "set publicKey to the PEM text that openssl ec -pubout prints")
      }
      return .es256(derived, privateKey: privateKey)
    }
    guard let publicKey = try? P256.Signing.PublicKey(pemRepresentation: text) else {
      throw place.error(
        "publicKey is not the PEM text of a P-256 key",
        "set it to what openssl ec -pubout prints")
    }
    if let derived, derived.rawRepresentation != publicKey.rawRepresentation {
      throw place.error(
        "publicKey and privateKey do not belong together", "leave publicKey out, or correct it")
    }
    return .es256(publicKey, privateKey: privateKey)
  }
}

/// An error in a key file, with its place and the remedy.
public struct AppKeysError: Error, Sendable, Equatable, CustomStringConvertible {
  public var file: String
  public var app: String?
  public var kid: String?
  public var what: String
  public var remedy: String

  public var description: String {
    var place = file
    if let app { place += ", app \"\(app)\"" }
    if let kid { place += ", key \"\(kid)\"" }
    return "\(place): \(what); \(remedy)"
  }

  /// A file, an app or a key that may be wrong.
  struct Place {
    var file: String
    var app: String?
    var kid: String?
    func error(_ what: String, _ remedy: String) -> AppKeysError {
      AppKeysError(file: file, app: app, kid: kid, what: what, remedy: remedy)
    }
  }
}
