internal import CallEdge

/// What values a setting takes.
package enum ValueKind: Sendable, Equatable {
  case text(TextRule)
  case integer(ClosedRange<Int>)
  /// Seconds, from, to.
  case duration(Double, Double)
  /// A list of them.
  case durations(Double, Double)
  case choice([String])
  case boolean
  case natsURL
  /// A list of origins of web pages.
  case origins
  /// A list of IP addresses and ranges of them.
  case addresses

  package enum TextRule: Sendable, Equatable {
    case clusterName, nodeName, host, path, line
  }

  /// The type as documentation and help name it.
  package var typeName: String {
    switch self {
    case .text(.path): "path"
    case .text(.host): "address"
    case .text: "text"
    case .integer: "integer"
    case .duration: "duration"
    case .durations: "durations"
    case .choice: "choice"
    case .boolean: "boolean"
    case .natsURL: "url"
    case .origins: "origins"
    case .addresses: "addresses"
    }
  }

  /// What a value has to be, as the end of "must be …".
  package var demand: String {
    switch self {
    case .text(.clusterName): "1 to 32 letters, digits, '-' and '_'"
    case .text(.nodeName): "1 to 128 letters, digits, '.', '-' and '_'"
    case .text(.host): "an IP address or a host name"
    case .text(.path): "the path of a file"
    case .text(.line): "a line of text"
    case .integer(let range): "a whole number from \(range.lowerBound) to \(range.upperBound)"
    case .duration(let low, let high):
      "a duration from \(DurationText.text(seconds: low)) to \(DurationText.text(seconds: high)), "
        + "such as 30s, 500ms, 2m, 1h or 90d (a bare number is seconds)"
    case .durations(let low, let high):
      "durations separated by commas, each from \(DurationText.text(seconds: low)) to "
        + "\(DurationText.text(seconds: high)), at most 16, such as 500ms,1s,2s"
    case .choice(let names): "one of " + names.joined(separator: ", ")
    case .boolean: "true or false"
    case .natsURL: "a URL such as nats://127.0.0.1:4222, or several separated by commas"
    case .origins: "origins such as https://app.example separated by commas, at most 64, or *"
    case .addresses:
      "IP addresses or ranges such as 10.0.0.0/8 separated by commas, at most 256"
    }
  }

  /// The value that a text stands for; nil where it is not acceptable.
  package func read(_ text: String) -> SettingValue? {
    switch self {
    case .text(let rule): rule.accepts(text) ? .text(text) : nil
    case .integer(let range):
      Int(text).flatMap { range.contains($0) ? .integer($0) : nil }
    case .duration(let low, let high):
      Self.microseconds(text, low, high).map { .microseconds($0) }
    case .durations(let low, let high): Self.durations(text, low, high)
    case .choice(let names): names.contains(text) ? .text(text) : nil
    case .boolean: text == "true" ? .boolean(true) : text == "false" ? .boolean(false) : nil
    case .natsURL: NATSURL.isValidList(text) ? .text(text) : nil
    case .origins: Self.origins(text) == nil ? nil : .text(text)
    case .addresses: AddressRange.list(text) == nil ? nil : .text(text)
    }
  }

  /// The origins in a list: each as a browser writes it, or `*`. nil where one is none.
  package static func origins(_ text: String) -> [String]? {
    let parts = text.split(separator: ",", omittingEmptySubsequences: false).map(String.init)
    return parts.count <= 64 && parts.allSatisfy(isOrigin) ? parts : nil
  }

  private static func isOrigin(_ text: String) -> Bool {
    if text == "*" { return true }
    let scheme = ["https://", "http://"].first { text.hasPrefix($0) }
    guard let scheme else { return false }
    let host = text.dropFirst(scheme.count)
    return !host.isEmpty && host.utf8.count <= 253
      && host.unicodeScalars.allSatisfy {
        switch $0 {
        case "a"..."z", "A"..."Z", "0"..."9", "-", ".", ":", "[", "]": true
        default: false
        }
      }
  }

  private static func microseconds(_ text: String, _ low: Double, _ high: Double) -> Int64? {
    guard let value = DurationText.microseconds(text) else { return nil }
    let seconds = Double(value) / 1e6
    return seconds >= low && seconds <= high ? value : nil
  }

  private static func durations(_ text: String, _ low: Double, _ high: Double) -> SettingValue? {
    let parts = text.split(separator: ",", omittingEmptySubsequences: false)
    guard parts.count <= 16 else { return nil }
    var values: [Int64] = []
    for part in parts {
      guard let value = microseconds(String(part), low, high) else { return nil }
      values.append(value)
    }
    return .microsecondsList(values)
  }
}

/// A value that has been read and found acceptable.
package enum SettingValue: Sendable, Equatable {
  case text(String)
  case integer(Int)
  case microseconds(Int64)
  case microsecondsList([Int64])
  case boolean(Bool)

  /// As one would write it.
  package var shown: String {
    switch self {
    case .text(let text): text
    case .integer(let number): "\(number)"
    case .microseconds(let value): DurationText.text(microseconds: value)
    case .microsecondsList(let values):
      values.map(DurationText.text(microseconds:)).joined(separator: ",")
    case .boolean(let flag): "\(flag)"
    }
  }
}

extension ValueKind.TextRule {
  fileprivate func accepts(_ text: String) -> Bool {
    switch self {
    case .clusterName: Self.isName(text, most: 32, others: "-_")
    case .nodeName: Self.isName(text, most: 128, others: "-_.")
    case .host: Self.isName(text, most: 253, others: "-.:%_")
    case .path, .line:
      !text.isEmpty && text.utf8.count <= 4096 && text.utf8.allSatisfy { $0 >= 32 && $0 != 127 }
    }
  }

  private static func isName(_ text: String, most: Int, others: String) -> Bool {
    (1...most).contains(text.utf8.count)
      && text.unicodeScalars.allSatisfy {
        switch $0 {
        case "a"..."z", "A"..."Z", "0"..."9": true
        default: others.unicodeScalars.contains($0)
        }
      }
  }
}
