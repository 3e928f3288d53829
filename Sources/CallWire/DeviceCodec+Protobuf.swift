internal import CCallProto
internal import CallCore

extension DeviceCodec {
  @safe
  static func decodeProtobufClient(_ bytes: UnsafeRawBufferPointer) throws(Fault) -> ClientFrame {
    try Unpacker.value(
      bytes, memoryPerByte: 16, isDeviceProtocol: true, callmesh__v1__client_frame__unpack)
  }

  @safe
  static func decodeProtobufServer(_ bytes: UnsafeRawBufferPointer) throws(Fault) -> ServerFrame {
    try Unpacker.value(
      bytes, memoryPerByte: 256, isDeviceProtocol: true, callmesh__v1__server_frame__unpack)
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
