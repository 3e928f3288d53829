internal import CCallProto
internal import CProtobufC
internal import CallCore

/// Reads Swift values out of C structs that protobuf-c unpacked. `Unpacker+Device` and its siblings
/// hold one function per message. Nothing here traps on what the bytes say.
enum Unpacker {
  /// Unpacks `bytes` and reads the message with `read`.
  /// - Parameter memoryPerByte: how much memory one byte of the message may cost beyond 64 kB; many
  ///   empty messages in a repeated field take much more than their bytes.
  @inline(__always)
  static func message<Message, Value>(
    _ bytes: UnsafeRawBufferPointer,
    memoryPerByte: Int = 16,
    _ unpack: (
      UnsafeMutablePointer<ProtobufCAllocator>?, Int, UnsafePointer<UInt8>?
    ) -> UnsafeMutablePointer<Message>?,
    _ read: (UnsafeMutablePointer<Message>) throws(Fault) -> Value
  ) throws(Fault) -> Value {
    try Arena.withArena(overflowLimit: 65_536 + memoryPerByte * bytes.count) {
      (arena) throws(Fault) -> Value in
      guard
        let message = unpack(
          arena.allocator, bytes.count, bytes.baseAddress?.assumingMemoryBound(to: UInt8.self))
      else { throw .malformed }
      return try read(message)
    }
  }

  /// The address to which unset strings point.
  private static let emptyString: UInt = {
    var header = Callmesh__V1__Header()
    callmesh__v1__header__init(&header)
    return UInt(bitPattern: header.name)
  }()

  static func text(
    _ pointer: UnsafeMutablePointer<CChar>?, _ field: StaticString
  ) throws(Fault) -> String {
    guard let pointer else { return "" }
    if pointer[0] == 0 && UInt(bitPattern: pointer) == emptyString { return "" }
    let count = Arena.size(of: pointer) - 1
    let utf8 = UnsafeRawBufferPointer(start: pointer, count: count)
      .assumingMemoryBound(to: UInt8.self)
    guard let text = String(validating: utf8, as: UTF8.self) else {
      throw .field(String(describing: field))
    }
    return text
  }

  static func id(_ bytes: ProtobufCBinaryData, _ field: StaticString) throws(Fault) -> CallID {
    guard bytes.len == 16, let data = bytes.data else {
      throw bytes.len == 0
        ? .missing(String(describing: field)) : .field(String(describing: field))
    }
    let raw = UnsafeRawPointer(data)
    return CallID(
      high: UInt64(bigEndian: raw.loadUnaligned(as: UInt64.self)),
      low: UInt64(bigEndian: raw.loadUnaligned(fromByteOffset: 8, as: UInt64.self)))
  }

  /// A submessage that has to be there.
  static func there<Message>(
    _ pointer: UnsafeMutablePointer<Message>?, _ field: StaticString
  ) throws(Fault) -> UnsafeMutablePointer<Message> {
    guard let pointer else { throw .missing(String(describing: field)) }
    return pointer
  }

  /// An enum's number as ours.
  static func known<Value: RawRepresentable<UInt8>>(
    _ number: some BinaryInteger, _: Value.Type, _ field: StaticString
  ) throws(Fault) -> Value {
    guard let raw = UInt8(exactly: number), let value = Value(rawValue: raw) else {
      throw .field(String(describing: field))
    }
    return value
  }

  @inline(__always)
  static func array<Message, Value>(
    _ count: Int, _ pointers: UnsafeMutablePointer<UnsafeMutablePointer<Message>?>?,
    _ read: (UnsafeMutablePointer<Message>) throws(Fault) -> Value
  ) throws(Fault) -> [Value] {
    guard count > 0, let pointers else { return [] }
    var values: [Value] = []
    values.reserveCapacity(count)
    for index in 0..<count {
      guard let pointer = pointers[index] else { throw .malformed }
      values.append(try read(pointer))
    }
    return values
  }

  /// Milliseconds of the wire; what does not fit is as far away as can be.
  static func time(milliseconds: Int64) -> Timestamp {
    let (product, overflow) = milliseconds.multipliedReportingOverflow(by: 1000)
    if overflow { return Timestamp(microseconds: milliseconds < 0 ? .min : .max) }
    return Timestamp(microseconds: product)
  }
}
