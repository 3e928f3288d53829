internal import CallCore
internal import CallTelemetry
internal import FoundationEssentials

/// A configuration file: one JSON object from setting to value. Values are numbers, text, booleans
/// or lists of them; every key must be known.
package struct ConfigurationFile: Sendable {
  var path: String
  /// Values as text, as a flag would have them.
  var values: [SettingKey: String]

  /// - Throws: `ConfigurationError` with every problem of the file.
  package static func read(path: String) throws(ConfigurationError) -> ConfigurationFile {
    let data: Data
    do {
      data = try Data(contentsOf: URL(filePath: path))
    } catch {
      throw ConfigurationError(
        setting: "config", value: path, problem: "the file cannot be read (\(explain(error)))",
        remedy: "Give the path of a JSON file with --config or CALLMESH_CONFIG.")
    }
    return try read(json: Array(data), path: path)
  }

  /// - Throws: `ConfigurationError` with every problem of the file.
  package static func read(json: [UInt8], path: String) throws(ConfigurationError)
    -> ConfigurationFile
  {
    let object: [String: Scalar]
    do {
      object = try BoundedJSON.read([String: Scalar].self, json)
    } catch {
      throw ConfigurationError(
        setting: "config", value: path,
        problem: "it is not one JSON object of settings (\(explain(error)))",
        remedy: #"Write for example {"natsUrl": "nats://127.0.0.1:4222", "ringTimeout": "30s"}."#)
    }
    var values: [SettingKey: String] = [:]
    var problems: [ConfigurationError.Problem] = []
    for (name, scalar) in object.sorted(by: { $0.key < $1.key }) {
      if let setting = Setting.of(SettingKey(rawValue: name)) {
        values[setting.key] = scalar.text
        continue
      }
      let closest = Suggestion.closest(to: name, among: Setting.all.map(\.key.rawValue))
      problems.append(
        .init(
          setting: name, value: nil, origin: .file(path), problem: "there is no such setting",
          remedy: closest.map { "Did you mean \($0)?" } ?? "callnode config lists all settings."))
    }
    if !problems.isEmpty { throw ConfigurationError(problems) }
    return ConfigurationFile(path: path, values: values)
  }

  private static func explain(_ error: any Error) -> String {
    switch error {
    case DecodingError.typeMismatch(_, let context), DecodingError.valueNotFound(_, let context):
      context.codingPath.isEmpty
        ? "the whole is something else"
        : "\"\(context.codingPath[0].stringValue)\" is neither text, number, boolean nor a list"
    case let error as CocoaError where error.code == .fileReadNoSuchFile: "there is no such file"
    case let error as CocoaError where error.code == .fileReadNoPermission:
      "this user may not read it"
    case is DecodingError: "it is not JSON"
    default: "\(error)"
    }
  }
}

/// A JSON value that stands for one setting, as the text that a flag would have.
private struct Scalar: Decodable {
  var text: String

  init(from decoder: any Decoder) throws {
    if var list = try? decoder.unkeyedContainer() {
      var parts: [String] = []
      while !list.isAtEnd { parts.append(try list.decode(Scalar.self).text) }
      text = parts.joined(separator: ",")
      return
    }
    let value = try decoder.singleValueContainer()
    if let flag = try? value.decode(Bool.self) {
      text = "\(flag)"
    } else if let number = try? value.decode(Int64.self) {
      text = "\(number)"
    } else if let number = try? value.decode(Double.self) {
      text = "\(number)"
    } else {
      text = try value.decode(String.self)
    }
  }
}
