internal import CallCore
internal import CallEdge
internal import NATSBus

/// How a value of one type is written, and which values are acceptable.
package struct ValueKind<Value: Sendable>: Sendable {
  /// The type as documentation and help name it.
  package let typeName: String
  /// The acceptable values, in short: `1 to 64`.
  package let accepts: String
  /// The acceptable values, as the end of "must be …".
  package let demand: String
  /// The value that a text stands for; nil where it is not acceptable.
  package let read: @Sendable (String) -> Value?
  /// The value as an operator would write it, without credentials.
  package let text: @Sendable (Value) -> String

  private init(
    _ typeName: String, _ accepts: String, demand: String? = nil,
    read: @escaping @Sendable (String) -> Value?, text: @escaping @Sendable (Value) -> String
  ) {
    self.typeName = typeName
    self.accepts = accepts
    self.demand = demand ?? accepts
    self.read = read
    self.text = text
  }
}

extension ValueKind where Value == String {
  private init(
    _ typeName: String, _ accepts: String, demand: String? = nil,
    _ isAcceptable: @escaping @Sendable (String) -> Bool
  ) {
    self.init(
      typeName, accepts, demand: demand, read: { isAcceptable($0) ? $0 : nil }, text: { $0 })
  }

  package static var clusterName: Self {
    Self("text", "1 to 32 letters, digits, '-' and '_'") { isName($0, most: 32, others: "-_") }
  }
  package static var nodeName: Self {
    Self("text", "1 to 128 letters, digits, '.', '-' and '_'") {
      isName($0, most: 128, others: "-_.")
    }
  }
  package static var host: Self {
    Self("address", "an IP address or a host name") { isName($0, most: 253, others: "-.:%_") }
  }
  package static var path: Self { Self("path", "the path of a file", isLine) }
  package static var line: Self { Self("text", "a line of text", isLine) }
  package static var natsURL: Self {
    Self(
      "url", "one URL or several",
      demand: "a URL such as nats://127.0.0.1:4222, or several separated by commas",
      read: { NATSURL.isValidList($0) ? $0 : nil }, text: NATSURL.withoutCredentials)
  }

  /// Where devices reach an edge.
  package static var deviceURL: Self {
    Self(
      "url", "up to \(NearerEdges.addressBytesMax) characters",
      demand: "a URL such as wss://node-1.example:443, of at most "
        + "\(NearerEdges.addressBytesMax) characters", NearerEdges.isAcceptable)
  }

  private static func isLine(_ text: String) -> Bool {
    !text.isEmpty && text.utf8.count <= 4096 && text.utf8.allSatisfy { $0 >= 32 && $0 != 127 }
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

extension ValueKind where Value == Bool {
  package static var boolean: Self {
    Self("boolean", "true or false", read: { Bool($0) }, text: { "\($0)" })
  }
}

extension ValueKind where Value: FixedWidthInteger {
  package static func integer(_ range: ClosedRange<Value>) -> Self {
    let accepts = "\(range.lowerBound) to \(range.upperBound)"
    return Self(
      "integer", accepts, demand: "a whole number from " + accepts,
      read: { Value($0).flatMap { range.contains($0) ? $0 : nil } }, text: { "\($0)" })
  }
}

extension ValueKind where Value: RawRepresentable & CaseIterable, Value.RawValue == String {
  /// One of the enumeration's names.
  package static var choice: Self {
    let names = Value.allCases.map(\.rawValue).joined(separator: ", ")
    return Self(
      "choice", names, demand: "one of " + names, read: { Value(rawValue: $0) },
      text: { $0.rawValue })
  }
}

extension ValueKind where Value == Span {
  /// - Parameters:
  ///   - low: the shortest, in seconds.
  ///   - high: the longest, in seconds.
  static func duration(_ low: Double, _ high: Double) -> Self {
    let accepts = range(low, high)
    return Self(
      "duration", accepts,
      demand:
        "a duration from \(accepts), such as 30s, 500ms, 2m, 1h or 90d (a bare number is seconds)",
      read: { span($0, low, high) }, text: { DurationText.text(microseconds: $0.microseconds) })
  }

  fileprivate static func range(_ low: Double, _ high: Double) -> String {
    "\(DurationText.text(seconds: low)) to \(DurationText.text(seconds: high))"
  }

  fileprivate static func span(_ text: String, _ low: Double, _ high: Double) -> Span? {
    guard let value = DurationText.microseconds(text) else { return nil }
    let seconds = Double(value) / 1e6
    return seconds >= low && seconds <= high ? Span(microseconds: value) : nil
  }
}

extension ValueKind where Value == Duration {
  /// As for `Span`.
  static func duration(_ low: Double, _ high: Double) -> Self {
    let spans = ValueKind<Span>.duration(low, high)
    return Self(
      spans.typeName, spans.accepts, demand: spans.demand,
      read: { spans.read($0).map { .microseconds($0.microseconds) } },
      text: { spans.text(Span(microseconds: Int64($0 / .microseconds(1)))) })
  }
}

extension ValueKind where Value == [Span] {
  /// - Parameters:
  ///   - low: the shortest of them, in seconds.
  ///   - high: the longest of them, in seconds.
  static func durations(_ low: Double, _ high: Double) -> Self {
    let range = ValueKind<Span>.range(low, high)
    return Self(
      "durations", "up to 16, each \(range)",
      demand: "durations separated by commas, each from \(range), at most 16, such as 500ms,1s,2s",
      read: { list($0, most: 16) { ValueKind<Span>.span($0, low, high) } },
      text: { $0.map { DurationText.text(microseconds: $0.microseconds) }.joined(separator: ",") })
  }
}

extension ValueKind where Value == [AddressRange] {
  static var addresses: Self {
    Self(
      "addresses", "up to 256",
      demand: "IP addresses or ranges such as 10.0.0.0/8 separated by commas, at most 256",
      read: { AddressRange.list($0) }, text: { $0.map(\.description).joined(separator: ",") })
  }
}

extension ValueKind where Value == [String] {
  /// Origins of web pages and of apps in web views, in the form that browsers write, or `*`.
  package static var origins: Self {
    Self(
      "origins", "up to 64, or *",
      demand: "origins such as https://app.example separated by commas, at most 64, or *",
      read: { list($0, most: 64) { $0 == "*" ? $0 : AllowedOrigins.serialized($0) } },
      text: { $0.joined(separator: ",") })
  }

  /// TURN servers.
  package static var relayURLs: Self {
    Self(
      "urls", "up to \(RelayServers.urlsMax)",
      demand: "turn: or turns: URLs separated by commas, at most \(RelayServers.urlsMax)",
      read: { list($0, most: RelayServers.urlsMax) { RelayServers.isAcceptable($0) ? $0 : nil } },
      text: { $0.joined(separator: ",") })
  }
}

/// Reads a list separated by commas.
/// - Returns: nil where an element is not acceptable, or there are more than `most`.
private func list<Element>(
  _ text: String, most: Int, _ read: (String) -> Element?
) -> [Element]? {
  let parts = text.split(separator: ",", omittingEmptySubsequences: false)
  guard parts.count <= most else { return nil }
  let elements = parts.compactMap { read(String($0)) }
  return elements.count == parts.count ? elements : nil
}

/// Durations as people write them: `500ms`, `30s`, `2m`, `1h`, `90d`; a bare number is seconds.
package enum DurationText {
  /// Longest first, so that text is as short as it can be.
  private static let units: [(name: String, microseconds: Int64)] = [
    ("d", 86_400_000_000), ("h", 3_600_000_000), ("m", 60_000_000), ("s", 1_000_000),
    ("ms", 1000), ("us", 1),
  ]

  package static func microseconds(_ text: String) -> Int64? {
    let number = text.prefix { $0.isASCII && ($0.isNumber || $0 == ".") }
    let unit = text.dropFirst(number.count)
    guard let first = number.first, first != ".", number.last != ".", number.utf8.count <= 15,
      let value = Double(number),
      let factor = units.first(where: { $0.name == (unit.isEmpty ? "s" : unit) })?.microseconds
    else { return nil }
    let product = (value * Double(factor)).rounded()
    return product < 9e15 ? Int64(product) : nil
  }

  /// In the longest unit that divides it, but nothing up to three minutes in minutes: `90s`, `10m`.
  package static func text(microseconds: Int64) -> String {
    for unit in units where microseconds % unit.microseconds == 0 && microseconds != 0 {
      if unit.name == "m", microseconds <= 180_000_000 { continue }
      return "\(microseconds / unit.microseconds)\(unit.name)"
    }
    return "\(microseconds / 1_000_000)s"
  }

  package static func text(seconds: Double) -> String {
    text(microseconds: Int64((seconds * 1e6).rounded()))
  }
}
