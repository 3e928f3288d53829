internal import Configuration
internal import Synchronization

/// What is in force: for every setting a value and its origin.
package struct ResolvedSettings: Sendable {
  package struct Entry: Sendable, Equatable {
    /// nil where there is no value and the node works one out.
    package var value: SettingValue?
    package var origin: SettingOrigin
    package init(value: SettingValue?, origin: SettingOrigin) {
      self.value = value
      self.origin = origin
    }
  }

  package private(set) var entries: [SettingKey: Entry] = [:]
  /// Variables that begin like ours and mean nothing to us.
  package private(set) var unknownEnvironment: [String] = []

  package subscript(key: SettingKey) -> SettingValue? { entries[key]?.value }

  /// Flags count before the environment, the environment before the file, the file before the
  /// defaults.
  /// - Parameter flags: values as given on the command line.
  /// - Throws: `ConfigurationError` with every value that is not acceptable.
  package static func resolve(
    flags: [SettingKey: String], environment: [String: String], file: ConfigurationFile?
  ) throws(ConfigurationError) -> ResolvedSettings {
    let origins = OriginRecorder()
    let reader = ConfigReader(
      providers: [
        InMemoryProvider(name: "flags", values: Self.values(flags)),
        EnvironmentVariablesProvider(environmentVariables: environment)
          .prefixKeys(with: ["callmesh"]),
        InMemoryProvider(name: "file", values: Self.values(file?.values ?? [:])),
      ], accessReporter: origins)

    var resolved = ResolvedSettings()
    var problems: [ConfigurationError.Problem] = []
    for setting in Setting.all {
      let key = setting.key
      guard let text = reader.string(forKey: ConfigKey([key.rawValue]), isSecret: key == .natsUrl)
      else {
        resolved.entries[key] = Entry(
          value: setting.standard.flatMap(setting.kind.read), origin: .standard)
        continue
      }
      let origin: SettingOrigin =
        switch origins.layer {
        case 0: .flag(key.flag)
        case 1: .environment(key.environment)
        default: .file(file?.path ?? "")
        }
      if key == .natsUrl, case .flag = origin, NATSURL.hasCredentials(text) {
        problems.append(
          .init(
            setting: key.rawValue, value: NATSURL.withoutCredentials(text), origin: origin,
            problem:
              "holds a password or a token, which every process of this machine can read there",
            remedy: "Give the URL without it, and \(SettingKey.natsUser.rawValue) with "
              + "\(SettingKey.natsPasswordFile.rawValue); or set \(key.environment)."))
      } else if let value = setting.kind.read(text) {
        resolved.entries[key] = Entry(value: value, origin: origin)
      } else {
        problems.append(
          .init(
            setting: key.rawValue,
            value: key == .natsUrl ? NATSURL.withoutCredentials(text) : text, origin: origin,
            problem: "must be \(setting.kind.demand)",
            // The table's remedy for ports is about what Kubernetes sets.
            remedy: key == .port && !text.hasPrefix("tcp://") ? nil : setting.remedy))
      }
    }
    if !problems.isEmpty { throw ConfigurationError(problems) }
    let known = Set(SettingKey.allCases.map(\.environment) + ["CALLMESH_CONFIG"])
    resolved.unknownEnvironment = environment.keys
      .filter { $0.hasPrefix("CALLMESH_") && !known.contains($0) }.sorted()
    return resolved
  }

  private static func values(_ given: [SettingKey: String]) -> [AbsoluteConfigKey: ConfigValue] {
    Dictionary(
      uniqueKeysWithValues: given.map {
        (AbsoluteConfigKey([$0.key.rawValue]), ConfigValue(.string($0.value), isSecret: false))
      })
  }
}

/// Hears from the reader which of its providers gave the last value: they are asked in order.
private final class OriginRecorder: AccessReporter {
  private let last = Mutex(0)

  func report(_ event: AccessEvent) {
    let layer = event.providerResults.firstIndex { answer in
      if case .success(let found) = answer.result { found.value != nil } else { false }
    }
    last.withLock { $0 = layer ?? 0 }
  }

  var layer: Int { last.withLock { $0 } }
}
