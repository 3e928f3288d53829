internal import CCallProto
internal import CProtobufC
internal import CallCore

/// Reads JSON into the C struct of a message, for the same mapping that reads protobuf (`Unpacker`). Members that
/// are absent or null are empty, 0 or false; unknown ones are skipped.
struct MessageReader {
  /// No case of an enum: stands for an unknown name.
  private static let unknownCase = Int32.max

  private let arena: Arena

  /// Reads the one message that `bytes` hold.
  /// - Parameter memoryPerByte: as of `Unpacker.value`.
  @safe
  static func value<Message: Mapping>(
    _: Message.Type, _ bytes: UnsafeRawBufferPointer, _ shape: MessageShape,
    memoryPerByte: Int = 256
  ) throws(Fault) -> Message.Value {
    try Arena.withArena(overflowLimit: 65_536 + memoryPerByte * bytes.count) {
      (arena) throws(Fault) -> Message.Value in
      var json = unsafe JSONCursor(bytes)
      let message = unsafe try MessageReader(arena: arena).message(&json, shape, "")
      try json.end()
      return unsafe try Unpacker(arena: arena, isDeviceProtocol: true).value(
        of: message.assumingMemoryBound(to: Message.self))
    }
  }

  private func message(_ json: inout JSONCursor, _ shape: MessageShape, _ name: String)
    throws(Fault) -> UnsafeMutableRawPointer
  {
    guard let message = unsafe shape.make(in: arena) else { throw .malformed }
    try json.object(name) { (json, key) throws(Fault) in
      guard let field = shape.field(key) else { return try json.skip() }
      do throws(Fault) {
        unsafe try read(field, &json, into: message)
      } catch {
        throw name.isEmpty ? error : error.inside(name)
      }
    }
    return unsafe message
  }

  private func read(
    _ field: MessageShape.Field, _ json: inout JSONCursor, into message: UnsafeMutableRawPointer
  ) throws(Fault) {
    let place = unsafe message + field.offset
    let quantifier = unsafe message + field.quantifierOffset
    if field.isRepeated {
      let pieces = unsafe try pieces(field, &json)
      unsafe quantifier.storeBytes(of: pieces.count, as: Int.self)
      return unsafe place.storeBytes(of: try copy(pieces), as: UnsafeMutableRawPointer?.self)
    }
    if field.isChoice {
      guard unsafe quantifier.load(as: UInt32.self) == 0 else {
        try json.skip()
        throw .secondCommand
      }
      unsafe quantifier.storeBytes(of: field.number, as: UInt32.self)
    }
    switch field.type {
    case PROTOBUF_C_TYPE_MESSAGE, PROTOBUF_C_TYPE_STRING:
      unsafe place.storeBytes(of: try piece(field, &json), as: UnsafeMutableRawPointer?.self)
    case PROTOBUF_C_TYPE_BOOL:
      unsafe place.storeBytes(of: try json.flag(field.key) ? 1 : 0, as: protobuf_c_boolean.self)
    case PROTOBUF_C_TYPE_UINT32:
      unsafe place.storeBytes(of: try json.number(field.key), as: UInt32.self)
    case PROTOBUF_C_TYPE_UINT64:
      unsafe place.storeBytes(of: try json.number(field.key), as: UInt64.self)
    case PROTOBUF_C_TYPE_INT64:
      unsafe place.storeBytes(of: try json.number(field.key), as: Int64.self)
    case PROTOBUF_C_TYPE_ENUM:
      let name = try json.text(field.key)
      let known = field.cases.first { $0.name == name }
      unsafe place.storeBytes(of: known?.number ?? Self.unknownCase, as: Int32.self)
    case PROTOBUF_C_TYPE_BYTES:
      unsafe place.storeBytes(of: try callID(field, &json), as: ProtobufCBinaryData.self)
    default: preconditionFailure("\(field.key): no field of device.proto has this type")
    }
  }

  /// A value that the struct points to.
  private func piece(_ field: MessageShape.Field, _ json: inout JSONCursor) throws(Fault)
    -> UnsafeMutableRawPointer
  {
    if let shape = field.message { return unsafe try message(&json, shape, field.key) }
    return unsafe try json.withUTF8(field.key) { (utf8) throws(Fault) in
      // Whether it is UTF-8 is seen where it becomes a String.
      guard let copy = unsafe arena.allocate(utf8.count + 1) else { throw .malformed }
      if let base = utf8.baseAddress { unsafe copy.copyMemory(from: base, byteCount: utf8.count) }
      unsafe copy.storeBytes(of: 0, toByteOffset: utf8.count, as: UInt8.self)
      return unsafe copy
    }
  }

  private func pieces(_ field: MessageShape.Field, _ json: inout JSONCursor) throws(Fault)
    -> [UnsafeMutableRawPointer]
  {
    var pieces: [UnsafeMutableRawPointer] = unsafe []
    try json.array(field.key) { (json) throws(Fault) in
      unsafe pieces.append(try piece(field, &json))
    }
    return unsafe pieces
  }

  private func copy(_ pieces: [UnsafeMutableRawPointer]) throws(Fault) -> UnsafeMutableRawPointer? {
    guard unsafe !pieces.isEmpty else { return nil }
    let bytes = unsafe pieces.count * MemoryLayout<UnsafeMutableRawPointer>.stride
    guard let copy = unsafe arena.allocate(bytes) else { throw .malformed }
    unsafe copy.copyMemory(from: pieces, byteCount: bytes)
    return unsafe copy
  }

  private func callID(_ field: MessageShape.Field, _ json: inout JSONCursor) throws(Fault)
    -> ProtobufCBinaryData
  {
    let text = try json.text(field.key)
    if text.isEmpty { return unsafe ProtobufCBinaryData(len: 0, data: nil) }
    guard let id = CallID(text) else { throw .field(field.key) }
    return Packer(arena: arena).write(id)
  }
}
