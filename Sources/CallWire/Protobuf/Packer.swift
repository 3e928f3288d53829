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

/// Builds C structs from Swift values, in an arena. `Packer+Device` and its siblings hold one
/// function per message.
struct Packer {
  let arena: Arena

  /// The bytes of the message that `build` makes.
  static func bytes<Message>(
    _ build: (Packer) -> UnsafeMutablePointer<Message>
  ) -> [UInt8] {
    Arena.withArena { arena in
      // Every generated struct begins with its `ProtobufCMessage`.
      let message = UnsafeRawPointer(build(Packer(arena: arena)))
        .assumingMemoryBound(to: ProtobufCMessage.self)
      let size = protobuf_c_message_get_packed_size(message)
      return [UInt8](unsafeUninitializedCapacity: size) { buffer, count in
        count = size == 0 ? 0 : protobuf_c_message_pack(message, buffer.baseAddress)
      }
    }
  }

  /// Text ends at its first NUL, as C has it; the rules for what comes in refuse such text.
  @inline(__always)
  func set(_ field: inout UnsafeMutablePointer<CChar>?, _ text: String) {
    guard !text.isEmpty else { return }  // Already the empty string.
    field = string(text)
  }

  func string(_ text: String) -> UnsafeMutablePointer<CChar> {
    var text = text
    return text.withUTF8 { utf8 in
      let copy = arena.bytes(utf8.count + 1)
      if let base = utf8.baseAddress { memcpy(copy, base, utf8.count) }
      copy[utf8.count] = 0
      return UnsafeMutableRawPointer(copy).assumingMemoryBound(to: CChar.self)
    }
  }

  func id(_ call: CallID) -> ProtobufCBinaryData {
    let copy = arena.bytes(16)
    UnsafeMutableRawPointer(copy).storeBytes(of: call.high.bigEndian, as: UInt64.self)
    UnsafeMutableRawPointer(copy + 8).storeBytes(of: call.low.bigEndian, as: UInt64.self)
    return ProtobufCBinaryData(len: 16, data: copy)
  }

  /// The pointers of a repeated message field; nil where there are none.
  @inline(__always)
  func array<Value, Message>(
    _ values: [Value], _ build: (Value) -> UnsafeMutablePointer<Message>
  ) -> UnsafeMutablePointer<UnsafeMutablePointer<Message>?>? {
    guard !values.isEmpty else { return nil }
    let pointers = arena.pointers(UnsafeMutablePointer<Message>?.self, count: values.count)
    for (index, value) in values.enumerated() {
      (pointers + index).initialize(to: build(value))
    }
    return pointers
  }
}
