internal import CCallProto
internal import CProtobufC

/// The layout for writing the C struct of one message as protobuf, and for reading it. It is derived from protobuf-c's
/// descriptor, once for each use of the message, and stays.
///
/// It is unchecked since it points to memory that is never written or freed.
@safe
struct WireLayout: @unchecked Sendable {
  /// How the C struct says whether a field is there.
  enum Presence: UInt8 {
    /// Unless it is 0, of 4 or 8 bytes.
    case word32, word64
    /// Unless the text is empty.
    case text
    /// If the member of the oneof is the one that is set.
    case member
    case repeated, packed
  }

  enum Kind: UInt8 {
    case flag, enumeration, uint32, varint64, fixed32, fixed64, text, bytes, message
  }

  struct Field {
    let kind: Kind
    let presence: Presence
    /// How many of the bytes of `tag` count: its last ones.
    let tagBytes: UInt8
    /// The number of the field and the form of its value, as they are written.
    let tag: UInt16
    let number: UInt32
    /// The form of a value: of each element, where they are packed.
    let form: UInt32
    let offset: Int
    /// Where the count of a repeated field is, or the number of the oneof's member that is set.
    let quantifierOffset: Int
    /// How far the elements of a repeated field are apart.
    let stride: Int
    /// For a oneof's member: the index of the first of the members that come one after another.
    var first = 0
    /// The layout of the messages, for a field that holds messages.
    let message: WireLayout?
  }

  /// In the order of their numbers.
  let fields: UnsafeBufferPointer<Field>
  /// For each number, as of `place(_:)`.
  private let places: UnsafeBufferPointer<UInt8>
  /// A struct without values.
  private let empty: UnsafeRawBufferPointer

  init<Message: Mapping>(of _: Message.Type) {
    self = Arena.withArena { arena in unsafe WireLayout(of: arena.make(Message.make)) }
  }

  /// - Parameter message: a struct of the message. Each begins with its `ProtobufCMessage`.
  init(of message: UnsafeRawPointer) {
    unsafe self.init(message.load(as: ProtobufCMessage.self).descriptor)
  }

  private init(_ descriptor: UnsafePointer<ProtobufCMessageDescriptor>) {
    let fields = unsafe UnsafeBufferPointer(
      start: descriptor.pointee.fields, count: Int(descriptor.pointee.n_fields))
    let copy = UnsafeMutableBufferPointer<Field>.allocate(capacity: fields.count)
    _ = unsafe copy.initialize(from: fields.lazy.map { unsafe Field($0) })
    for index in copy.indices {
      let isNext =
        unsafe index > 0 && copy[index].presence == .member && copy[index - 1].presence == .member
        && copy[index].quantifierOffset == copy[index - 1].quantifierOffset
      unsafe copy[index].first = unsafe isNext ? copy[index - 1].first : index
    }
    unsafe self.fields = UnsafeBufferPointer(copy)
    let places = unsafe UnsafeMutableBufferPointer<UInt8>.allocate(
      capacity: 1 + Int(copy.last?.number ?? 0))
    unsafe places.initialize(repeating: 0)
    for index in copy.indices { unsafe places[Int(copy[index].number)] = UInt8(1 + index) }
    unsafe self.places = UnsafeBufferPointer(places)
    let empty = unsafe UnsafeMutableRawBufferPointer.allocate(
      byteCount: descriptor.pointee.sizeof_message, alignment: 16)
    unsafe protobuf_c_message_init(descriptor, empty.baseAddress)
    unsafe self.empty = UnsafeRawBufferPointer(empty)
  }

  /// 1 + the index of the field with this number; 0: there is none.
  func place(_ number: UInt32) -> Int {
    unsafe number < places.count ? Int(places.baseAddress.unsafelyUnwrapped[Int(number)]) : 0
  }

  func field(_ number: UInt32) -> UnsafePointer<Field>? {
    let place = place(number)
    return unsafe place == 0 ? nil : fields.baseAddress.unsafelyUnwrapped + (place - 1)
  }

  /// nil where the arena has reached its limit.
  func make(in arena: Arena) -> UnsafeMutableRawPointer? {
    guard let message = unsafe arena.allocate(empty.count) else { return nil }
    unsafe message.copyMemory(from: empty.baseAddress.unsafelyUnwrapped, byteCount: empty.count)
    return unsafe message
  }
}

extension WireLayout.Field {
  fileprivate init(_ field: ProtobufCFieldDescriptor) {
    (kind, form, stride) = unsafe Self.form(of: field)
    let isMember = unsafe field.flags & UInt32(PROTOBUF_C_FIELD_FLAG_ONEOF.rawValue) != 0
    let isPacked = unsafe field.flags & UInt32(PROTOBUF_C_FIELD_FLAG_PACKED.rawValue) != 0
    // The reader clears 8 bytes of an element, and of a oneof, before it fills them.
    precondition(
      unsafe stride >= 8 || !isMember && field.label != PROTOBUF_C_LABEL_REPEATED,
      "an element or a oneof's member of 4 bytes")
    presence =
      if isMember { .member } else if unsafe field.label == PROTOBUF_C_LABEL_REPEATED {
        isPacked ? .packed : .repeated
      } else if kind == .text { .text } else { stride == 4 ? .word32 : .word64 }
    number = unsafe field.id
    let key = number << 3 | (isPacked ? 2 : form)
    precondition(key < 1 << 14, "a tag of more than two bytes")
    tagBytes = key < 0x80 ? 1 : 2
    // The first byte to be written is the lower one in memory.
    tag = UInt16(key < 0x80 ? key << 8 : (key >> 7) << 8 | key & 0x7f | 0x80).littleEndian
    offset = unsafe Int(field.offset)
    quantifierOffset = unsafe Int(field.quantifier_offset)
    message =
      unsafe kind == .message
      ? WireLayout(field.descriptor.assumingMemoryBound(to: ProtobufCMessageDescriptor.self)) : nil
  }

  private static func form(of field: ProtobufCFieldDescriptor) -> (WireLayout.Kind, UInt32, Int) {
    // The struct says in yet another way whether an `optional` is there, or a text in a oneof.
    precondition(
      unsafe field.label == PROTOBUF_C_LABEL_REPEATED
        || field.label == PROTOBUF_C_LABEL_NONE
          && (field.flags == 0 || field.type != PROTOBUF_C_TYPE_STRING)
    )
    switch unsafe field.type {
    case PROTOBUF_C_TYPE_BOOL: return (.flag, 0, 4)
    case PROTOBUF_C_TYPE_ENUM: return (.enumeration, 0, 4)
    case PROTOBUF_C_TYPE_UINT32: return (.uint32, 0, 4)
    case PROTOBUF_C_TYPE_INT64, PROTOBUF_C_TYPE_UINT64: return (.varint64, 0, 8)
    case PROTOBUF_C_TYPE_FIXED32: return (.fixed32, 5, 4)
    case PROTOBUF_C_TYPE_FIXED64: return (.fixed64, 1, 8)
    case PROTOBUF_C_TYPE_STRING: return (.text, 2, 8)
    case PROTOBUF_C_TYPE_BYTES: return unsafe (.bytes, 2, MemoryLayout<ProtobufCBinaryData>.stride)
    case PROTOBUF_C_TYPE_MESSAGE: return (.message, 2, 8)
    default: preconditionFailure("no field of the schemas has this type")
    }
  }
}
