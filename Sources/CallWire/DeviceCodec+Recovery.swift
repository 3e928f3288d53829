extension DeviceCodec {
  /// The number of a frame whose command could not be read, as far as the text is JSON; 0 where
  /// there is none.
  @safe
  static func recoverJSONID(_ bytes: UnsafeRawBufferPointer) -> UInt64 {
    var json = unsafe JSONCursor(bytes)
    var id: UInt64 = 0
    do throws(Fault) {
      try json.object("") { (json, key) throws(Fault) in
        if "id" ~= key { id = try json.number("id") } else { try json.skip() }
      }
    } catch {}  // It is refused anyhow; what came before the fault counts.
    return id
  }

  /// The number of a client frame that could not be read, as far as its outermost fields can be; 0
  /// where there is none.
  @safe
  static func recoverProtobufID(_ bytes: UnsafeRawBufferPointer) -> UInt64 {
    var scanner = unsafe FieldScanner(bytes: bytes)
    var id: UInt64 = 0
    while let field = scanner.next() {
      if field.number == 1, let value = field.value { id = value }
    }
    return id
  }
}

/// Walks the outermost fields of a protobuf message and stops at the first thing it cannot read.
@safe
private struct FieldScanner {
  let bytes: UnsafeRawBufferPointer
  var position = 0

  init(bytes: UnsafeRawBufferPointer) { unsafe self.bytes = unsafe bytes }

  /// A field's number, and its value where that is a varint.
  mutating func next() -> (number: UInt64, value: UInt64?)? {
    guard let key = varint() else { return nil }
    switch key & 7 {
    case 0:
      guard let value = varint() else { return nil }
      return (key >> 3, value)
    case 1: return skip(8) ? (key >> 3, nil) : nil
    case 2:
      guard let count = varint() else { return nil }
      return skip(count) ? (key >> 3, nil) : nil
    case 5: return skip(4) ? (key >> 3, nil) : nil
    default: return nil
    }
  }

  private mutating func skip(_ count: UInt64) -> Bool {
    guard unsafe count <= UInt64(bytes.count - position) else { return false }
    position += Int(count)
    return true
  }

  private mutating func varint() -> UInt64? {
    var value: UInt64 = 0
    var shift: UInt64 = 0
    while unsafe position < bytes.count, shift < 64 {
      let byte = unsafe bytes[position]
      position += 1
      value |= UInt64(byte & 0x7f) << shift
      if byte & 0x80 == 0 { return value }
      shift += 7
    }
    return nil
  }
}
