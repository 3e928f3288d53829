internal import CCallProto
internal import CallCore

/// The one member that is set of a message's oneof. A mapping names each member once; the one that `number` names
/// is written or read, so that the others cost a comparison.
struct Choice<C: Coder> {
  let coder: C
  let number: UInt32
  private var found = false

  /// - Parameters:
  ///   - field: says which member is set, when reading.
  ///   - member: the member that stands for the value, when writing.
  @inline(__always)
  init<Field: RawRepresentable<UInt32>>(
    _ coder: C, _ field: Field, _ member: @autoclosure () -> Field
  ) {
    self.coder = coder
    number = C.reads ? field.rawValue : member().rawValue
  }

  /// Whether the value is this member.
  @inline(__always)
  mutating func finds(_ member: some RawRepresentable<UInt32>) -> Bool {
    guard number == member.rawValue else { return false }
    found = true
    return true
  }

  @inline(__always)
  mutating func message<Map: Mapping, Value>(
    _ value: inout Value, _ map: Map.Type, _ member: some RawRepresentable<UInt32>,
    _ field: inout UnsafeMutablePointer<Map.Message>?, _ make: (Map.Value) -> Value,
    _ payload: (Value) -> Map.Value?
  ) throws(C.Failure) {
    guard finds(member) else { return }
    if C.reads {
      var payload = Map.blank
      try coder.message(map, &payload, &field, "message")
      value = make(payload)
    } else if var payload = payload(value) {
      try coder.message(map, &payload, &field, "message")
    }
  }

  /// A member that says all by being set.
  @inline(__always)
  mutating func message<Message, Value>(
    _ value: inout Value, _ make: (UnsafeMutablePointer<Message>?) -> Void,
    _ member: some RawRepresentable<UInt32>, _ field: inout UnsafeMutablePointer<Message>?,
    is meaning: Value
  ) throws(C.Failure) {
    guard finds(member) else { return }
    _ = try coder.pointer(make, &field, "message")
    if C.reads { value = meaning }
  }

  /// What is set in the end. A value that no member of the mapping takes is our own mistake, and is not written
  /// as nothing.
  /// - Throws: where nothing was set, or what only later versions know.
  @inline(__always)
  func end<Field: RawRepresentable<UInt32>>(
    _ field: inout Field, _ name: StaticString
  ) throws(C.Failure) {
    guard found else { return try coder.fail(.unknownMember(String(describing: name))) }
    if !C.reads { field = Field(rawValue: number).unsafelyUnwrapped }
  }
}
