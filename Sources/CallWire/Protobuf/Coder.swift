internal import CCallProto
internal import CallCore

/// One direction between Swift values and C structs: `Packer` fills the struct from the value, `Unpacker` the
/// value from the struct. Each message has one mapping, which both of them run.
///
/// The structs and all that they point to are in the arena, which owns them.
protocol Coder {
  /// `Never` for `Packer`.
  associatedtype Failure: Error
  static var reads: Bool { get }
  var arena: Arena { get }
  /// Whether the message is of the protocol of devices, and not of the cluster's own.
  var isDeviceProtocol: Bool { get }
  /// The error to throw for a fault of what is read.
  func failure(_ fault: Fault) -> Failure
}

/// The C struct of a message, and how it and a Swift value correspond.
protocol Mapping {
  associatedtype Value
  /// The value that is filled when a message is read.
  static var blank: Value { get }
  /// The generated initialiser.
  @safe static func make(_ m: UnsafeMutablePointer<Self>?)
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Self) throws(C.Failure)
}

/// A message that is a document of its own, and not only part of another.
protocol Root: Mapping {
  static var layout: WireLayout { get }
}

/// A message without fields.
protocol EmptyMapping: Mapping where Value == Void {}

extension EmptyMapping {
  static var blank: Void { () }
  static func code<C: Coder>(_: C, _: inout Void, _: inout Self) {}
}

// Blank values, which are filled when a message is read.

extension CallID {
  static var zero: CallID { CallID(high: 0, low: 0) }
}

extension Timestamp {
  static var zero: Timestamp { Timestamp(microseconds: 0) }
}

extension UserKey {
  static var blank: UserKey { UserKey(app: "", user: "") }
}

// MARK: Writing

/// Builds C structs from Swift values.
struct Packer: Coder {
  let arena: Arena
  static var reads: Bool { false }
  var isDeviceProtocol: Bool { false }
  func failure(_ fault: Fault) -> Never { preconditionFailure(fault.sentence) }

  /// The protobuf bytes of a value.
  @inline(__always)
  static func bytes<Message: Root>(_: Message.Type, _ value: Message.Value) -> [UInt8] {
    withBytes(Message.self, value) { unsafe [UInt8]($0) }
  }

  /// Calls `body` with the protobuf bytes of a value. They are in what is left of the arena, which `body` must not use.
  @safe @inline(__always)
  static func withBytes<Message: Root, Result>(
    _: Message.Type, _ value: Message.Value, _ body: (UnsafeRawBufferPointer) -> Result
  ) -> Result {
    Arena.withArena { arena in
      var value = value
      let message = Packer(arena: arena).build(Message.self, &value)
      return ProtobufWriter.withBytes(message, Message.layout, arena, body)
    }
  }
}

// MARK: Reading

/// Reads Swift values out of C structs that `ProtobufReader` or `MessageReader` filled. Nothing here traps on what the
/// bytes say.
struct Unpacker: Coder {
  let arena: Arena
  /// Texts of devices may hold a NUL: `FrameRules` refuses it with a sentence. Nodes write none, since `ProtobufWriter`
  /// would cut the text there, and so they take none.
  var isDeviceProtocol = false
  static var reads: Bool { true }
  func failure(_ fault: Fault) -> Fault { fault }

  /// Reads the message that `bytes` hold.
  /// - Parameter memoryPerByte: how much memory one byte of the message may cost beyond 64 kB; many
  ///   empty messages in a repeated field take much more than their bytes.
  @safe @inline(__always)
  static func value<Message: Root>(
    _: Message.Type, _ bytes: UnsafeRawBufferPointer, memoryPerByte: Int,
    isDeviceProtocol: Bool = false
  ) throws(Fault) -> Message.Value {
    try Arena.withArena(overflowLimit: 65_536 + memoryPerByte * bytes.count) {
      (arena) throws(Fault) -> Message.Value in
      guard let message = unsafe ProtobufReader.message(bytes, Message.layout, arena) else {
        throw .malformed
      }
      return unsafe try Unpacker(arena: arena, isDeviceProtocol: isDeviceProtocol).value(
        of: message.assumingMemoryBound(to: Message.self))
    }
  }
}
