internal import ArgumentParser

/// The flags of one group of settings, from the table. Values are read as text, so that a flag is
/// refused with the same error as a variable or a line of the file.
///
/// ArgumentParser finds a structure's options by its mirror, and decodes them by the names in it.
struct SettingOptions<Group: OptionGroupName>: ParsableArguments, CustomReflectable {
  /// The values on the command line.
  private(set) var given: [SettingKey: String] = [:]

  init() {}

  init(from decoder: any Decoder) throws {
    let values = try decoder.container(keyedBy: SettingKey.self)
    for setting in Self.settings {
      given[setting.key] =
        try values.decode(Option<String?>.self, forKey: setting.key).wrappedValue
    }
  }

  var customMirror: Mirror {
    Mirror(
      self,
      children: Self.settings.map { setting in
        let help = ArgumentHelp(
          "\(setting.meaning) (default: \(setting.defaultText))", valueName: setting.typeName)
        let name = String(setting.key.flag.dropFirst(2))
        let option = Option<String?>(name: .customLong(name), help: help)
        return (label: setting.key.rawValue, value: option)
      })
  }

  private static var settings: [Setting] { Setting.all.filter { $0.group == Group.group } }
}

extension SettingKey: CodingKey {
  package init?(stringValue: String) { self.init(rawValue: stringValue) }
  package init?(intValue: Int) { nil }
  package var stringValue: String { rawValue }
  package var intValue: Int? { nil }
}

/// Names a group in a type, since an option group has no other parameter.
protocol OptionGroupName: Sendable { static var group: SettingGroup { get } }

enum NodeGroup: OptionGroupName { static let group = SettingGroup.node }
enum KeysGroup: OptionGroupName { static let group = SettingGroup.keys }
enum EdgeGroup: OptionGroupName { static let group = SettingGroup.edge }
enum CoordinatorGroup: OptionGroupName { static let group = SettingGroup.coordinator }
enum PushGroup: OptionGroupName { static let group = SettingGroup.push }
enum CallsGroup: OptionGroupName { static let group = SettingGroup.calls }

typealias NodeOptions = SettingOptions<NodeGroup>
typealias KeysOptions = SettingOptions<KeysGroup>
typealias EdgeOptions = SettingOptions<EdgeGroup>
typealias CoordinatorOptions = SettingOptions<CoordinatorGroup>
typealias PushOptions = SettingOptions<PushGroup>
typealias CallOptions = SettingOptions<CallsGroup>

struct FileOption: ParsableArguments {
  @Option(
    name: .customLong("config"),
    help: ArgumentHelp(
      "A JSON file with settings. CALLMESH_CONFIG does the same.", valueName: "path"))
  var path: String?
}
