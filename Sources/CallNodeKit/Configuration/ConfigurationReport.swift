internal import FoundationEssentials

/// What `callnode config` prints.
package enum ConfigurationReport {
  package static func text(_ settings: ResolvedSettings) -> String {
    var rows: [(String, String, String)] = []
    for setting in Setting.all {
      rows.append((setting.key.rawValue, shown(setting.key, settings), origin(setting, settings)))
    }
    let keyWidth = rows.map(\.0.count).max() ?? 0
    let valueWidth = min(40, rows.map(\.1.count).max() ?? 0)
    var out = ""
    var group: SettingGroup?
    for (setting, row) in zip(Setting.all, rows) {
      if setting.group != group {
        out += (group == nil ? "" : "\n") + setting.group.title + "\n"
        group = setting.group
      }
      out += "  " + padded(row.0, keyWidth) + "  " + padded(row.1, valueWidth) + "  \(row.2)\n"
    }
    for name in settings.unknownEnvironment {
      out += "\nThe environment variable \(name) is no setting and has no effect."
    }
    if !settings.unknownEnvironment.isEmpty { out += "\n" }
    return out
  }

  package static func json(_ settings: ResolvedSettings) throws -> String {
    let rows = Setting.all.map { setting in
      let origin = settings.entries[setting.key]?.origin ?? .standard
      let place: String? =
        switch origin {
        case .flag(let name), .environment(let name), .file(let name): name
        case .standard: nil
        }
      return Row(
        key: setting.key.rawValue, value: value(setting.key, settings), origin: origin.kindName,
        place: place, flag: setting.key.flag, environment: setting.key.environment,
        type: setting.kind.typeName, accepts: setting.kind.demand, standard: setting.shownStandard,
        meaning: setting.meaning)
    }
    let encoder = JSONEncoder()
    encoder.outputFormatting = [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes]
    return String(decoding: try encoder.encode(rows), as: UTF8.self) + "\n"
  }

  private struct Row: Encodable {
    var key: String
    var value: String?
    var origin: String
    var place: String?
    var flag: String
    var environment: String
    var type: String
    var accepts: String
    var standard: String
    var meaning: String
    enum CodingKeys: String, CodingKey {
      case key, value, origin, place, flag, environment, type, accepts
      case standard = "default"
      case meaning
    }
  }

  /// Credentials in URLs are hidden.
  private static func value(_ key: SettingKey, _ settings: ResolvedSettings) -> String? {
    let text = settings[key]?.shown
    return key == .natsUrl ? text.map(NATSURL.withoutCredentials) : text
  }

  private static func shown(_ key: SettingKey, _ settings: ResolvedSettings) -> String {
    value(key, settings) ?? "-"
  }

  private static func origin(_ setting: Setting, _ settings: ResolvedSettings) -> String {
    switch settings.entries[setting.key]?.origin ?? .standard {
    case .flag(let name): name
    case .environment(let name): name
    case .file(let path): path
    case .standard: setting.standardNote.map { "default: \($0)" } ?? "default"
    }
  }

  private static func padded(_ text: String, _ width: Int) -> String {
    text + String(repeating: " ", count: max(0, width - text.count))
  }
}
