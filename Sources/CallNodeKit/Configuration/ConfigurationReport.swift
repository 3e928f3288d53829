internal import FoundationEssentials

/// What `callnode config` prints.
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
    let encoder = JSONEncoder()
    encoder.outputFormatting = [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes]
    return String(decoding: try encoder.encode(rows), as: UTF8.self) + "\n"
  }

  private static func origin(_ setting: Setting, _ settings: ResolvedSettings) -> String {
    settings.origin(of: setting.key).place
      ?? (setting.hasDefault ? "default" : "default: \(setting.defaultText)")
  }

  private static func padded(_ text: String, _ width: Int) -> String {
    text + String(repeating: " ", count: max(0, width - text.count))
  }
}
