/// A JSON text as a tree: enough for what JetStream answers. Never traps on what comes in.
package enum JSONValue: Equatable {
  case null
  case bool(Bool)
  /// The digits as they came: sequences need 64 bits.
  case number(String)
  /// Unescaped bytes, as a rule UTF-8.
  case string([UInt8])
  case array([JSONValue])
  case object([String: JSONValue])

  /// Nil when the text is not JSON.
  package init?(parsing bytes: some Collection<UInt8>) {
    var parser = JSONParser(bytes: Array(bytes))
    guard let value = parser.value(depth: 0), parser.isAtEnd else { return nil }
    self = value
  }

  package subscript(key: String) -> JSONValue? {
    if case .object(let members) = self { members[key] } else { nil }
  }
  package var text: String? {
    if case .string(let bytes) = self { String(decoding: bytes, as: UTF8.self) } else { nil }
  }
  package var bytes: [UInt8]? {
    if case .string(let bytes) = self { bytes } else { nil }
  }
  package var unsigned: UInt64? {
    if case .number(let digits) = self { UInt64(digits) } else { nil }
  }
  var elements: [JSONValue]? {
    if case .array(let elements) = self { elements } else { nil }
  }

  /// For messages to operators.
  var description: String {
    switch self {
    case .null: "null"
    case .bool(let value): "\(value)"
    case .number(let digits): digits
    case .string: text ?? ""
    case .array(let elements): elements.map(\.description).joined(separator: ",")
    case .object: "{…}"
    }
  }

  /// The text as a JSON string, with its quotes.
  package static func quoted(_ text: String) -> String {
    var out = "\""
    for scalar in text.unicodeScalars {
      switch scalar {
      case "\"": out += "\\\""
      case "\\": out += "\\\\"
      case let control where control.value < 32:
        let digits = String(control.value, radix: 16)
        out += "\\u" + String(repeating: "0", count: 4 - digits.count) + digits
      default: out.unicodeScalars.append(scalar)
      }
    }
    return out + "\""
  }
}

private struct JSONParser {
  private static let depthMax = 32
  private let bytes: [UInt8]
  private var position = 0

  init(bytes: [UInt8]) {
    self.bytes = bytes
  }

  var isAtEnd: Bool {
    mutating get {
      skipSpace()
      return position == bytes.count
    }
  }

  mutating func value(depth: Int) -> JSONValue? {
    skipSpace()
    guard depth < Self.depthMax, position < bytes.count else { return nil }
    switch bytes[position] {
    case UInt8(ascii: "{"): return object(depth)
    case UInt8(ascii: "["): return array(depth)
    case UInt8(ascii: "\""): return string().map { .string($0) }
    case UInt8(ascii: "t"): return word("true").map { .bool(true) }
    case UInt8(ascii: "f"): return word("false").map { .bool(false) }
    case UInt8(ascii: "n"): return word("null").map { .null }
    default: return number()
    }
  }

  private mutating func object(_ depth: Int) -> JSONValue? {
    position += 1
    var members: [String: JSONValue] = [:]
    if take("}") { return .object(members) }
    repeat {
      skipSpace()
      guard let key = string(), take(":"), let value = value(depth: depth + 1) else { return nil }
      members[String(decoding: key, as: UTF8.self)] = value
    } while take(",")
    return take("}") ? .object(members) : nil
  }

  private mutating func array(_ depth: Int) -> JSONValue? {
    position += 1
    var elements: [JSONValue] = []
    if take("]") { return .array(elements) }
    repeat {
      guard let value = value(depth: depth + 1) else { return nil }
      elements.append(value)
    } while take(",")
    return take("]") ? .array(elements) : nil
  }

  private mutating func number() -> JSONValue? {
    let start = position
    while position < bytes.count, "+-.eE0123456789".utf8.contains(bytes[position]) { position += 1 }
    guard position > start else { return nil }
    return .number(String(decoding: bytes[start..<position], as: UTF8.self))
  }

  private mutating func string() -> [UInt8]? {
    guard position < bytes.count, bytes[position] == UInt8(ascii: "\"") else { return nil }
    position += 1
    var out: [UInt8] = []
    while true {
      let rest = bytes[position...]
      guard
        let stop = rest.firstIndex(where: { $0 == UInt8(ascii: "\"") || $0 == UInt8(ascii: "\\") })
      else { return nil }
      out.append(contentsOf: rest[..<stop])
      position = stop + 1
      if bytes[stop] == UInt8(ascii: "\"") { return out }
      guard let scalar = escape() else { return nil }
      out.append(contentsOf: Character(scalar).utf8)
    }
  }

  private mutating func escape() -> Unicode.Scalar? {
    guard position < bytes.count else { return nil }
    let kind = bytes[position]
    position += 1
    switch kind {
    case UInt8(ascii: "n"): return "\n"
    case UInt8(ascii: "t"): return "\t"
    case UInt8(ascii: "r"): return "\r"
    case UInt8(ascii: "b"): return "\u{8}"
    case UInt8(ascii: "f"): return "\u{c}"
    case UInt8(ascii: "u"):
      guard let high = hex4() else { return nil }
      guard (0xD800..<0xDC00).contains(high) else { return Unicode.Scalar(high) }
      guard position + 1 < bytes.count, bytes[position] == UInt8(ascii: "\\"),
        bytes[position + 1] == UInt8(ascii: "u")
      else { return nil }
      position += 2
      guard let low = hex4(), (0xDC00..<0xE000).contains(low) else { return nil }
      return Unicode.Scalar(0x10000 + (high - 0xD800) << 10 + (low - 0xDC00))
    default: return Unicode.Scalar(kind)
    }
  }

  private mutating func hex4() -> UInt32? {
    guard position + 4 <= bytes.count else { return nil }
    defer { position += 4 }
    return UInt32(String(decoding: bytes[position..<position + 4], as: UTF8.self), radix: 16)
  }

  private mutating func word(_ word: StaticString) -> Void? {
    let count = word.utf8CodeUnitCount
    guard position + count <= bytes.count,
      word.withUTF8Buffer({ $0.elementsEqual(bytes[position..<position + count]) })
    else { return nil }
    position += count
    return ()
  }

  private mutating func take(_ character: Unicode.Scalar) -> Bool {
    skipSpace()
    guard position < bytes.count, UInt32(bytes[position]) == character.value else { return false }
    position += 1
    return true
  }

  private mutating func skipSpace() {
    while position < bytes.count, [32, 9, 10, 13].contains(bytes[position]) { position += 1 }
  }
}
