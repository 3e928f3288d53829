internal import CallCore
internal import CallTelemetry
internal import FoundationEssentials

/// The file of push providers: which teams, projects and keys a gateway sends with. It names the files
/// that hold keys, and holds none itself.
package struct PushProviders: Sendable, Equatable, Decodable {
  package struct APNs: Sendable, Equatable, Decodable {
    package var name: String
    package var team: String
    /// The key's id, 10 letters and digits.
    package var key: String
    package var keyFile: String
    /// production or sandbox.
    package var environment: String
    /// The apps' bundle ids.
    package var topics: [String]
    /// The apps whose devices it serves; nil: all.
    package var apps: [String]?
    /// `host` or `host:port` in place of Apple's.
    package var endpoint: String?
    package var caFile: String?
  }
  package struct FCM: Sendable, Equatable, Decodable {
    package var name: String
    package var project: String?
    package var serviceAccountFile: String
    package var apps: [String]?
    package var endpoint: String?
    package var tokenEndpoint: String?
    package var caFile: String?
  }
  package struct WebPush: Sendable, Equatable, Decodable {
    package var name: String
    package var keyFile: String
    package var subject: String
    package var apps: [String]?
    package var furtherHosts: [String]?
    package var caFile: String?
    package var allowsPrivateAddresses: Bool?
  }

  package var apns: [APNs]
  package var fcm: [FCM]
  package var webPush: [WebPush]

  package init(apns: [APNs] = [], fcm: [FCM] = [], webPush: [WebPush] = []) {
    self.apns = apns
    self.fcm = fcm
    self.webPush = webPush
  }

  private enum Keys: String, CodingKey { case apns, fcm, webPush }

  package init(from decoder: any Decoder) throws {
    let values = try decoder.container(keyedBy: Keys.self)
    apns = try values.decodeIfPresent([APNs].self, forKey: .apns) ?? []
    fcm = try values.decodeIfPresent([FCM].self, forKey: .fcm) ?? []
    webPush = try values.decodeIfPresent([WebPush].self, forKey: .webPush) ?? []
  }

  /// Whose devices an entry serves, by its name; nil: those of all apps.
  package func apps(ofEntry name: String) -> [String]? {
    apns.first { $0.name == name }?.apps ?? fcm.first { $0.name == name }?.apps
      ?? webPush.first { $0.name == name }?.apps
  }

  /// Every file that is named, to see whether one changed.
  package var files: [String] {
    apns.flatMap { [$0.keyFile, $0.caFile] }.compactMap(\.self)
      + fcm.flatMap { [$0.serviceAccountFile, $0.caFile] }.compactMap(\.self)
      + webPush.flatMap { [$0.keyFile, $0.caFile] }.compactMap(\.self)
  }

  private static func problem(
    _ path: String, _ origin: SettingOrigin?, _ text: String, _ remedy: String
  ) -> ConfigurationError {
    ConfigurationError([
      .init(
        setting: "pushProviders", value: path, origin: origin, problem: text,
        remedy: remedy)
    ])
  }

  /// Reads the file and checks what it says by itself. Relative paths in it count from its folder.
  /// - Throws: `ConfigurationError` with everything that is wrong.
  package static func read(path: String, origin: SettingOrigin?) throws(ConfigurationError)
    -> PushProviders
  {
    let data: Data
    do {
      data = try Data(contentsOf: URL(filePath: path))
    } catch {
      throw problem(
        path, origin, "the file cannot be read", "Give the path of a file that this user may read.")
    }
    return try read(json: Array(data), path: path, origin: origin)
  }

  package static func read(
    json: [UInt8], path: String, origin: SettingOrigin?
  ) throws(ConfigurationError) -> PushProviders {
    func problem(_ text: String, _ remedy: String) -> ConfigurationError {
      Self.problem(path, origin, text, remedy)
    }
    guard json.count <= 1 << 20 else {
      throw problem("the file is larger than 1 MiB", "Is it the right one?")
    }
    let remedy = "docs/configuration.md has a whole example."
    var providers: PushProviders
    do {
      try checkNames(json)
      providers = try BoundedJSON.read(PushProviders.self, json)
    } catch let error as DecodingError {
      throw problem(sentence(error), remedy)
    } catch let error as UnknownName {
      throw problem(error.text, remedy)
    } catch {
      throw problem("it is not JSON", remedy)
    }
    let slash = path.lastIndex(of: "/")
    providers.resolvePaths(slash.map { String(path[...$0]) } ?? "")
    let problems = providers.problems(origin)
    if !problems.isEmpty { throw ConfigurationError(problems) }
    return providers
  }

  private mutating func resolvePaths(_ folder: String) {
    func full(_ path: String) -> String { path.hasPrefix("/") ? path : folder + path }
    for index in apns.indices {
      apns[index].keyFile = full(apns[index].keyFile)
      apns[index].caFile = apns[index].caFile.map(full)
    }
    for index in fcm.indices {
      fcm[index].serviceAccountFile = full(fcm[index].serviceAccountFile)
      fcm[index].caFile = fcm[index].caFile.map(full)
    }
    for index in webPush.indices {
      webPush[index].keyFile = full(webPush[index].keyFile)
      webPush[index].caFile = webPush[index].caFile.map(full)
    }
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
    if apns.isEmpty, fcm.isEmpty, webPush.isEmpty {
      add("apns, fcm, webPush", nil, "there is no provider", "Name at least one.")
    }
    var names: Set<String> = []
    for (index, name) in (apns.map(\.name) + fcm.map(\.name) + webPush.map(\.name)).enumerated() {
      let isPlain = name.utf8.allSatisfy { $0 > 32 && $0 < 127 && $0 != UInt8(ascii: "\"") }
      if name.isEmpty || !isPlain || name.utf8.count > 64 {
        add(
          "name", name, "entry \(index + 1) has no usable name", "Use 1 to 64 letters and digits.")
      } else if !names.insert(name).inserted {
        add(
          "name", name, "two providers have it", "Metrics and the status tell them apart by name.")
      }
    }
    let lists = apns.map { ($0.name, $0.apps) } + fcm.map { ($0.name, $0.apps) }
    for (name, apps) in lists + webPush.map({ ($0.name, $0.apps) }) {
      guard let apps else { continue }
      if apps.isEmpty || !apps.allSatisfy(IdentifierRules.isApp) {
        add(
          "\(name).apps", apps.joined(separator: ", "), "must be names of apps",
          "Name them as the file of keys does, or leave it out for all.")
      }
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

  /// A name that means nothing is a mistake: as a rule a misspelt one.
  private static func checkNames(_ json: [UInt8]) throws {
    let known: [String: Set<String>] = [
      "apns": [
        "name", "team", "key", "keyFile", "environment", "topics", "apps", "endpoint", "caFile",
      ],
      "fcm": [
        "name", "project", "serviceAccountFile", "apps", "endpoint", "tokenEndpoint", "caFile",
      ],
      "webPush": [
        "name", "keyFile", "subject", "apps", "furtherHosts", "caFile", "allowsPrivateAddresses",
      ],
    ]
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
