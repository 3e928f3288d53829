internal import CallCore

extension JSONCursor {
  package mutating func text(_ field: String) throws(Fault) -> String {
    unsafe try withUTF8(field) { (utf8) throws(Fault) in
      guard let text = unsafe String(validating: utf8, as: UTF8.self) else { throw .field(field) }
      return text
    }
  }

  /// Reads a string as bytes, which need not be UTF-8.
  package mutating func withUTF8<Value>(
    _ field: String, _ body: (UnsafeRawBufferPointer) throws(Fault) -> Value
  ) throws(Fault) -> Value {
    try expect(UInt8(ascii: "\""), field)
    switch try scanString() {
    case .plain(let utf8): return unsafe try body(utf8)
    case .escaped(let escaped):
      let utf8 = unsafe try unescape(escaped)
      return unsafe try utf8.withUnsafeBufferPointer { (utf8) throws(Fault) in
        unsafe try body(UnsafeRawBufferPointer(utf8))
      }
    }
  }

  mutating func key() throws(Fault) -> JSONKey {
    try expect(UInt8(ascii: "\""), "")
    switch try scanString() {
    case .plain(let utf8): return unsafe .plain(utf8)
    case .escaped(let escaped):
      guard let text = unsafe String(validating: try unescape(escaped), as: UTF8.self) else {
        throw .malformed
      }
      return .unescaped(text)
    }
  }

  /// Reads any value and forgets it.
  package mutating func skip() throws(Fault) {
    switch try first() {
    case UInt8(ascii: "{"):
      try object("") { (json, _) throws(Fault) in try json.skip() }
    case UInt8(ascii: "["):
      try array("") { (json) throws(Fault) in try json.skip() }
    case UInt8(ascii: "\""): _ = try scanString()
    case UInt8(ascii: "t"), UInt8(ascii: "f"): _ = try flag("")
    case UInt8(ascii: "n"): guard try null() else { throw .malformed }
    default: try skipNumber()
    }
  }

  // MARK: Inside of a string

  @safe
  private enum Scanned {
    case plain(UnsafeRawBufferPointer)
    /// With escapes still in it.
    case escaped(UnsafeRawBufferPointer)
  }

  /// Scans the text between the quotes. The cursor moves behind them.
  private mutating func scanString() throws(Fault) -> Scanned {
    let start = position + 1
    var end = start
    var escaped = false
    while unsafe end < bytes.count {
      let byte = unsafe bytes[end]
      if byte == UInt8(ascii: "\"") {
        position = end + 1
        let utf8 = unsafe UnsafeRawBufferPointer(rebasing: bytes[start..<end])
        return unsafe escaped ? .escaped(utf8) : .plain(utf8)
      }
      guard byte >= 0x20 else { throw .malformed }
      if byte == UInt8(ascii: "\\") {
        escaped = true
        end += 1  // Whatever it is, it does not end the string.
      }
      end += 1
    }
    throw .malformed
  }

  /// The bytes between the escapes need not be UTF-8.
  private func unescape(_ escaped: UnsafeRawBufferPointer) throws(Fault) -> [UInt8] {
    var utf8: [UInt8] = []
    utf8.reserveCapacity(escaped.count)
    var index = 0
    while index < escaped.count {
      let byte = unsafe escaped[index]
      index += 1
      guard byte == UInt8(ascii: "\\") else {
        utf8.append(byte)
        continue
      }
      // The scan saw a byte behind every backslash.
      let mark = unsafe escaped[index]
      index += 1
      if mark == UInt8(ascii: "u") {
        let scalar = unsafe try unicode(escaped, &index)
        unsafe utf8.append(contentsOf: UTF8.encode(scalar).unsafelyUnwrapped)
      } else {
        guard let plain = Self.simpleEscape(mark) else { throw .malformed }
        utf8.append(plain)
      }
    }
    return utf8
  }

  private static func simpleEscape(_ mark: UInt8) -> UInt8? {
    switch mark {
    case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"): mark
    case UInt8(ascii: "n"): 0x0a
    case UInt8(ascii: "r"): 0x0d
    case UInt8(ascii: "t"): 0x09
    case UInt8(ascii: "b"): 0x08
    case UInt8(ascii: "f"): 0x0c
    default: nil
    }
  }

  /// Four hexadecimal digits, or two groups of them that are a surrogate pair.
  private func unicode(_ escaped: UnsafeRawBufferPointer, _ index: inout Int) throws(Fault)
    -> Unicode.Scalar
  {
    let unit = unsafe try hex(escaped, &index)
    if let scalar = Unicode.Scalar(unit) { return scalar }
    guard (0xd800..<0xdc00).contains(unit), escaped.count - index >= 2,
      unsafe escaped[index] == UInt8(ascii: "\\"), unsafe escaped[index + 1] == UInt8(ascii: "u")
    else { throw .malformed }
    index += 2
    let low = unsafe try hex(escaped, &index)
    guard (0xdc00..<0xe000).contains(low),
      let scalar = Unicode.Scalar(0x10000 + (unit - 0xd800) << 10 + (low - 0xdc00))
    else { throw .malformed }
    return scalar
  }

  private func hex(_ escaped: UnsafeRawBufferPointer, _ index: inout Int) throws(Fault) -> UInt32 {
    guard escaped.count - index >= 4 else { throw .malformed }
    var value: UInt32 = 0
    for _ in 0..<4 {
      let byte = unsafe escaped[index]
      index += 1
      guard let digit = byte.hexDigit else { throw .malformed }
      value = value << 4 | UInt32(digit)
    }
    return value
  }
}
