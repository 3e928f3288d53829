internal import CCallProto
internal import CProtobufC
internal import CallCore

/// Writes the C struct of a message (`Packer`) as JSON.
enum MessageWriter {
  static func bytes<Message: Mapping>(
    _: Message.Type, _ value: Message.Value, _ shape: MessageShape
  ) -> [UInt8] {
    Arena.withArena { arena in
      var (json, value) = (JSONWriter(), value)
      unsafe write(
        UnsafeRawPointer(Packer(arena: arena).build(Message.self, &value)), shape, into: &json)
      return json.bytes
    }
  }

  private static func write(
    _ message: UnsafeRawPointer, _ shape: MessageShape, into json: inout JSONWriter
  ) {
    json.braces { json in
      for field in shape.fields { unsafe write(field, of: message, into: &json) }
    }
  }

  private static func write(
    _ field: MessageShape.Field, of message: UnsafeRawPointer, into json: inout JSONWriter
  ) {
    let place = unsafe message + field.offset
    let quantifier = unsafe message + field.quantifierOffset
    if field.isRepeated {
      let count = unsafe quantifier.load(as: Int.self)
      guard count > 0 else { return }
      json.key(field.quotedKey)
      return json.brackets { json in
        let pieces = unsafe place.load(as: UnsafePointer<UnsafeRawPointer>.self)
        for index in 0..<count {
          json.comma()
          unsafe write(pieces[index], field, into: &json)
        }
      }
    }
    if field.isChoice, unsafe quantifier.load(as: UInt32.self) != field.number { return }
    switch field.type {
    case PROTOBUF_C_TYPE_MESSAGE, PROTOBUF_C_TYPE_STRING:
      guard let piece = unsafe place.load(as: UnsafeRawPointer?.self),
        unsafe field.message != nil || field.isAlwaysWritten || !text(piece).isEmpty
      else { return }
      json.key(field.quotedKey)
      unsafe write(piece, field, into: &json)
    case PROTOBUF_C_TYPE_BYTES:
      let bytes = unsafe place.load(as: ProtobufCBinaryData.self)
      guard let id = CallID(bytes) else { return }
      json.key(field.quotedKey)
      json.string(id.description)
    default:
      let number = unsafe scalar(field, place)
      guard number != 0 || field.isAlwaysWritten else { return }
      json.key(field.quotedKey)
      switch field.type {
      case PROTOBUF_C_TYPE_BOOL: json.append(number == 0 ? "false" : "true")
      case PROTOBUF_C_TYPE_ENUM: json.string(field.cases.first { $0.number == number }?.name ?? "")
      case PROTOBUF_C_TYPE_UINT64: json.number(UInt64(bitPattern: number))
      default: json.number(number)
      }
    }
  }

  private static func scalar(_ field: MessageShape.Field, _ place: UnsafeRawPointer) -> Int64 {
    switch field.type {
    case PROTOBUF_C_TYPE_BOOL: unsafe Int64(place.load(as: protobuf_c_boolean.self))
    case PROTOBUF_C_TYPE_UINT32: unsafe Int64(place.load(as: UInt32.self))
    case PROTOBUF_C_TYPE_ENUM: unsafe Int64(place.load(as: Int32.self))
    case PROTOBUF_C_TYPE_INT64, PROTOBUF_C_TYPE_UINT64: unsafe place.load(as: Int64.self)
    default: preconditionFailure("\(field.key): no field of device.proto has this type")
    }
  }

  /// A value that the struct points to.
  private static func write(
    _ piece: UnsafeRawPointer, _ field: MessageShape.Field, into json: inout JSONWriter
  ) {
    if let shape = field.message { return unsafe write(piece, shape, into: &json) }
    unsafe json.string(utf8: text(piece))
  }

  private static func text(_ piece: UnsafeRawPointer) -> UnsafeBufferPointer<UInt8> {
    unsafe Arena.text(piece.assumingMemoryBound(to: UInt8.self))
  }
}
