internal import CallCore

/// Reads JSON (RFC 8259) from bytes, value by value, straight into what the caller builds.
///
/// A reader of our own, because the bytes are a stranger's: FoundationEssentials' decoder (of Swift
/// 6.3) traps on a text that ends 512 arrays deep, and takes ten times as long. Nesting is limited,
/// so the stack is too. Nothing here traps on what the bytes say.
///
/// All methods throw `malformed` for what is no JSON, and `field` for a value of another kind than the field's.
///
/// The caller of `init` owns the bytes, and keeps them while there are cursors and keys of them.
@safe
package struct JSONCursor {
  /// Objects and arrays within each other. The protocol's own messages need six.
  static let depthMaximum = 32

  let bytes: UnsafeRawBufferPointer
  var position = 0
  private var depth = 0

  package init(_ bytes: UnsafeRawBufferPointer) { unsafe self.bytes = unsafe bytes }

  /// Reads the one value that `bytes` hold.
  package static func whole<Value>(
    _ bytes: UnsafeRawBufferPointer, _ read: (inout JSONCursor) throws(Fault) -> Value
  ) throws(Fault) -> Value {
    var json = unsafe JSONCursor(bytes)
    let value = try read(&json)
    try json.end()
    return value
  }

  // MARK: Structure

  /// Reads one object: `member` is called for every key whose value is not null, and has to read the
  /// value, with `skip()` where it does not know the key.
  package mutating func object(
    _ field: String, _ member: (inout JSONCursor, JSONKey) throws(Fault) -> Void
  ) throws(Fault) {
    try open(UInt8(ascii: "{"), field)
    if close(UInt8(ascii: "}")) { return }
    repeat {
      let key = try key()
      try punctuation(UInt8(ascii: ":"))
      if try !null() { try member(&self, key) }
    } while try more(or: UInt8(ascii: "}"))
  }

  /// Reads one array; `element` has to read each of its values.
  package mutating func array(_ field: String, _ element: (inout JSONCursor) throws(Fault) -> Void)
    throws(Fault)
  {
    try open(UInt8(ascii: "["), field)
    if close(UInt8(ascii: "]")) { return }
    repeat { try element(&self) } while try more(or: UInt8(ascii: "]"))
  }

  /// Nothing may stand behind the value but white space.
  mutating func end() throws(Fault) {
    skipSpace()
    guard isAtEnd else { throw .malformed }
  }

  private mutating func open(_ bracket: UInt8, _ field: String) throws(Fault) {
    try expect(bracket, field)
    guard depth < Self.depthMaximum else { throw .malformed }
    depth += 1
    position += 1
  }

  private mutating func close(_ bracket: UInt8) -> Bool {
    skipSpace()
    guard current == bracket else { return false }
    position += 1
    depth -= 1
    return true
  }

  private mutating func more(or bracket: UInt8) throws(Fault) -> Bool {
    if close(bracket) { return false }
    try punctuation(UInt8(ascii: ","))
    return true
  }

  private mutating func punctuation(_ byte: UInt8) throws(Fault) {
    skipSpace()
    guard current == byte else { throw .malformed }
    position += 1
  }

  @inline(__always)
  private mutating func skipSpace() {
    while true {
      switch current {
      case 0x20, 0x09, 0x0a, 0x0d: position += 1
      default: return
      }
    }
  }

  /// Stops before `first`. Another kind of value is the field's fault; anything else is not JSON.
  mutating func expect(_ first: UInt8, _ field: String) throws(Fault) {
    skipSpace()
    guard current == first else { throw otherKind(field) }
  }

  /// The first byte of the value at hand.
  package mutating func first() throws(Fault) -> UInt8 {
    skipSpace()
    guard !isAtEnd else { throw .malformed }
    return current
  }

  private func otherKind(_ field: String) -> Fault {
    switch current {
    case UInt8(ascii: "{"), UInt8(ascii: "["), UInt8(ascii: "\""), UInt8(ascii: "-"),
      UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "t"), UInt8(ascii: "f"),
      UInt8(ascii: "n"):
      // The outermost value has no name.
      return field.isEmpty ? .malformed : .field(field)
    default: return .malformed
    }
  }

  // MARK: Values

  package mutating func flag(_ field: String) throws(Fault) -> Bool {
    skipSpace()
    if literal("true") { return true }
    if literal("false") { return false }
    throw otherKind(field)
  }

  package mutating func null() throws(Fault) -> Bool {
    skipSpace()
    guard !isAtEnd else { throw .malformed }
    return current == UInt8(ascii: "n") && literal("null")
  }

  private mutating func literal(_ word: StaticString) -> Bool {
    let count = word.utf8CodeUnitCount
    guard unsafe bytes.count - position >= count else { return false }
    for index in 0..<count where unsafe bytes[position + index] != word.utf8Start[index] {
      return false
    }
    position += count
    return true
  }

  /// A whole number that fits `Value`; `30.0` and `3e1` are whole numbers, too.
  mutating func number<Value: FixedWidthInteger>(_ field: String, as _: Value.Type = Value.self)
    throws(Fault) -> Value
  {
    skipSpace()
    guard isNumberStart(current) else { throw otherKind(field) }
    let start = position
    let plain = try skipNumber()
    let text = unsafe Substring(
      decoding: UnsafeRawBufferPointer(rebasing: bytes[start..<position]), as: UTF8.self)
    if plain {
      guard let value = Value(text) else { throw .field(field) }
      return value
    }
    // Above 2^53 a double no longer says which whole number was meant.
    guard let double = Double(text), abs(double) <= 9_007_199_254_740_992,
      let value = Value(exactly: double)
    else { throw .field(field) }
    return value
  }

  /// A number as it stands there.
  package mutating func digits() throws(Fault) -> String {
    let first = try first()
    guard isNumberStart(first) else { throw .malformed }
    let start = position
    try skipNumber()
    return unsafe String(
      decoding: UnsafeRawBufferPointer(rebasing: bytes[start..<position]), as: UTF8.self)
  }

  /// Any finite number.
  mutating func double() throws(Fault) -> Double {
    guard let value = Double(try digits()), value.isFinite else { throw .malformed }
    return value
  }

  private func isNumberStart(_ byte: UInt8) -> Bool {
    byte == UInt8(ascii: "-") || byte.isASCIIDigit
  }

  /// - Returns: whether it has neither a fraction nor an exponent.
  @discardableResult
  mutating func skipNumber() throws(Fault) -> Bool {
    var plain = true
    if current == UInt8(ascii: "-") { position += 1 }
    let first = position
    try skipDigits()
    // No digits may follow a leading 0.
    guard unsafe bytes[first] != UInt8(ascii: "0") || position == first + 1 else {
      throw .malformed
    }
    if current == UInt8(ascii: ".") {
      plain = false
      position += 1
      try skipDigits()
    }
    if current == UInt8(ascii: "e") || current == UInt8(ascii: "E") {
      plain = false
      position += 1
      if current == UInt8(ascii: "+") || current == UInt8(ascii: "-") { position += 1 }
      try skipDigits()
    }
    return plain
  }

  private var isAtEnd: Bool { unsafe position == bytes.count }

  /// The byte at hand; 0 at the end, which no JSON outside of strings has.
  @inline(__always)
  private var current: UInt8 { unsafe position < bytes.count ? bytes[position] : 0 }

  private mutating func skipDigits() throws(Fault) {
    let start = position
    while current.isASCIIDigit { position += 1 }
    guard position > start else { throw .malformed }
  }
}

/// A member's name: as it stands in the text, or unescaped.
@safe
package enum JSONKey {
  case plain(UnsafeRawBufferPointer)
  case unescaped(String)

  static func ~= (name: String, key: JSONKey) -> Bool { key.isEqual(to: name) }

  func isEqual(to name: String) -> Bool {
    switch self {
    case .plain(let bytes): unsafe bytes.elementsEqual(name.utf8)
    case .unescaped(let text): text.utf8.elementsEqual(name.utf8)
    }
  }

  package func text() throws(Fault) -> String {
    switch self {
    case .plain(let bytes):
      guard let text = unsafe String(validating: bytes, as: UTF8.self) else { throw .malformed }
      return text
    case .unescaped(let text): return text
    }
  }
}
