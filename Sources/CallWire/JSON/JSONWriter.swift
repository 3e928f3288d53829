internal import CallCore

/// Writes JSON text straight into bytes. Keys that are literals need no escaping; values may be anything.
package struct JSONWriter {
  package private(set) var bytes: [UInt8] = []
  private var needsComma = false

  package init() { bytes.reserveCapacity(256) }

  /// The bytes of one object.
  package static func object(_ fields: (inout JSONWriter) -> Void) -> [UInt8] {
    var writer = JSONWriter()
    writer.braces(fields)
    return writer.bytes
  }

  /// The text as a JSON string, with its quotes.
  package static func quoted(_ text: String) -> String {
    var writer = JSONWriter()
    writer.string(text)
    return String(decoding: writer.bytes, as: UTF8.self)
  }

  // MARK: Members of an object

  package mutating func object(_ key: StaticString, _ fields: (inout JSONWriter) -> Void) {
    self.key(key)
    braces(fields)
  }

  package mutating func array<Element>(
    _ key: StaticString, _ elements: [Element], _ element: (inout JSONWriter, Element) -> Void
  ) {
    self.key(key)
    brackets { for value in elements { element(&$0, value) } }
  }

  package mutating func member(_ key: StaticString, _ text: String) {
    self.key(key)
    string(text)
  }

  package mutating func member(named key: String, _ text: String) {
    comma()
    string(key)
    bytes.append(UInt8(ascii: ":"))
    string(text)
  }

  /// Leaves an empty text out, as absent means empty.
  package mutating func optional(_ key: StaticString, _ text: String) {
    if !text.isEmpty { member(key, text) }
  }

  package mutating func member(_ key: StaticString, _ number: some BinaryInteger) {
    self.key(key)
    self.number(number)
  }

  package mutating func member(_ key: StaticString, _ flag: Bool) {
    self.key(key)
    append(flag ? "true" : "false")
  }

  /// Leaves `false` out, as absent means false.
  package mutating func optional(_ key: StaticString, _ flag: Bool) {
    if flag { member(key, true) }
  }

  // MARK: Elements of an array

  package mutating func element(_ text: String) {
    comma()
    string(text)
  }

  package mutating func element(_ fields: (inout JSONWriter) -> Void) {
    comma()
    braces(fields)
  }

  // MARK: Pieces

  mutating func brackets(_ elements: (inout JSONWriter) -> Void) {
    bytes.append(UInt8(ascii: "["))
    needsComma = false
    elements(&self)
    bytes.append(UInt8(ascii: "]"))
    needsComma = true
  }

  /// - Parameter quoted: the key between quotes, and a colon.
  mutating func key(_ quoted: [UInt8]) {
    comma()
    bytes.append(contentsOf: quoted)
  }

  mutating func braces(_ fields: (inout JSONWriter) -> Void) {
    bytes.append(UInt8(ascii: "{"))
    needsComma = false
    fields(&self)
    bytes.append(UInt8(ascii: "}"))
    needsComma = true
  }

  mutating func comma() {
    if needsComma { bytes.append(UInt8(ascii: ",")) }
    needsComma = true
  }

  private mutating func key(_ key: StaticString) {
    comma()
    bytes.append(UInt8(ascii: "\""))
    key.withUTF8Buffer { unsafe bytes.append(contentsOf: $0) }
    bytes.append(UInt8(ascii: "\""))
    bytes.append(UInt8(ascii: ":"))
  }

  mutating func append(_ text: String) { bytes.append(contentsOf: text.utf8) }

  /// Digit by digit: `description` costs a thousand instructions.
  mutating func number(_ number: some BinaryInteger) {
    if number.signum() < 0 { bytes.append(UInt8(ascii: "-")) }
    let first = bytes.count
    var rest = UInt64(number.magnitude)
    repeat {
      bytes.append(UInt8(ascii: "0") + UInt8(truncatingIfNeeded: rest % 10))
      rest /= 10
    } while rest > 0
    bytes[first...].reverse()
  }

  mutating func string(_ text: String) {
    var text = text
    text.withUTF8 { unsafe string(utf8: $0) }
  }

  mutating func string(utf8: UnsafeBufferPointer<UInt8>) {
    bytes.append(UInt8(ascii: "\""))
    var plain = 0  // Where the run of bytes begins that need no escaping.
    for index in utf8.indices {
      let byte = unsafe utf8[index]
      guard byte < 0x20 || byte == UInt8(ascii: "\"") || byte == UInt8(ascii: "\\") else {
        continue
      }
      unsafe bytes.append(contentsOf: UnsafeBufferPointer(rebasing: utf8[plain..<index]))
      escape(byte)
      plain = index + 1
    }
    unsafe bytes.append(contentsOf: UnsafeBufferPointer(rebasing: utf8[plain...]))
    bytes.append(UInt8(ascii: "\""))
  }

  private mutating func escape(_ byte: UInt8) {
    switch byte {
    case UInt8(ascii: "\""): append("\\\"")
    case UInt8(ascii: "\\"): append("\\\\")
    case UInt8(ascii: "\n"): append("\\n")
    case UInt8(ascii: "\r"): append("\\r")
    case UInt8(ascii: "\t"): append("\\t")
    default:
      let digits = Array("0123456789abcdef".utf8)
      append("\\u00")
      bytes.append(digits[Int(byte >> 4)])
      bytes.append(digits[Int(byte & 15)])
    }
  }
}
