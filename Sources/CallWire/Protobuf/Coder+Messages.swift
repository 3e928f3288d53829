internal import CCallProto
internal import CProtobufC

/// Messages within messages, and repeated fields, in both directions.
extension Coder {
  /// Reads a message of the arena.
  @safe @inline(__always)
  func value<Message: Mapping>(of message: UnsafeMutablePointer<Message>) throws(Failure)
    -> Message.Value
  {
    var value = Message.blank
    unsafe try Message.code(self, &value, &message.pointee)
    return value
  }

  /// Writes a message into the arena.
  @safe @inline(__always)
  func build<Message: Mapping>(_: Message.Type, _ value: inout Message.Value) throws(Failure)
    -> UnsafeMutablePointer<Message>
  {
    let message = unsafe arena.make(Message.make)
    unsafe try Message.code(self, &value, &message.pointee)
    return unsafe message
  }

  /// The struct of a message that has to be there.
  @safe @inline(__always)
  func pointer<Message: Mapping>(
    _ field: inout UnsafeMutablePointer<Message>?, _ name: StaticString
  ) throws(Failure) -> UnsafeMutablePointer<Message> {
    if !Self.reads { unsafe field = unsafe arena.make(Message.make) }
    guard let message = unsafe field else { throw failure(.missing(String(describing: name))) }
    return unsafe message
  }

  @safe @inline(__always)
  func message<Message: Mapping>(
    _ value: inout Message.Value, _ field: inout UnsafeMutablePointer<Message>?,
    _ name: StaticString
  ) throws(Failure) {
    try Message.code(self, &value, &pointer(&field, name).pointee)
  }

  @safe @inline(__always)
  func optional<Message: Mapping>(
    _ value: inout Message.Value?, _ field: inout UnsafeMutablePointer<Message>?
  ) throws(Failure) {
    if Self.reads {
      value = if let message = unsafe field { try self.value(of: message) } else { nil }
    } else if var value {
      unsafe field = try build(Message.self, &value)
    }
  }

  /// Reads the message of a oneof's member.
  @safe @inline(__always)
  func read<Message: Mapping>(_ field: UnsafeMutablePointer<Message>?) throws(Failure)
    -> Message.Value
  {
    guard let message = unsafe field else { throw failure(.missing("message")) }
    return try value(of: message)
  }

  /// Writes the message of a oneof's member.
  /// - Returns: the member, as the oneof names it.
  @safe @inline(__always)
  func write<Message: Mapping, Member>(
    _ value: consuming Message.Value, _ field: inout UnsafeMutablePointer<Message>?,
    _ member: Member
  ) throws(Failure) -> Member {
    var value = value
    unsafe field = try build(Message.self, &value)
    return member
  }

  // MARK: Repeated fields

  @safe @inline(__always)
  func array<Message: Mapping>(
    _ value: inout [Message.Value], _ count: inout Int,
    _ field: inout UnsafeMutablePointer<UnsafeMutablePointer<Message>?>?
  ) throws(Failure) {
    try elements(
      &value, &count, &field,
      read: { (pointer) throws(Failure) in
        guard let pointer = unsafe pointer else { throw failure(.malformed) }
        return try self.value(of: pointer)
      }, write: { (value: inout Message.Value) throws(Failure) in try build(Message.self, &value) })
  }

  /// As `array`, where a later version may have elements of further kinds: those that cannot be read are left out.
  /// - Returns: how many those are.
  @safe
  func known<Message: Mapping>(
    _ value: inout [Message.Value], _ count: inout Int,
    _ field: inout UnsafeMutablePointer<UnsafeMutablePointer<Message>?>?
  ) throws(Failure) -> Int {
    guard Self.reads else {
      try array(&value, &count, &field)
      return 0
    }
    value = []
    value.reserveCapacity(count)
    for index in 0..<count {
      guard let element = unsafe field?[index], let known = try? self.value(of: element) else {
        continue
      }
      value.append(known)
    }
    return count - value.count
  }

  @safe
  func numbers(
    _ value: inout [UInt64], _ count: inout Int, _ field: inout UnsafeMutablePointer<UInt64>?
  ) throws(Failure) {
    try elements(&value, &count, &field, read: { $0 }, write: { $0 })
  }

  @safe
  func blobs(
    _ value: inout [[UInt8]], _ count: inout Int,
    _ field: inout UnsafeMutablePointer<ProtobufCBinaryData>?
  ) throws(Failure) {
    try elements(
      &value, &count, &field,
      read: { unsafe Array(UnsafeBufferPointer(start: $0.data, count: $0.len)) },
      write: { blob in
        let copy = unsafe arena.bytes(blob.count)
        unsafe copy.update(from: blob, count: blob.count)
        return unsafe ProtobufCBinaryData(len: blob.count, data: copy)
      })
  }

  /// The elements of a repeated field, which the arena owns; no pointer where there are none.
  @safe @inline(__always)
  func elements<Value, Element>(
    _ values: inout [Value], _ count: inout Int, _ field: inout UnsafeMutablePointer<Element>?,
    read: (Element) throws(Failure) -> Value, write: (inout Value) throws(Failure) -> Element
  ) throws(Failure) {
    if Self.reads {
      values = []
      guard count > 0, let elements = unsafe field else { return }
      values.reserveCapacity(count)
      for index in 0..<count { unsafe values.append(try read(elements[index])) }
    } else if !values.isEmpty {
      count = values.count
      let elements = unsafe arena.pointers(Element.self, count: count)
      // Writing changes no value, and a copy would retain all there is in one.
      unsafe try values.withUnsafeBufferPointer { (values) throws(Failure) in
        let values = unsafe UnsafeMutablePointer(mutating: values.baseAddress.unsafelyUnwrapped)
        for index in 0..<count {
          unsafe (elements + index).initialize(to: try write(&values[index]))
        }
      }
      unsafe field = unsafe elements
    }
  }
}
