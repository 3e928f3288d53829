internal import CNATS
internal import CallBus

/// Frees messages in batches. The library frees each on a thread of its own, and waking that thread costs more than
/// everything else that is done with a small message. Used by one connection's thread.
///
/// `@safe`: owns the pointers, and passes each to the library once.
@safe final class MessageReclaimer {
  private var raws: [OpaquePointer] = unsafe []
  private var bytes = 0
  private static let countMax = 512
  private static let bytesMax = 1 << 20

  init() { unsafe raws.reserveCapacity(Self.countMax) }

  deinit { free() }

  fileprivate func reclaim(_ raw: OpaquePointer) {
    unsafe raws.append(raw)
    bytes += unsafe Int(natsMsg_GetDataLength(raw))
    if unsafe raws.count == Self.countMax || bytes > Self.bytesMax { free() }
  }

  private func free() {
    while let raw = unsafe raws.popLast() { unsafe natsMsg_Destroy(raw) }
    bytes = 0
  }
}

/// A message of the library, which it owns.
@safe struct NATSMessage: ~Copyable {
  let raw: OpaquePointer
  private let reclaimer: MessageReclaimer

  init(owning raw: OpaquePointer, _ reclaimer: MessageReclaimer) {
    unsafe self.raw = raw
    self.reclaimer = reclaimer
  }

  /// A message to publish. The library copies the bytes.
  init(
    _ subject: String, replyTo: String, _ bytes: [UInt8], _ reclaimer: MessageReclaimer
  ) throws(LibraryError) {
    var raw: OpaquePointer?
    let status = unsafe bytes.withUnsafeBytes { buffer in
      let data = unsafe buffer.baseAddress?.assumingMemoryBound(to: CChar.self)
      return unsafe natsMsg_Create(&raw, subject, replyTo, data, Int32(clamping: buffer.count))
    }
    guard status == NATS_OK, let raw = unsafe raw else { throw LibraryError(status: status) }
    unsafe self.init(owning: raw, reclaimer)
  }

  deinit { unsafe reclaimer.reclaim(raw) }

  var subject: String { unsafe natsMsg_GetSubject(raw).map { unsafe String(cString: $0) } ?? "" }
  var replyTo: String? { unsafe natsMsg_GetReply(raw).map { unsafe String(cString: $0) } }
  var byteCount: Int { unsafe Int(natsMsg_GetDataLength(raw)) }

  func header(_ name: String) -> String? {
    var value: UnsafePointer<CChar>?
    guard unsafe natsMsgHeader_Get(raw, name, &value) == NATS_OK, let value = unsafe value else {
      return nil
    }
    return unsafe String(cString: value)
  }

  func setHeader(_ name: String, _ value: String) throws(LibraryError) {
    let status = unsafe natsMsgHeader_Set(raw, name, value)
    guard status == NATS_OK else { throw LibraryError(status: status) }
  }

  func withBytes<Value>(_ body: (Swift.Span<UInt8>) throws -> Value) rethrows -> Value {
    guard let data = unsafe natsMsg_GetData(raw), byteCount > 0 else {
      return try body(Swift.Span())
    }
    return try unsafe data.withMemoryRebound(to: UInt8.self, capacity: byteCount) {
      try body(unsafe Swift.Span(_unsafeStart: $0, count: byteCount))
    }
  }

  var bytes: [UInt8] {
    guard let data = unsafe natsMsg_GetData(raw) else { return [] }
    return unsafe data.withMemoryRebound(to: UInt8.self, capacity: byteCount) {
      unsafe Array(UnsafeBufferPointer(start: $0, count: byteCount))
    }
  }

  /// The number that follows the first `length` bytes of the subject; nil if there is none.
  func subjectNumber(after length: Int) -> UInt64? {
    guard let subject = unsafe natsMsg_GetSubject(raw) else { return nil }
    var value: UInt64 = 0
    var cursor = unsafe subject + length
    guard unsafe cursor.pointee != 0 else { return nil }
    while case let digit = unsafe cursor.pointee, digit != 0 {
      guard (48...57).contains(digit) else { return nil }
      let (product, overflow) = value.multipliedReportingOverflow(by: 10)
      guard !overflow else { return nil }
      value = product &+ UInt64(digit - 48)
      unsafe cursor += 1
    }
    return value
  }

  /// - Parameter known: the subject, if it is known: saves creating the string.
  func copy(subject known: String?) -> BusMessage {
    BusMessage(subject: known ?? subject, replyTo: replyTo, bytes: bytes)
  }
}
