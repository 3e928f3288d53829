internal import Logging

/// One log event as text: no clock, no output.
package enum LogLine {
  /// `2026-01-02T03:04:05.678Z info  callnode: shard taken over  epoch=4 shard=17`
  ///
  /// Control characters are escaped, so that no text from outside can begin a line of its own.
  package static func text(
    milliseconds: Int64, level: String, label: String, message: String,
    metadata: [(key: String, value: String)]
  ) -> String {
    var line = "\(CalendarTime.text(milliseconds: milliseconds)) \(level)"
    line += String(repeating: " ", count: max(1, 8 - level.utf8.count))
    line += "\(label): \(JSONText.escaped(message, quotes: false))"
    if !metadata.isEmpty { line += " " }
    for (key, value) in metadata {
      line += " \(key)=" + (isPlain(value) ? value : "\"\(JSONText.escaped(value))\"")
    }
    return line + "\n"
  }

  /// One JSON object: time, level, logger, message, then the metadata. Values are strings, except those of keys
  /// that stand for a number (`LogKey.isNumber`). A metadata key with the name of one of the four gets a
  /// trailing `_`.
  package static func json(
    milliseconds: Int64, level: String, label: String, message: String,
    metadata: [(key: String, value: String)]
  ) -> String {
    var line = #"{"time":""# + CalendarTime.text(milliseconds: milliseconds)
    line += #"","level":""# + level
    line += #"","logger":""# + JSONText.escaped(label)
    line += #"","message":""# + JSONText.escaped(message) + "\""
    for (key, value) in metadata {
      let mark = ["time", "level", "logger", "message"].contains(key) ? "_" : ""
      line += ",\"\(JSONText.escaped(key))\(mark)\":"
      line += isNumber(key, value) ? value : "\"\(JSONText.escaped(value))\""
    }
    line += "}\n"
    return line
  }

  /// The key decides. A value that is not a whole number stays text, so that the line stays JSON.
  private static func isNumber(_ key: String, _ value: String) -> Bool {
    LogKey(rawValue: key)?.isNumber == true
      && (Int64(value)?.description ?? UInt64(value)?.description) == value
  }

  private static func isPlain(_ value: String) -> Bool {
    !value.isEmpty
      && value.unicodeScalars.allSatisfy {
        $0.value > 32 && !JSONText.isControl($0) && $0 != "\"" && $0 != "\\"
      }
  }
}

/// Escapes text for log lines, metric labels and terminals: besides what JSON requires, also DEL and the C1 control
/// characters, which terminals act on. Protocols escape with `CallWire.JSONWriter`, which leaves those as they are.
package enum JSONText {
  /// Text as it stands between the quotes of a JSON string.
  /// - Parameter quotes: whether `"` and `\` are escaped as well as control characters.
  package static func escaped(_ text: String, quotes: Bool = true) -> String {
    // A second byte that could be a C1 control character follows 0xC2.
    let clean = text.utf8.allSatisfy {
      $0 >= 32 && $0 != 127 && $0 != 34 && $0 != 92 && $0 != 0xC2
    }
    if clean { return text }
    var out = ""
    for scalar in text.unicodeScalars {
      switch scalar {
      case "\"": out += quotes ? "\\\"" : "\""
      case "\\": out += quotes ? "\\\\" : "\\"
      case "\n": out += "\\n"
      case "\r": out += "\\r"
      case "\t": out += "\\t"
      case _ where isControl(scalar):
        let digits = String(scalar.value, radix: 16)
        out += "\\u" + String(repeating: "0", count: 4 - digits.count) + digits
      default: out.unicodeScalars.append(scalar)
      }
    }
    return out
  }

  static func isControl(_ scalar: Unicode.Scalar) -> Bool {
    scalar.value < 32 || (127..<160).contains(scalar.value)
  }
}
