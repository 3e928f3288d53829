internal import CCallProto
internal import CProtobufC
internal import CallCore

/// Reads Swift values out of C structs that protobuf-c or `MessageReader` filled. Nothing here traps on what the
/// bytes say.
struct Unpacker: Coder {
  /// What devices say may hold a NUL: `FrameRules` says what is wrong with it. Nodes write none, since protobuf-c
  /// would cut the text there, and so they take none.
  var isDeviceProtocol = false

  static var reads: Bool { true }

  /// Unpacks `bytes` and reads the message.
  /// - Parameter memoryPerByte: how much memory one byte of the message may cost beyond 64 kB; many
  ///   empty messages in a repeated field take much more than their bytes.
  @inline(__always)
  static func value<Message: Mapping>(
    _ bytes: UnsafeRawBufferPointer, memoryPerByte: Int, isDeviceProtocol: Bool = false,
    _ unpack: (
      UnsafeMutablePointer<ProtobufCAllocator>?, Int, UnsafePointer<UInt8>?
    ) -> UnsafeMutablePointer<Message>?
  ) throws(Fault) -> Message.Value {
    try Arena.withArena(overflowLimit: 65_536 + memoryPerByte * bytes.count) {
      (arena) throws(Fault) -> Message.Value in
      guard
        let message = unpack(
          arena.allocator, bytes.count, bytes.baseAddress?.assumingMemoryBound(to: UInt8.self))
      else { throw .malformed }
      return try Unpacker(isDeviceProtocol: isDeviceProtocol).value(of: message)
    }
  }

  @inline(__always)
  func value<Message: Mapping>(
    of message: UnsafeMutablePointer<Message>
  ) throws(Fault) -> Message.Value {
    var value = Message.blank
    try Message.code(self, &value, &message.pointee)
    return value
  }

  // MARK: Fields

  func text(_ value: inout String, _ field: inout CText?, _ name: StaticString) throws(Fault) {
    value = try text(field, name)
  }

  private func text(_ pointer: CText?, _ name: StaticString) throws(Fault) -> String {
    guard let pointer else { return "" }
    let utf8 = Arena.text(UnsafeRawPointer(pointer).assumingMemoryBound(to: UInt8.self))
    // The initialiser for any encoding costs three times as much. This one stops at a NUL.
    if let text = String(validatingCString: pointer) {
      if text.utf8.count == utf8.count { return text }
      if isDeviceProtocol, let text = String(validating: utf8, as: UTF8.self) { return text }
    }
    throw .field(String(describing: name))
  }

  func texts(
    _ value: inout [String], _ count: inout Int, _ field: inout UnsafeMutablePointer<CText?>?,
    _ name: StaticString
  ) throws(Fault) {
    value = try elements(count, field) { (pointer) throws(Fault) in try text(pointer, name) }
  }

  @inline(__always)
  func number<Number: FixedWidthInteger>(_ value: inout Number, _ field: inout Number) {
    value = field
  }

  @inline(__always)
  func flag(_ value: inout Bool, _ field: inout protobuf_c_boolean) { value = field != 0 }

  @inline(__always)
  func time(_ value: inout Timestamp, microseconds field: inout Int64) {
    value = Timestamp(microseconds: field)
  }

  /// What does not fit is as far away as can be.
  func time(_ value: inout Timestamp, milliseconds field: inout Int64) {
    let (product, overflow) = field.multipliedReportingOverflow(by: 1000)
    value = Timestamp(microseconds: overflow ? (field < 0 ? .min : .max) : product)
  }

  @inline(__always)
  func known<Value: RawRepresentable<UInt8>, Field: RawRepresentable<UInt32>>(
    _ value: inout Value, _ field: inout Field, _ name: StaticString
  ) throws(Fault) {
    guard let raw = UInt8(exactly: field.rawValue), let known = Value(rawValue: raw) else {
      throw .field(String(describing: name))
    }
    value = known
  }

  func id(
    _ value: inout CallID, _ field: inout ProtobufCBinaryData, _ name: StaticString
  ) throws(Fault) {
    value = try Self.id(field, name)
  }

  static func id(_ bytes: ProtobufCBinaryData, _ name: StaticString) throws(Fault) -> CallID {
    guard bytes.len == 16, let data = bytes.data else {
      throw bytes.len == 0
        ? .missing(String(describing: name)) : .field(String(describing: name))
    }
    let raw = UnsafeRawPointer(data)
    return CallID(
      high: UInt64(bigEndian: raw.loadUnaligned(as: UInt64.self)),
      low: UInt64(bigEndian: raw.loadUnaligned(fromByteOffset: 8, as: UInt64.self)))
  }

  func ids(
    _ value: inout [CallID], _ count: inout Int,
    _ field: inout UnsafeMutablePointer<ProtobufCBinaryData>?, _ name: StaticString
  ) throws(Fault) {
    value = try elements(count, field) { (id) throws(Fault) in try Self.id(id, name) }
  }

  func numbers(
    _ value: inout [UInt64], _ count: inout Int, _ field: inout UnsafeMutablePointer<UInt64>?
  ) {
    value = field.map { Array(UnsafeBufferPointer(start: $0, count: count)) } ?? []
  }

  func blobs(
    _ value: inout [[UInt8]], _ count: inout Int,
    _ field: inout UnsafeMutablePointer<ProtobufCBinaryData>?
  ) throws(Fault) {
    value = try elements(count, field) { (blob) throws(Fault) in
      Array(UnsafeBufferPointer(start: blob.data, count: blob.len))
    }
  }

  func format(_ field: inout UInt32, writes _: UInt32, _ kind: FormatKind) throws(Fault) {
    if kind == .kept, field == 0 { throw .field("format") }
    guard field <= ClusterCodec.format else { throw .laterFormat(field) }
  }

  func failure(_ fault: Fault) -> Fault { fault }

  // MARK: Messages

  @inline(__always)
  func pointer<Message>(
    _: (UnsafeMutablePointer<Message>?) -> Void,
    _ field: inout UnsafeMutablePointer<Message>?, _ name: StaticString
  ) throws(Fault) -> UnsafeMutablePointer<Message> {
    guard let message = field else { throw .missing(String(describing: name)) }
    return message
  }

  @inline(__always)
  func optional<Message: Mapping>(
    _ value: inout Message.Value?, _ field: inout UnsafeMutablePointer<Message>?
  ) throws(Fault) {
    value = nil
    if let message = field { value = try self.value(of: message) }
  }

  @inline(__always)
  func array<Message: Mapping>(
    _ value: inout [Message.Value], _ count: inout Int,
    _ field: inout UnsafeMutablePointer<UnsafeMutablePointer<Message>?>?
  ) throws(Fault) {
    value = try elements(count, field) { (pointer) throws(Fault) in
      guard let pointer else { throw .malformed }
      return try self.value(of: pointer)
    }
  }

  @inline(__always)
  func elements<Element, Value>(
    _ count: Int, _ pointers: UnsafeMutablePointer<Element>?,
    _ read: (Element) throws(Fault) -> Value
  ) throws(Fault) -> [Value] {
    guard count > 0, let pointers else { return [] }
    var values: [Value] = []
    values.reserveCapacity(count)
    for index in 0..<count { values.append(try read(pointers[index])) }
    return values
  }
}
