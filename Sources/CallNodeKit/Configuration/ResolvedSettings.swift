internal import NATSBus

/// The settings in force, each with where it comes from.
package struct ResolvedSettings: Sendable {
  /// The values. `node(for:generatedNodeID:)` returns them checked against each other.
  package private(set) var values = NodeConfiguration()
  /// Where the values come from that are not defaults.
  private var origins: [SettingKey: SettingOrigin] = [:]
  /// Variables that begin with `CALLMESH_` and are no settings.
  package private(set) var unknownEnvironment: [String] = []

  package func origin(of key: SettingKey) -> SettingOrigin { origins[key] ?? .standard }

  /// The value as an operator would write it, without credentials; nil where there is none.
  package func text(_ key: SettingKey) -> String? { Setting.of(key)?.text(values) }

  /// Flags take precedence over the environment, the environment over the file, the file over the
  /// defaults.
  /// - Parameter flags: values as given on the command line.
  /// - Throws: `ConfigurationError` with every value that is not acceptable.
  package static func resolve(
    flags: [SettingKey: String], environment: [String: String], file: ConfigurationFile?
  ) throws(ConfigurationError) -> ResolvedSettings {
    var resolved = ResolvedSettings()
    var problems: [ConfigurationError.Problem] = []
    for setting in Setting.all {
      let key = setting.key
      let text: String
      let origin: SettingOrigin
      if let given = flags[key] {
        (text, origin) = (given, .flag(key.flag))
      } else if let given = environment[key.environment] {
        (text, origin) = (given, .environment(key.environment))
      } else if let file, let given = file.values[key] {
        (text, origin) = (given, .file(file.path))
      } else {
        continue
      }
      if let problem = resolved.take(text, setting, origin) { problems.append(problem) }
    }
    if !problems.isEmpty { throw ConfigurationError(problems) }
    let known = Set(Setting.all.map(\.key.environment) + ["CALLMESH_CONFIG"])
    resolved.unknownEnvironment = environment.keys
      .filter { $0.hasPrefix("CALLMESH_") && !known.contains($0) }.sorted()
    return resolved
  }

  /// - Returns: what is wrong with the value; nil where it is in force.
  private mutating func take(
    _ text: String, _ setting: Setting, _ origin: SettingOrigin
  ) -> ConfigurationError.Problem? {
    let isURL = setting.key == "natsUrl"
    let shown = isURL ? NATSURL.withoutCredentials(text) : text
    if isURL, origin.kind == "flag", NATSURL.hasCredentials(text) {
      return .init(
        setting: setting.key.rawValue, value: shown, origin: origin,
        problem: "holds a password or a token, which every process of this machine can read there",
        remedy: "Give the URL without it, and natsUser with natsPasswordFile; or set "
          + "\(setting.key.environment).")
    }
    origins[setting.key] = origin
    if setting.write(text, to: &values) { return nil }
    // The table's remedy for ports is about what Kubernetes sets.
    let isOtherPort = setting.key == "port" && !text.hasPrefix("tcp://")
    return .init(
      setting: setting.key.rawValue, value: shown, origin: origin,
      problem: "must be \(setting.demand)", remedy: isOtherPort ? nil : setting.remedy)
  }
}
