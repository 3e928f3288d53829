internal import CallCore
internal import CallTelemetry
internal import FoundationEssentials

/// The members that entries of all kinds have.
package protocol PushEntry: Sendable, Equatable, Decodable {
  associatedtype CodingKeys: CodingKey & CaseIterable
  var name: String { get }
  var keyFile: String { get set }
  /// The apps whose devices it serves; nil: all.
  var apps: [String]? { get }
  var caFile: String? { get set }
}

extension PushEntry {
  /// The names of its members in the file.
  fileprivate static var members: [String] { CodingKeys.allCases.map(\.stringValue) }

  /// Returns the entry with its relative paths resolved in a folder.
  fileprivate func resolved(in folder: String) -> Self {
    func full(_ path: String) -> String { path.hasPrefix("/") ? path : folder + path }
    var entry = self
    entry.keyFile = full(keyFile)
    entry.caFile = caFile.map(full)
    return entry
  }
}

/// The file of push providers: which teams, projects and keys a gateway sends with. It names the files
/// that hold keys, and holds none itself.
package struct PushProviders: Sendable, Equatable, Decodable {
  package struct APNs: PushEntry {
    package var name: String
    package var team: String
    /// The key's id, 10 letters and digits.
    package var key: String
    package var keyFile: String
    /// production or sandbox.
    package var environment: String
    /// The apps' bundle ids.
    package var topics: [String]
    package var apps: [String]?
    /// `host` or `host:port` in place of Apple's.
    package var endpoint: String?
    package var caFile: String?
    /// How long Apple may keep a push that makes a phone ring.
    package var voipKeepSeconds: Int?
    package enum CodingKeys: String, CodingKey, CaseIterable {
      case name, team, key, keyFile, environment, topics, apps, endpoint, caFile, voipKeepSeconds
    }
  }
  package struct FCM: PushEntry {
    package var name: String
    package var project: String?
    package var keyFile: String
    package var apps: [String]?
    package var endpoint: String?
    package var tokenEndpoint: String?
    package var caFile: String?
    package enum CodingKeys: String, CodingKey, CaseIterable {
      case name, project, apps, endpoint, tokenEndpoint, caFile
      case keyFile = "serviceAccountFile"
    }
  }
  package struct WebPush: PushEntry {
    package var name: String
    package var keyFile: String
    package var subject: String
    package var apps: [String]?
    package var furtherHosts: [String]?
    package var caFile: String?
    package var allowsPrivateAddresses: Bool?
    package enum CodingKeys: String, CodingKey, CaseIterable {
      case name, keyFile, subject, apps, furtherHosts, caFile, allowsPrivateAddresses
    }
  }

  package private(set) var apns: [APNs] = []
  package var fcm: [FCM] = []
  package var webPush: [WebPush] = []

  /// A gateway with these delivers to webhooks only.
  static let none = Self()

  private enum CodingKeys: String, CodingKey { case apns, fcm, webPush }

  private init() {}

  package init(from decoder: any Decoder) throws {
    let values = try decoder.container(keyedBy: CodingKeys.self)
    apns = try values.decodeIfPresent([APNs].self, forKey: .apns) ?? []
    fcm = try values.decodeIfPresent([FCM].self, forKey: .fcm) ?? []
    webPush = try values.decodeIfPresent([WebPush].self, forKey: .webPush) ?? []
  }

  private var entries: [any PushEntry] { apns + fcm + webPush as [any PushEntry] }

  /// The providers that connect with the first push.
  var withoutAPNs: PushProviders {
    var out = self
    out.apns = []
    return out
  }

  /// Returns the apps whose devices the entry of that name serves; nil: all apps.
  package func apps(ofEntry name: String) -> [String]? { entries.first { $0.name == name }?.apps }

  /// Every file that an entry names, to notice when one changes.
  package var files: [String] { entries.flatMap { [$0.keyFile, $0.caFile] }.compactMap(\.self) }

  /// Reads the file and checks it, but not the files that it names. Relative paths count from its folder.
  /// - Throws: `ConfigurationError` with everything that is wrong.
  package static func read(path: String, origin: SettingOrigin?) throws(ConfigurationError)
    -> PushProviders
  {
    guard let data = try? Data(contentsOf: URL(filePath: path)) else {
      throw ConfigurationError(
        setting: "pushProviders", value: path, origin: origin, problem: "the file cannot be read",
        remedy: "Give the path of a file that this user may read.")
    }
    return try read(json: Array(data), path: path, origin: origin)
  }

  /// - Throws: `ConfigurationError` with everything that is wrong.
  package static func read(
    json: [UInt8], path: String, origin: SettingOrigin?
  ) throws(ConfigurationError) -> PushProviders {
    func problem(
      _ text: String, _ remedy: String = "docs/configuration.md has a whole example."
    ) -> ConfigurationError {
      ConfigurationError(
        setting: "pushProviders", value: path, origin: origin, problem: text, remedy: remedy)
    }
    guard json.count <= 1 << 20 else {
      throw problem("the file is larger than 1 MiB", "Is it the right one?")
    }
    var providers: PushProviders
    do {
      try checkNames(json)
      providers = try BoundedJSON.read(PushProviders.self, json)
    } catch let error as DecodingError {
      throw problem(sentence(error))
    } catch let error as UnknownName {
      throw problem(error.text)
    } catch {
      throw problem("it is not JSON")
    }
    let folder = path.lastIndex(of: "/").map { String(path[...$0]) } ?? ""
    providers.apns = providers.apns.map { $0.resolved(in: folder) }
    providers.fcm = providers.fcm.map { $0.resolved(in: folder) }
    providers.webPush = providers.webPush.map { $0.resolved(in: folder) }
    let problems = providers.problems(origin)
    if !problems.isEmpty { throw ConfigurationError(problems) }
    return providers
  }

  // MARK: Checks

  private func problems(_ origin: SettingOrigin?) -> [ConfigurationError.Problem] {
    var out: [ConfigurationError.Problem] = []
    func add(_ key: String, _ value: String?, _ text: String, _ remedy: String) {
      out.append(
        .init(
          setting: "pushProviders: \(key)", value: value, origin: origin,
          problem: text, remedy: remedy))
    }
    if entries.isEmpty {
      add("apns, fcm, webPush", nil, "there is no provider", "Name at least one.")
    }
    var names: Set<String> = []
    for (index, name) in entries.map(\.name).enumerated() {
      let isPlain = name.utf8.allSatisfy { $0 > 32 && $0 < 127 && $0 != UInt8(ascii: "\"") }
      if name.isEmpty || !isPlain || name.utf8.count > 64 {
        add(
          "name", name, "entry \(index + 1) has no usable name", "Use 1 to 64 letters and digits.")
      } else if !names.insert(name).inserted {
        add(
          "name", name, "two providers have it", "Metrics and the status tell them apart by name.")
      }
    }
    for entry in entries {
      guard let apps = entry.apps, apps.isEmpty || !apps.allSatisfy(IdentifierRules.isApp) else {
        continue
      }
      add(
        "\(entry.name).apps", apps.joined(separator: ", "), "must be names of apps",
        "Name them as the file of keys does, or leave it out for all.")
    }
    if webPush.count > 1 {
      add(
        "webPush", "\(webPush.count) entries", "there can be one",
        "A subscription does not say to which key it belongs. Keep the key that apps subscribe with."
      )
    }
    for entry in apns {
      if entry.environment != "production", entry.environment != "sandbox" {
        add(
          "apns \(entry.name).environment", entry.environment, "must be production or sandbox",
          "A device token belongs to one of them; so does the pool.")
      }
      if entry.topics.isEmpty {
        add(
          "apns \(entry.name).topics", nil, "there is none",
          "Give the bundle ids of the apps, such as org.example.app.")
      }
      if let endpoint = entry.endpoint, Self.hostAndPort(endpoint) == nil {
        add(
          "apns \(entry.name).endpoint", endpoint, "must be host or host:port",
          "Leave it out for Apple's own.")
      }
    }
    return out
  }

  /// `host`, `host:port` or `https://host:port`; the port is 443 where none is given.
  package static func hostAndPort(_ text: String) -> (host: String, port: Int)? {
    var rest = text[...]
    if rest.hasPrefix("https://") { rest = rest.dropFirst(8) }
    while rest.last == "/" { rest = rest.dropLast() }
    let parts = rest.split(separator: ":", omittingEmptySubsequences: false)
    guard (1...2).contains(parts.count), !parts[0].isEmpty,
      parts[0].utf8.allSatisfy({ $0 > 32 && $0 < 127 && $0 != UInt8(ascii: "/") })
    else { return nil }
    guard parts.count == 2 else { return (String(parts[0]), 443) }
    guard let port = Int(parts[1]), (1...65_535).contains(port) else { return nil }
    return (String(parts[0]), port)
  }

  private struct UnknownName: Error { var text: String }

  /// Refuses unknown names, which are usually misspelt.
  private static func checkNames(_ json: [UInt8]) throws {
    let known = ["apns": APNs.members, "fcm": FCM.members, "webPush": WebPush.members]
    let top = try BoundedJSON.read([String: [[String: AnyValue]]].self, json)
    for (section, entries) in top.sorted(by: { $0.key < $1.key }) {
      guard let names = known[section] else {
        throw UnknownName(
          text: "\"\(section)\" is no kind of provider; there are apns, fcm and webPush")
      }
      for entry in entries {
        for name in entry.keys.sorted() where !names.contains(name) {
          throw UnknownName(
            text: "\"\(name)\" is nothing that an entry of \(section) has; it has "
              + names.sorted().joined(separator: ", "))
        }
      }
    }
  }

  /// Anything.
  private struct AnyValue: Decodable { init(from decoder: any Decoder) throws {} }

  private static func sentence(_ error: DecodingError) -> String {
    func place(_ context: DecodingError.Context, _ last: String = "") -> String {
      let parts = context.codingPath.map { $0.intValue.map { "entry \($0 + 1)" } ?? $0.stringValue }
      return (parts + (last.isEmpty ? [] : [last])).joined(separator: ", ")
    }
    return switch error {
    case .keyNotFound(let key, let context): "\(place(context, key.stringValue)) is missing"
    case .typeMismatch(_, let context), .valueNotFound(_, let context):
      "\(place(context)) is of the wrong type"
    default: "it is not JSON"
    }
  }
}
