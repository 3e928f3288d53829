internal import CCallProto
internal import CProtobufC
internal import CallCore

#if canImport(Glibc)
  internal import Glibc
#elseif canImport(Musl)
  internal import Musl
#else
  internal import Darwin
#endif

/// Builds C structs from Swift values, in an arena.
struct Packer: Coder {
  let arena: Arena

  static var reads: Bool { false }
  var isDeviceProtocol: Bool { false }

  /// The protobuf bytes of a value.
  @inline(__always)
  static func bytes<Message: Mapping>(_: Message.Type, _ value: Message.Value) -> [UInt8] {
    Arena.withArena { arena in
      // Every generated struct begins with its `ProtobufCMessage`.
      let message = UnsafeRawPointer(Packer(arena: arena).build(Message.self, value))
        .assumingMemoryBound(to: ProtobufCMessage.self)
      let size = protobuf_c_message_get_packed_size(message)
      return [UInt8](unsafeUninitializedCapacity: size) { buffer, count in
        count = size == 0 ? 0 : protobuf_c_message_pack(message, buffer.baseAddress)
      }
    }
  }

  @inline(__always)
  func build<Message: Mapping>(
    _: Message.Type, _ value: consuming Message.Value
  ) -> UnsafeMutablePointer<Message> {
    let message = arena.make(Message.make)
    Message.code(self, &value, &message.pointee)
    return message
  }

  // MARK: Fields

  /// Text ends at its first NUL, as C has it; the rules for what comes in refuse such text.
  @inline(__always)
  func text(_ value: inout String, _ field: inout CText?, _: StaticString) {
    if !value.isEmpty { field = string(value) }  // Else it is already the empty string.
  }

  private func string(_ text: String) -> CText {
    var text = text
    return text.withUTF8 { utf8 in
      let copy = arena.bytes(utf8.count + 1)
      if let base = utf8.baseAddress { memcpy(copy, base, utf8.count) }
      copy[utf8.count] = 0
      return UnsafeMutableRawPointer(copy).assumingMemoryBound(to: CChar.self)
    }
  }

  func texts(
    _ value: inout [String], _ count: inout Int, _ field: inout UnsafeMutablePointer<CText?>?,
    _: StaticString
  ) {
    count = value.count
    field = pointers(value, string)
  }

  @inline(__always)
  func number<Number: FixedWidthInteger>(_ value: inout Number, _ field: inout Number) {
    field = value
  }

  @inline(__always)
  func flag(_ value: inout Bool, _ field: inout protobuf_c_boolean) { field = value ? 1 : 0 }

  @inline(__always)
  func time(_ value: inout Timestamp, microseconds field: inout Int64) {
    field = value.microseconds
  }

  @inline(__always)
  func time(_ value: inout Timestamp, milliseconds field: inout Int64) {
    field = value.milliseconds
  }

  @inline(__always)
  func known<Value: RawRepresentable<UInt8>, Field: RawRepresentable<UInt32>>(
    _ value: inout Value, _ field: inout Field, _: StaticString
  ) {
    field = Field(rawValue: UInt32(value.rawValue)).unsafelyUnwrapped
  }

  @inline(__always)
  func id(_ value: inout CallID, _ field: inout ProtobufCBinaryData, _: StaticString) {
    field = data(value)
  }

  func data(_ call: CallID) -> ProtobufCBinaryData {
    let copy = arena.bytes(16)
    UnsafeMutableRawPointer(copy).storeBytes(of: call.high.bigEndian, as: UInt64.self)
    UnsafeMutableRawPointer(copy + 8).storeBytes(of: call.low.bigEndian, as: UInt64.self)
    return ProtobufCBinaryData(len: 16, data: copy)
  }

  func ids(
    _ value: inout [CallID], _ count: inout Int,
    _ field: inout UnsafeMutablePointer<ProtobufCBinaryData>?, _: StaticString
  ) {
    count = value.count
    field = pointers(value, data)
  }

  func numbers(
    _ value: inout [UInt64], _ count: inout Int, _ field: inout UnsafeMutablePointer<UInt64>?
  ) {
    count = value.count
    field = pointers(value) { $0 }
  }

  func blobs(
    _ value: inout [[UInt8]], _ count: inout Int,
    _ field: inout UnsafeMutablePointer<ProtobufCBinaryData>?
  ) {
    count = value.count
    field = pointers(value) { blob in
      let copy = arena.bytes(blob.count)
      copy.update(from: blob, count: blob.count)
      return ProtobufCBinaryData(len: blob.count, data: copy)
    }
  }

  func format(_ field: inout UInt32, writes form: UInt32, _: FormatKind) { field = form }

  func failure(_ fault: Fault) -> Never { preconditionFailure(fault.sentence) }

  // MARK: Messages

  @inline(__always)
  func pointer<Message>(
    _ make: (UnsafeMutablePointer<Message>?) -> Void,
    _ field: inout UnsafeMutablePointer<Message>?, _: StaticString
  ) -> UnsafeMutablePointer<Message> {
    let message = arena.make(make)
    field = message
    return message
  }

  @inline(__always)
  func optional<Message: Mapping>(
    _ value: inout Message.Value?, _ field: inout UnsafeMutablePointer<Message>?
  ) {
    if let value { field = build(Message.self, value) }
  }

  @inline(__always)
  func array<Message: Mapping>(
    _ value: inout [Message.Value], _ count: inout Int,
    _ field: inout UnsafeMutablePointer<UnsafeMutablePointer<Message>?>?
  ) {
    count = value.count
    field = pointers(value) { build(Message.self, $0) }
  }

  /// The elements of a repeated field; nil where there are none.
  @inline(__always)
  func pointers<Value, Element>(
    _ values: [Value], _ build: (consuming Value) -> Element
  ) -> UnsafeMutablePointer<Element>? {
    guard !values.isEmpty else { return nil }
    let pointers = arena.pointers(Element.self, count: values.count)
    for index in values.indices { (pointers + index).initialize(to: build(values[index])) }
    return pointers
  }
}
