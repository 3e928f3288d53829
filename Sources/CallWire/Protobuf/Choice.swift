internal import CCallProto
internal import CallCore

/// The one member that is set of a message's oneof. A mapping names each member once; the one that it is, is
/// written or read.
struct Choice<C: Coder, Value> {
  let coder: C
  var value: Value?
  var number: UInt32

  /// - Parameters:
  ///   - value: what is written; overwritten by what is read.
  ///   - field: says which member is set.
  init(_ coder: C, _ value: Value?, _ field: some RawRepresentable<UInt32>) {
    self.coder = coder
    self.value = C.reads ? nil : value
    number = C.reads ? field.rawValue : 0
  }

  @inline(__always)
  mutating func message<Map: Mapping>(
    _ map: Map.Type, _ member: some RawRepresentable<UInt32>,
    _ field: inout UnsafeMutablePointer<Map.Message>?, _ make: (Map.Value) -> Value,
    _ payload: (Value) -> Map.Value?
  ) throws(C.Failure) {
    if C.reads {
      guard number == member.rawValue else { return }
      var payload = Map.blank
      try coder.message(map, &payload, &field, "message")
      value = make(payload)
    } else if number == 0, let value, var payload = payload(value) {
      number = member.rawValue
      try coder.message(map, &payload, &field, "message")
    }
  }

  /// A member that says all by being set.
  @inline(__always)
  mutating func message<Message>(
    _ make: (UnsafeMutablePointer<Message>?) -> Void, _ member: some RawRepresentable<UInt32>,
    _ field: inout UnsafeMutablePointer<Message>?, is value: Value
  ) throws(C.Failure) where Value: Equatable {
    guard C.reads ? number == member.rawValue : self.value == value else { return }
    number = member.rawValue
    self.value = value
    _ = try coder.pointer(make, &field, "message")
  }

  /// What is set in the end. A value that no member of the mapping takes is our own mistake, and is not written
  /// as nothing.
  /// - Throws: where nothing was set, or what only later versions know.
  func end<Field: RawRepresentable<UInt32>>(
    _ value: inout Value, _ field: inout Field, _ name: StaticString
  ) throws(C.Failure) {
    if let found = self.value, number != 0 {
      value = found
      field = Field(rawValue: number).unsafelyUnwrapped
    } else {
      try coder.fail(.unknownMember(String(describing: name)))
    }
  }
}
