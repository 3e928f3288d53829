/// Reads JSON as RFC 8259 has it, and nothing beyond: no comments, no trailing commas, no two members
/// of one name at the top.
package struct JSONScan {
  package enum Value: Equatable {
    case string(String)
    /// A number without fraction or exponent, as the text was.
    case integer(Int64)
    case other
  }

  /// How deep arrays and objects may nest: input must not choose our stack's depth.
  static let depthMax = 64

  private let bytes: [UInt8]
  private var at = 0

  private init(_ bytes: [UInt8]) { self.bytes = bytes }

  /// Whether the bytes are one JSON object, with nothing behind it but white space.
  package static func isObject(_ bytes: [UInt8]) -> Bool { object(bytes) != nil }

  /// The members of the object that the bytes are; nil if they are anything else.
  package static func object(_ bytes: [UInt8]) -> [String: Value]? {
    guard String(validating: bytes, as: UTF8.self) != nil else { return nil }
    var scan = JSONScan(bytes)
    scan.skipSpace()
    guard let members = scan.object(depth: 1) else { return nil }
    scan.skipSpace()
    return scan.at == bytes.count ? members : nil
  }

  private var next: UInt8? { at < bytes.count ? bytes[at] : nil }

  private mutating func take(_ byte: UInt8) -> Bool {
    guard next == byte else { return false }
    at += 1
    return true
  }

  private mutating func skipSpace() {
    while let byte = next, byte == 0x20 || byte == 0x09 || byte == 0x0A || byte == 0x0D { at += 1 }
  }

  private mutating func object(depth: Int) -> [String: Value]? {
    guard depth <= Self.depthMax, take(UInt8(ascii: "{")) else { return nil }
    var members: [String: Value] = [:]
    skipSpace()
    if take(UInt8(ascii: "}")) { return members }
    while true {
      skipSpace()
      guard let name = string() else { return nil }
      skipSpace()
      guard take(UInt8(ascii: ":")), let value = value(depth: depth) else { return nil }
      // Which of two would count is anybody's guess.
      guard members.updateValue(value, forKey: name) == nil else { return nil }
      skipSpace()
      if take(UInt8(ascii: "}")) { return members }
      guard take(UInt8(ascii: ",")) else { return nil }
    }
  }

  private mutating func array(depth: Int) -> Bool {
    guard depth <= Self.depthMax, take(UInt8(ascii: "[")) else { return false }
    skipSpace()
    if take(UInt8(ascii: "]")) { return true }
    while true {
      guard value(depth: depth) != nil else { return false }
      skipSpace()
      if take(UInt8(ascii: "]")) { return true }
      guard take(UInt8(ascii: ",")) else { return false }
    }
  }

  private mutating func value(depth: Int) -> Value? {
    skipSpace()
    switch next {
    case UInt8(ascii: "\""): return string().map { .string($0) }
    case UInt8(ascii: "{"): return object(depth: depth + 1).map { _ in .other }
    case UInt8(ascii: "["): return array(depth: depth + 1) ? .other : nil
    case UInt8(ascii: "t"): return word("true")
    case UInt8(ascii: "f"): return word("false")
    case UInt8(ascii: "n"): return word("null")
    default: return number()
    }
  }

  private mutating func word(_ word: StaticString) -> Value? {
    let length = word.utf8CodeUnitCount
    guard at + length <= bytes.count else { return nil }
    for place in 0..<length where bytes[at + place] != word.utf8Start[place] { return nil }
    at += length
    return .other
  }

  private mutating func digits() -> Bool {
    let start = at
    while let byte = next, byte >= 0x30, byte <= 0x39 { at += 1 }
    return at > start
  }

  private mutating func number() -> Value? {
    let start = at
    _ = take(UInt8(ascii: "-"))
    if !take(UInt8(ascii: "0")) { guard digits() else { return nil } }
    var whole = true
    if take(UInt8(ascii: ".")) {
      whole = false
      guard digits() else { return nil }
    }
    if take(UInt8(ascii: "e")) || take(UInt8(ascii: "E")) {
      whole = false
      if !take(UInt8(ascii: "+")) { _ = take(UInt8(ascii: "-")) }
      guard digits() else { return nil }
    }
    guard whole else { return .other }
    return Int64(String(decoding: bytes[start..<at], as: UTF8.self)).map { .integer($0) } ?? .other
  }

  private mutating func string() -> String? {
    guard take(UInt8(ascii: "\"")) else { return nil }
    let start = at
    while let byte = next {
      switch byte {
      case UInt8(ascii: "\""):
        at += 1
        return String(decoding: bytes[start..<(at - 1)], as: UTF8.self)
      case UInt8(ascii: "\\"): return escapedString(from: start)
      case 0x00..<0x20: return nil
      default: at += 1
      }
    }
    return nil
  }

  /// The slower way, once there is a backslash.
  private mutating func escapedString(from start: Int) -> String? {
    var units = Array(String(decoding: bytes[start..<at], as: UTF8.self).utf16)
    var plain: [UInt8] = []
    func flush() { units.append(contentsOf: String(decoding: plain, as: UTF8.self).utf16) }
    while let byte = next {
      at += 1
      switch byte {
      case UInt8(ascii: "\""):
        flush()
        return String(decoding: units, as: UTF16.self)
      case UInt8(ascii: "\\"):
        guard let unit = escape() else { return nil }
        flush()
        plain.removeAll()
        units.append(unit)
      case 0x00..<0x20: return nil
      default: plain.append(byte)
      }
    }
    return nil
  }

  private mutating func escape() -> UInt16? {
    guard let letter = next else { return nil }
    at += 1
    switch letter {
    case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"): return UInt16(letter)
    case UInt8(ascii: "b"): return 0x08
    case UInt8(ascii: "f"): return 0x0C
    case UInt8(ascii: "n"): return 0x0A
    case UInt8(ascii: "r"): return 0x0D
    case UInt8(ascii: "t"): return 0x09
    case UInt8(ascii: "u"):
      guard at + 4 <= bytes.count else { return nil }
      var unit: UInt16 = 0
      for _ in 0..<4 {
        guard let digit = hexDigit(bytes[at]) else { return nil }
        unit = unit << 4 | UInt16(digit)
        at += 1
      }
      return unit
    default: return nil
    }
  }
}

func hexDigit(_ byte: UInt8) -> UInt8? {
  switch byte {
  case 0x30...0x39: byte - 0x30
  case 0x41...0x46: byte - 0x41 + 10
  case 0x61...0x66: byte - 0x61 + 10
  default: nil
  }
}
