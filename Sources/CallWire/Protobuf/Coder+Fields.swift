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

/// Fields of messages, in both directions. Names are those of errors.
extension Coder {
  typealias CText = UnsafeMutablePointer<CChar>

  // MARK: Numbers

  @inline(__always)
  func number<Number: FixedWidthInteger>(_ value: inout Number, _ field: inout Number) {
    if Self.reads { value = field } else { field = value }
  }

  @inline(__always)
  func flag(_ value: inout Bool, _ field: inout protobuf_c_boolean) {
    if Self.reads { value = field != 0 } else { field = value ? 1 : 0 }
  }

  @inline(__always)
  func time(_ value: inout Timestamp, microseconds field: inout Int64) {
    if Self.reads { value = Timestamp(microseconds: field) } else { field = value.microseconds }
  }

  /// A time that does not fit is as far away as can be.
  func time(_ value: inout Timestamp, milliseconds field: inout Int64) {
    guard Self.reads else {
      field = value.milliseconds
      return
    }
    let (product, overflow) = field.multipliedReportingOverflow(by: 1000)
    value = Timestamp(microseconds: overflow ? (field < 0 ? .min : .max) / 1000 * 1000 : product)
  }

  /// nil is 0.
  func time(_ value: inout Timestamp?, microseconds field: inout Int64) {
    var time = value ?? .zero
    self.time(&time, microseconds: &field)
    if Self.reads { value = time == .zero ? nil : time }
  }

  func time(_ value: inout Timestamp?, milliseconds field: inout Int64) {
    var time = value ?? .zero
    self.time(&time, milliseconds: &field)
    if Self.reads { value = time == .zero ? nil : time }
  }

  /// One of the cases there are.
  @inline(__always)
  func known<Value: RawRepresentable<UInt8>, Field: RawRepresentable<UInt32>>(
    _ value: inout Value, _ field: inout Field, _ name: StaticString
  ) throws(Failure) {
    guard Self.reads else {
      // A C enum takes any number.
      field = unsafe Field(rawValue: UInt32(value.rawValue)).unsafelyUnwrapped
      return
    }
    guard let raw = UInt8(exactly: field.rawValue), let known = Value(rawValue: raw) else {
      throw failure(.field(String(describing: name)))
    }
    value = known
  }

  /// One of the cases there are. To a client a case of a later version is `later`.
  func known<Value: RawRepresentable<UInt8>, Field: RawRepresentable<UInt32>>(
    _ value: inout Value, _ field: inout Field, _ name: StaticString, later: Value
  ) throws(Failure) {
    guard Self.reads, isDeviceProtocol else { return try known(&value, &field, name) }
    value = UInt8(exactly: field.rawValue).flatMap(Value.init) ?? later
  }

  /// nil is 0. To a client a case of a later version is `later`.
  func known<Value: RawRepresentable<UInt8>, Field: RawRepresentable<UInt32>>(
    _ value: inout Value?, _ field: inout Field, _ name: StaticString, later: Value?
  ) throws(Failure) {
    guard Self.reads, isDeviceProtocol, field.rawValue != 0 else {
      return try known(&value, &field, name)
    }
    value = UInt8(exactly: field.rawValue).flatMap(Value.init) ?? later
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

  /// Refuses a message that a later version may have written in a form of its own.
  /// - Parameter format: the lowest that a reader must know; written.
  func format(_ field: inout UInt32, writes format: UInt32, _ kind: FormatKind) throws(Failure) {
    guard Self.reads else {
      field = format
      return
    }
    if kind == .kept, field == 0 { throw failure(.field("format")) }
    guard field <= ClusterCodec.format else { throw failure(.laterFormat(field)) }
  }

  /// Further things that a later version may ask for are kept as they are.
  func subscriptions(_ value: inout Subscriptions, _ field: inout UInt32) {
    var said = UInt32(value.rawValue)
    number(&said, &field)
    if Self.reads { value = Subscriptions(rawValue: UInt8(truncatingIfNeeded: said)) }
  }

  // MARK: Texts

  /// Writes text up to its first NUL, as C has it; the rules for what comes in refuse such text.
  @safe @inline(__always)
  func text(_ value: inout String, _ field: inout CText?, _ name: StaticString) throws(Failure) {
    if Self.reads {
      value = unsafe try read(field, name)
    } else if !value.isEmpty {
      unsafe field = unsafe write(value)
    }  // Else it is already the empty string.
  }

  @safe
  func texts(
    _ value: inout [String], _ count: inout Int, _ field: inout UnsafeMutablePointer<CText?>?,
    _ name: StaticString
  ) throws(Failure) {
    try elements(
      &value, &count, &field, read: { (text) throws(Failure) in unsafe try read(text, name) },
      write: { unsafe write($0) })
  }

  /// Copies the text, which the arena owns, into a String.
  private func read(_ pointer: CText?, _ name: StaticString) throws(Failure) -> String {
    guard let pointer = unsafe pointer else { return "" }
    let utf8 = unsafe Arena.text(UnsafeRawPointer(pointer).assumingMemoryBound(to: UInt8.self))
    // The initialiser for any encoding costs three times as much. This one stops at a NUL.
    if let text = unsafe String(validatingCString: pointer) {
      if text.utf8.count == utf8.count { return text }
      if isDeviceProtocol, let text = unsafe String(validating: utf8, as: UTF8.self) { return text }
    }
    throw failure(.field(String(describing: name)))
  }

  /// Copies the text into the arena.
  private func write(_ text: String) -> CText {
    func copy(_ utf8: UnsafeBufferPointer<UInt8>) -> CText {
      let copy = unsafe arena.bytes(utf8.count + 1)
      if let base = utf8.baseAddress { unsafe memcpy(copy, base, utf8.count) }
      unsafe copy[utf8.count] = 0
      return unsafe UnsafeMutableRawPointer(copy).assumingMemoryBound(to: CChar.self)
    }
    if let copy = unsafe text.utf8.withContiguousStorageIfAvailable(copy) { return unsafe copy }
    var text = text
    return unsafe text.withUTF8(copy)
  }

  // MARK: Ids

  @safe @inline(__always)
  func id(_ value: inout CallID, _ field: inout ProtobufCBinaryData, _ name: StaticString)
    throws(Failure)
  {
    if Self.reads { value = try read(field, name) } else { unsafe field = write(value) }
  }

  /// nil is empty.
  @safe
  func optionalID(_ value: inout CallID?, _ field: inout ProtobufCBinaryData, _ name: StaticString)
    throws(Failure)
  {
    if Self.reads {
      value = unsafe field.len == 0 ? nil : try read(field, name)
    } else if let value {
      unsafe field = write(value)
    }
  }

  @safe
  func ids(
    _ value: inout [CallID], _ count: inout Int,
    _ field: inout UnsafeMutablePointer<ProtobufCBinaryData>?, _ name: StaticString
  ) throws(Failure) {
    try elements(
      &value, &count, &field, read: { (id) throws(Failure) in try read(id, name) },
      write: { write($0) })
  }

  @safe
  func read(_ bytes: ProtobufCBinaryData, _ name: StaticString) throws(Failure) -> CallID {
    if let id = CallID(bytes) { return id }
    let name = String(describing: name)
    throw unsafe failure(bytes.len == 0 ? .missing(name) : .field(name))
  }

  /// Copies an id into the arena.
  @safe
  func write(_ call: CallID) -> ProtobufCBinaryData {
    let copy = unsafe arena.bytes(16)
    unsafe UnsafeMutableRawPointer(copy).storeBytes(of: call.high.bigEndian, as: UInt64.self)
    unsafe UnsafeMutableRawPointer(copy + 8).storeBytes(of: call.low.bigEndian, as: UInt64.self)
    return unsafe ProtobufCBinaryData(len: 16, data: copy)
  }

  @safe
  func device(_ value: inout DeviceID, _ field: inout CText?, _ name: StaticString = "device")
    throws(Failure)
  {
    var text = value.text
    try self.text(&text, &field, name)
    if Self.reads { value = DeviceID(text) }
  }

  /// nil is empty.
  @safe
  func device(_ value: inout DeviceID?, _ field: inout CText?, _ name: StaticString = "device")
    throws(Failure)
  {
    var text = value?.text ?? ""
    try self.text(&text, &field, name)
    if Self.reads { value = text.isEmpty ? nil : DeviceID(text) }
  }

  @safe
  func user(_ value: inout UserKey, _ app: inout CText?, _ user: inout CText?) throws(Failure) {
    var (appText, userText) = (value.app, value.user)
    try text(&appText, &app, "app")
    try text(&userText, &user, "user")
    if Self.reads { value = UserKey(app: appText, user: userText) }
  }

  /// nil where the times are 0, which no ticket has: no token expires in 1970.
  func ticket(
    _ value: inout SessionTicket?, _ high: inout UInt64, _ low: inout UInt64, _ times: inout UInt64,
    _ key: inout UInt32
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

  /// nil is two zeros.
  func secret(_ value: inout EdgeSecret?, _ high: inout UInt64, _ low: inout UInt64) {
    var secret = value ?? EdgeSecret(high: 0, low: 0)
    number(&secret.high, &high)
    number(&secret.low, &low)
    if Self.reads { value = secret.high | secret.low == 0 ? nil : secret }
  }
}

extension CallID {
  /// Reads the 16 bytes of an id, which the arena owns; nil for any other number of bytes.
  @safe
  init?(_ bytes: ProtobufCBinaryData) {
    guard unsafe bytes.len == 16, let data = unsafe bytes.data else { return nil }
    let raw = UnsafeRawPointer(data)
    unsafe self.init(
      high: UInt64(bigEndian: raw.loadUnaligned(as: UInt64.self)),
      low: UInt64(bigEndian: raw.loadUnaligned(fromByteOffset: 8, as: UInt64.self)))
  }
}

enum FormatKind {
  /// On the bus, and in leases: 0 stands for the first format.
  case said
  /// In journals and stores: it always says its format.
  case kept
}
