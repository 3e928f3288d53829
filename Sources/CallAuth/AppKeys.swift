public import CallCore
internal import CallTelemetry
internal import Crypto
internal import FoundationEssentials

/// The keys with which apps sign their users' tokens, as the key file has them:
///
///     {"apps": [{"app": "demo", "keys": [
///       {"kid": "k1", "alg": "HS256", "secret": "<base64, 32 bytes or more>"},
///       {"kid": "k2", "alg": "ES256", "publicKey": "<PEM>", "privateKey": "<PEM, to mint with>"}
///     ], "limits": {"callsPerSecond": 100}, "pushTopics": ["org.example.app"]}]}
public struct AppKeys: Sendable {
  /// One key. Its secret goes to no log and no error.
  struct Key: Sendable {
    enum Material: Sendable {
      case hs256(SymmetricKey)
      case es256(P256.Signing.PublicKey, privateKey: P256.Signing.PrivateKey?)
    }
    let kid: String
    let material: Material
    /// Tells this key from others, also from another one of the same name: part of a digest.
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
    /// In the file's order: new tokens are signed with the first key that can.
    let keys: [Key]
    var terms = AppTerms()
  }

  let apps: [String: App]

  /// The names of all apps, sorted.
  public var appNames: [String] { apps.keys.sorted() }

  /// Of the keys of all apps.
  var keyNumbers: Set<UInt32> { Set(apps.values.flatMap(\.keys).map(\.number)) }

  /// What each app may do.
  public var terms: [String: AppTerms] { apps.mapValues(\.terms) }

  /// Reads a key file.
  /// - Throws: what is wrong, with file, app and key, and what to do about it.
  public static func load(path: String) throws(AppKeysError) -> AppKeys {
    let data: Data
    do {
      data = try Data(contentsOf: URL(filePath: path))
    } catch {
      throw AppKeysError(
        file: path, what: "the file cannot be read (\(Self.plain(error)))",
        remedy: "give the path of a key file that this user may read")
    }
    return try AppKeys(json: Array(data), file: path)
  }

  /// Reads the text of a key file.
  /// - Parameter file: what errors call it.
  public init(json: [UInt8], file: String = "keys") throws(AppKeysError) {
    let document: KeyFile
    do {
      document = try BoundedJSON.read(KeyFile.self, json)
    } catch {
      throw AppKeysError(
        file: file, what: "it is not a key file (\(Self.plain(error)))",
        remedy: #"write {"apps":[{"app":"NAME","keys":[…]}]}"#)
    }
    guard !document.apps.isEmpty else {
      throw AppKeysError(
        file: file, what: "it names no app", remedy: "add an app with at least one key")
    }
    var apps: [String: App] = [:]
    for entry in document.apps {
      let app = try Self.app(entry, isOnly: document.apps.count == 1, file: file)
      guard apps.updateValue(app, forKey: app.name) == nil else {
        throw AppKeysError(
          file: file, app: app.name, what: "the app stands there twice",
          remedy: "put all of its keys in one entry")
      }
    }
    self.apps = apps
  }

  private static func app(
    _ entry: KeyFile.App, isOnly: Bool, file: String
  ) throws(AppKeysError) -> App {
    guard IdentifierRules.isApp(entry.app) else {
      throw AppKeysError(
        file: file, app: entry.app, what: "the app's name is not valid",
        remedy: "use 1 to 64 letters, digits, '.', '_' and '-'")
    }
    guard !entry.keys.isEmpty else {
      throw AppKeysError(
        file: file, app: entry.app, what: "the app has no keys",
        remedy: "add one, or remove the app")
    }
    var keys: [Key] = []
    for candidate in entry.keys {
      let place = AppKeysError.Place(file: file, app: entry.app, kid: candidate.kid)
      guard !candidate.kid.isEmpty else {
        throw place.error("the key has no kid", "give it a name that is unique in its app")
      }
      guard !keys.contains(where: { $0.kid == candidate.kid }) else {
        throw place.error("two keys of the app have this kid", "give each key its own")
      }
      keys.append(
        Key(app: entry.app, kid: candidate.kid, material: try material(candidate, place)))
    }
    let terms = AppTerms(
      limits: try limits(entry, file), pushTopics: try pushTopics(entry, isOnly: isOnly, file))
    return App(name: entry.app, keys: keys, terms: terms)
  }

  /// The only app there is may use every topic, unless it names some; where there are several, each uses
  /// what it names.
  private static func pushTopics(
    _ entry: KeyFile.App, isOnly: Bool, _ file: String
  ) throws(AppKeysError) -> [String]? {
    guard let topics = entry.pushTopics else { return isOnly ? nil : [] }
    if topics == ["*"] { return nil }
    for topic in topics where topic.hasSuffix(".voip") || topic.utf8.contains(42) {
      throw AppKeysError(
        file: file, app: entry.app, what: "the push topic \"\(topic)\" is none",
        remedy: "give bundle ids without .voip and ids of Firebase projects, or [\"*\"] for all")
    }
    return topics
  }

  private static func limits(_ entry: KeyFile.App, _ file: String) throws(AppKeysError) -> AppLimits
  {
    var limits = AppLimits()
    for (name, value) in (entry.limits ?? [:]).sorted(by: { $0.key < $1.key }) {
      guard let limit = AppLimit(rawValue: name) else {
        let names = AppLimit.allCases.map(\.rawValue)
        throw AppKeysError(
          file: file, app: entry.app, what: "there is no limit \"\(name)\"",
          remedy: Suggestion.closest(to: name, among: names).map { "did you mean \($0)?" }
            ?? "limits are \(names.joined(separator: ", "))")
      }
      let range = limit.facts.range
      guard range.contains(value) else {
        throw AppKeysError(
          file: file, app: entry.app, what: "the limit \(name) is \(value)",
          remedy: "give a whole number from \(range.lowerBound) to \(range.upperBound)")
      }
      limits[limit] = value
    }
    return limits
  }

  private static func material(_ entry: KeyFile.Key, _ place: AppKeysError.Place)
    throws(AppKeysError) -> Key.Material
  {
    switch entry.alg {
    case "HS256": return try symmetric(entry, place)
    case "ES256": return try elliptic(entry, place)
    default:
      throw place.error("the algorithm \"\(entry.alg)\" is not known", "use HS256 or ES256")
    }
  }

  private static func symmetric(_ entry: KeyFile.Key, _ place: AppKeysError.Place)
    throws(AppKeysError) -> Key.Material
  {
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

  private static func elliptic(_ entry: KeyFile.Key, _ place: AppKeysError.Place)
    throws(AppKeysError) -> Key.Material
  {
    let privateKey: P256.Signing.PrivateKey?
    do {
      privateKey = try entry.privateKey.map {
        try P256.Signing.PrivateKey(pemRepresentation: $0)
      }
    } catch {
      throw place.error(
        "privateKey is not the PEM text of a P-256 key",
        "make one with: openssl ecparam -name prime256v1 -genkey -noout")
    }
    guard let text = entry.publicKey else {
      guard let privateKey else {
        throw place.error(
          "an ES256 key needs a publicKey",
          "set publicKey to the PEM text that openssl ec -pubout prints")
      }
      return .es256(privateKey.publicKey, privateKey: privateKey)
    }
    guard let publicKey = try? P256.Signing.PublicKey(pemRepresentation: text) else {
      throw place.error(
        "publicKey is not the PEM text of a P-256 key",
        "set it to what openssl ec -pubout prints")
    }
    if let privateKey, privateKey.publicKey.rawRepresentation != publicKey.rawRepresentation {
      throw place.error(
        "publicKey and privateKey do not belong together", "leave publicKey out, or correct it")
    }
    return .es256(publicKey, privateKey: privateKey)
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

extension AppKeys {
  /// New keys for one app, an HS256 and an ES256 one, and the key file that holds them. For
  /// development: who has the file can be any user.
  public static func generateDevelopment(app: String) -> (AppKeys, json: String) {
    generateDevelopment(apps: [app])
  }

  /// The same for several apps, each with keys of its own.
  /// - Parameter limits: of apps that have others than the standard ones.
  package static func generateDevelopment(
    apps names: [String], limits: [String: [AppLimit: Int]] = [:]
  ) -> (AppKeys, json: String) {
    var apps: [String: App] = [:]
    var file = KeyFile(apps: [])
    for name in names {
      var (app, entry) = developmentApp(name)
      for (limit, value) in limits[name] ?? [:] {
        app.terms.limits[limit] = value
        entry.limits = (entry.limits ?? [:]).merging([limit.rawValue: value]) { $1 }
      }
      apps[name] = app
      file.apps.append(entry)
    }
    let encoder = JSONEncoder()
    encoder.outputFormatting = [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes]
    // A value of strings alone can always be encoded.
    let json = (try? encoder.encode(file)).map { String(decoding: $0, as: UTF8.self) } ?? ""
    return (AppKeys(apps: apps), json)
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

  /// The same keys, with other terms of one app.
  package func with(_ terms: AppTerms, of name: String) -> AppKeys {
    var apps = apps
    apps[name]?.terms = terms
    return AppKeys(apps: apps)
  }

  private init(apps: [String: App]) { self.apps = apps }
}

/// A key file as JSON.
private struct KeyFile: Codable {
  struct App: Codable {
    var app: String
    var keys: [Key]
    var limits: [String: Int]?
    var pushTopics: [String]?
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

/// What is wrong with a key file, where, and what to do about it.
public struct AppKeysError: Error, Sendable, Equatable, CustomStringConvertible {
  public var file: String
  public var app: String?
  public var kid: String?
  public var what: String
  public var remedy: String

  init(file: String, app: String? = nil, kid: String? = nil, what: String, remedy: String) {
    self.file = file
    self.app = app
    self.kid = kid
    self.what = what
    self.remedy = remedy
  }

  public var description: String {
    var place = file
    if let app { place += ", app \"\(app)\"" }
    if let kid { place += ", key \"\(kid)\"" }
    return "\(place): \(what); \(remedy)"
  }

  struct Place {
    var file: String
    var app: String
    var kid: String
    func error(_ what: String, _ remedy: String) -> AppKeysError {
      AppKeysError(file: file, app: app, kid: kid, what: what, remedy: remedy)
    }
  }
}
