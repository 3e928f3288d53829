internal import CCallProto
internal import CProtobufC
internal import CallCore

/// One direction between Swift values and C structs: `Packer` fills the struct from the value, `Unpacker` the
/// value from the struct. Each message has one mapping, which both of them run.
///
/// Names are those of errors.
protocol Coder {
  /// `Never` for what writes.
  associatedtype Failure: Error
  static var reads: Bool { get }
  /// Whether the message is of the protocol of devices, and not of the cluster's own.
  var isDeviceProtocol: Bool { get }

  typealias CText = UnsafeMutablePointer<CChar>

  func text(_ value: inout String, _ field: inout CText?, _ name: StaticString) throws(Failure)
  func texts(
    _ value: inout [String], _ count: inout Int, _ field: inout UnsafeMutablePointer<CText?>?,
    _ name: StaticString
  ) throws(Failure)
  func number<Number: FixedWidthInteger>(_ value: inout Number, _ field: inout Number)
  func flag(_ value: inout Bool, _ field: inout protobuf_c_boolean)
  func time(_ value: inout Timestamp, microseconds field: inout Int64)
  func time(_ value: inout Timestamp, milliseconds field: inout Int64)
  /// One of the cases there are.
  func known<Value: RawRepresentable<UInt8>, Field: RawRepresentable<UInt32>>(
    _ value: inout Value, _ field: inout Field, _ name: StaticString
  ) throws(Failure)
  func id(
    _ value: inout CallID, _ field: inout ProtobufCBinaryData, _ name: StaticString
  ) throws(Failure)
  func ids(
    _ value: inout [CallID], _ count: inout Int,
    _ field: inout UnsafeMutablePointer<ProtobufCBinaryData>?, _ name: StaticString
  ) throws(Failure)
  func numbers(
    _ value: inout [UInt64], _ count: inout Int, _ field: inout UnsafeMutablePointer<UInt64>?)
  func blobs(
    _ value: inout [[UInt8]], _ count: inout Int,
    _ field: inout UnsafeMutablePointer<ProtobufCBinaryData>?
  ) throws(Failure)
  /// What a later version may have written in a form of its own is refused.
  /// - Parameter form: the lowest that a reader must know; written.
  func format(_ field: inout UInt32, writes form: UInt32, _ kind: FormatKind) throws(Failure)
  /// The error to throw for a fault of what is read.
  func failure(_ fault: Fault) -> Failure

  /// The struct of a message that has to be there.
  func pointer<Message>(
    _ make: (UnsafeMutablePointer<Message>?) -> Void,
    _ field: inout UnsafeMutablePointer<Message>?, _ name: StaticString
  ) throws(Failure) -> UnsafeMutablePointer<Message>
  func optional<Message: Mapping>(
    _ value: inout Message.Value?, _ field: inout UnsafeMutablePointer<Message>?
  ) throws(Failure)
  func array<Message: Mapping>(
    _ value: inout [Message.Value], _ count: inout Int,
    _ field: inout UnsafeMutablePointer<UnsafeMutablePointer<Message>?>?
  ) throws(Failure)
}

/// The C struct of a message, and how it and a Swift value correspond.
protocol Mapping {
  associatedtype Value
  /// What is filled when a message is read.
  static var blank: Value { get }
  /// The generated initialiser.
  static func make(_ m: UnsafeMutablePointer<Self>?)
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Self) throws(C.Failure)
}

/// A message that says all by being there.
protocol EmptyMapping: Mapping where Value == Void {}

extension EmptyMapping {
  static var blank: Void { () }
  static func code<C: Coder>(_: C, _: inout Void, _: inout Self) {}
}

// What is filled when a message is read.

extension CallID {
  static var zero: CallID { CallID(high: 0, low: 0) }
}

extension Timestamp {
  static var zero: Timestamp { Timestamp(microseconds: 0) }
}

extension UserKey {
  static var blank: UserKey { UserKey(app: "", user: "") }
}

enum FormatKind {
  /// On the bus, and in leases: 0 stands for the first format.
  case said
  /// In journals and stores: it always says its format.
  case kept
}

// MARK: What follows from the others

extension Coder {
  @inline(__always)
  func message<Message: Mapping>(
    _ value: inout Message.Value, _ field: inout UnsafeMutablePointer<Message>?,
    _ name: StaticString
  ) throws(Failure) {
    try Message.code(self, &value, &pointer(Message.make, &field, name).pointee)
  }

  /// Reads the message of a oneof's member.
  @inline(__always)
  func read<Message: Mapping>(
    _ field: UnsafeMutablePointer<Message>?
  ) throws(Failure) -> Message.Value {
    var (value, field) = (Message.blank, field)
    try message(&value, &field, "message")
    return value
  }

  /// Writes the message of a oneof's member.
  /// - Returns: the member, as the oneof names it.
  @inline(__always)
  func write<Message: Mapping, Member>(
    _ value: consuming Message.Value, _ field: inout UnsafeMutablePointer<Message>?,
    _ member: Member
  ) throws(Failure) -> Member {
    try message(&value, &field, "message")
    return member
  }

  func device(
    _ value: inout DeviceID, _ field: inout CText?, _ name: StaticString = "device"
  ) throws(Failure) {
    var text = value.text
    try self.text(&text, &field, name)
    if Self.reads { value = DeviceID(text) }
  }

  /// nil is empty.
  func device(
    _ value: inout DeviceID?, _ field: inout CText?, _ name: StaticString = "device"
  ) throws(Failure) {
    var text = value?.text ?? ""
    try self.text(&text, &field, name)
    if Self.reads { value = text.isEmpty ? nil : DeviceID(text) }
  }

  func user(_ value: inout UserKey, _ app: inout CText?, _ user: inout CText?) throws(Failure) {
    var (appText, userText) = (value.app, value.user)
    try text(&appText, &app, "app")
    try text(&userText, &user, "user")
    if Self.reads { value = UserKey(app: appText, user: userText) }
  }

  /// nil is 0.
  func time(_ value: inout Timestamp?, microseconds field: inout Int64) {
    var time = value ?? .zero
    self.time(&time, microseconds: &field)
    if Self.reads { value = time.microseconds == 0 ? nil : time }
  }

  func time(_ value: inout Timestamp?, milliseconds field: inout Int64) {
    var time = value ?? .zero
    self.time(&time, milliseconds: &field)
    if Self.reads { value = time.microseconds == 0 ? nil : time }
  }

  /// nil is 0.
  func known<Value: RawRepresentable<UInt8>, Field: RawRepresentable<UInt32>>(
    _ value: inout Value?, _ field: inout Field, _ name: StaticString
  ) throws(Failure) {
    if Self.reads, field.rawValue == 0 {
      value = nil
      return
    }
    guard var some = value ?? (Self.reads ? Value(rawValue: 1) : nil) else { return }
    try known(&some, &field, name)
    value = some
  }

  func optionalID(
    _ value: inout CallID?, _ field: inout ProtobufCBinaryData, _ name: StaticString
  ) throws(Failure) {
    if Self.reads, field.len == 0 {
      value = nil
      return
    }
    guard var id = value ?? (Self.reads ? .zero : nil) else { return }
    try self.id(&id, &field, name)
    value = id
  }

  /// nil where the times are 0, which no ticket has: no token expires in 1970.
  func ticket(
    _ value: inout SessionTicket?, _ high: inout UInt64, _ low: inout UInt64,
    _ times: inout UInt64, _ key: inout UInt32
  ) {
    var ticket = value ?? SessionTicket(high: 0, low: 0, expires: 0, issued: 0)
    // Both in one number.
    var said = UInt64(ticket.expires) << 32 | UInt64(ticket.issued)
    number(&ticket.high, &high)
    number(&ticket.low, &low)
    number(&said, &times)
    number(&ticket.key, &key)
    guard Self.reads else { return }
    ticket.expires = UInt32(truncatingIfNeeded: said >> 32)
    ticket.issued = UInt32(truncatingIfNeeded: said)
    value = said == 0 ? nil : ticket
  }
}
