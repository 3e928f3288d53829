internal import CallTelemetry
internal import NATSBus

/// The settings in force, each with where it comes from.
package struct ResolvedSettings: Sendable {
  /// The values. `node(for:generatedNodeID:)` returns them checked against each other.
  package private(set) var values = NodeConfiguration()
  /// The origins of the values that are not defaults.
  private var origins: [SettingKey: SettingOrigin] = [:]
  /// Variables that begin with `CALLMESH_` but name no setting.
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
      if let problem = resolved.set(text, setting, origin) { problems.append(problem) }
    }
    if !problems.isEmpty { throw ConfigurationError(problems) }
    let known = Set(Setting.all.map(\.key.environment) + ["CALLMESH_CONFIG"])
    resolved.unknownEnvironment = environment.keys
      .filter { $0.hasPrefix("CALLMESH_") && !known.contains($0) }.sorted()
    return resolved
  }

  /// - Returns: the problem with the value; nil where the value is in force.
  private mutating func set(
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

/// The output of `callnode config`.
package enum ConfigurationReport {
  package static func text(_ settings: ResolvedSettings) -> String {
    let keyWidth = Setting.all.map(\.key.rawValue.count).max() ?? 0
    let values = Setting.all.map { settings.text($0.key) ?? "-" }
    let valueWidth = min(40, values.map(\.count).max() ?? 0)
    var out = ""
    var group: SettingGroup?
    for (setting, value) in zip(Setting.all, values) {
      if setting.group != group {
        out += (group == nil ? "" : "\n") + setting.group.title + "\n"
        group = setting.group
      }
      out += "  " + padded(setting.key.rawValue, keyWidth) + "  " + padded(value, valueWidth)
      out += "  \(origin(setting, settings))\n"
    }
    for name in settings.unknownEnvironment {
      out += "\nThe environment variable \(name) is no setting and has no effect."
    }
    if !settings.unknownEnvironment.isEmpty { out += "\n" }
    return out
  }

  /// - Throws: what the encoder throws.
  package static func json(_ settings: ResolvedSettings) throws -> String {
    let rows = Setting.all.map { setting in
      let origin = settings.origin(of: setting.key)
      return [
        "key": setting.key.rawValue, "value": settings.text(setting.key), "origin": origin.kind,
        "place": origin.place, "flag": setting.key.flag, "environment": setting.key.environment,
        "type": setting.typeName, "accepts": setting.demand, "default": setting.defaultText,
        "meaning": setting.meaning,
      ].compactMapValues(\.self)
    }
    return try rows.sortedJSON(indented: true) + "\n"
  }

  private static func origin(_ setting: Setting, _ settings: ResolvedSettings) -> String {
    settings.origin(of: setting.key).place
      ?? (setting.hasDefault ? "default" : "default: \(setting.defaultText)")
  }

  private static func padded(_ text: String, _ width: Int) -> String {
    text + String(repeating: " ", count: max(0, width - text.count))
  }
}
