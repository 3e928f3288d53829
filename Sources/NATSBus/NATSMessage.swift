internal import CNATS
internal import CallBus

/// Messages on their way to be freed. The library frees them on a thread of its own, which it wakes
/// for each; waking it costs more than all else that is done with a small message, so they go there
/// in lots. Belongs to one connection's thread.
final class MessageGraveyard {
  private var raws: [OpaquePointer] = []
  private var bytes = 0
  private static let countMax = 512
  private static let bytesMax = 1 << 20

  init() { raws.reserveCapacity(Self.countMax) }

  deinit { empty() }

  func take(_ raw: OpaquePointer) {
    raws.append(raw)
    bytes += Int(natsMsg_GetDataLength(raw))
    if raws.count == Self.countMax || bytes > Self.bytesMax { empty() }
  }

  private func empty() {
    for raw in raws { natsMsg_Destroy(raw) }
    raws.removeAll(keepingCapacity: true)
    bytes = 0
  }
}

/// A message of the library. Owns it.
struct NATSMessage: ~Copyable {
  private let raw: OpaquePointer
  private let graveyard: MessageGraveyard

  init(owning raw: OpaquePointer, _ graveyard: MessageGraveyard) {
    self.raw = raw
    self.graveyard = graveyard
  }

  deinit { graveyard.take(raw) }

  var subject: String { natsMsg_GetSubject(raw).map { String(cString: $0) } ?? "" }
  var replyTo: String? { natsMsg_GetReply(raw).map { String(cString: $0) } }

  func header(_ name: String) -> String? {
    var value: UnsafePointer<CChar>?
    guard natsMsgHeader_Get(raw, name, &value) == NATS_OK, let value else { return nil }
    return String(cString: value)
  }

  /// The payload, valid inside `body` only.
  func withBytes<Value>(_ body: (UnsafeBufferPointer<UInt8>) throws -> Value) rethrows -> Value {
    let count = Int(natsMsg_GetDataLength(raw))
    guard count > 0, let data = natsMsg_GetData(raw) else {
      return try body(UnsafeBufferPointer(start: nil, count: 0))
    }
    return try data.withMemoryRebound(to: UInt8.self, capacity: count) {
      try body(UnsafeBufferPointer(start: $0, count: count))
    }
  }

  /// The number behind the `length` first bytes of the subject; nil when there is none.
  func subjectNumber(after length: Int) -> UInt64? {
    guard let subject = natsMsg_GetSubject(raw) else { return nil }
    var value: UInt64 = 0
    var cursor = subject + length
    guard cursor.pointee != 0 else { return nil }
    while cursor.pointee != 0 {
      guard (48...57).contains(cursor.pointee) else { return nil }
      let (product, overflow) = value.multipliedReportingOverflow(by: 10)
      guard !overflow else { return nil }
      value = product &+ UInt64(cursor.pointee - 48)
      cursor += 1
    }
    return value
  }

  /// A copy. `subject` is given where it is known, which saves making it anew.
  func copy(subject known: String?) -> BusMessage {
    BusMessage(
      subject: known ?? subject, replyTo: replyTo, bytes: withBytes { Array($0) })
  }
}

/// What the library says of a call that failed on this thread.
func natsErrorText(_ status: natsStatus) -> String {
  var last = NATS_OK
  if let detail = nats_GetLastError(&last), last == status, detail.pointee != 0 {
    return withoutCredentials(text: String(cString: detail))
  }
  return natsStatus_GetText(status).map { String(cString: $0) } ?? "status \(status.rawValue)"
}

/// The library's words without what stands before an `@` in any of them: it may quote an address.
func withoutCredentials(text: String) -> String {
  guard text.contains("@") else { return text }
  return text.split(separator: " ", omittingEmptySubsequences: false)
    .map { word in word.lastIndex(of: "@").map { "***" + word[$0...] } ?? String(word) }
    .joined(separator: " ")
}
