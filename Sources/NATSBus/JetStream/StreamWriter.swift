internal import CallBus
internal import Synchronization

/// Writes to one stream with acknowledgements: plain messages with a reply address, which is what
/// costs least.
final class StreamWriter: Sendable, ConnectionObserver {
  private let bus: NATSBus
  private let writes: StreamWrites
  private let registration: Registration

  init(_ bus: NATSBus, timeout: Duration) {
    self.bus = bus
    let prefix = bus.newInbox() + "."
    let length = prefix.utf8.count
    let writes = StreamWrites(
      inboxPrefix: prefix, timeout: timeout, capacity: bus.thread.options.streamWritesMax)
    self.writes = writes
    registration = Registration(
      prefix + "*", outbox: bus.thread.outbox,
      handler: .inPlace { message in
        guard let token = message.subjectNumber(after: length) else { return }
        writes.end(token, message.withBytes(Self.result))
      },
      // Which write it was is not told; that none of them is known to be stored is true of all.
      onNoResponders: { writes.endAll("no stream takes the message; is JetStream up?") })
    bus.subscribe(registration)
    bus.thread.observers.withLock { $0.append(self) }
  }

  func write(
    _ subject: String, _ bytes: [UInt8], expecting: UInt64?, isDeletion: Bool = false,
    messageID: String? = nil, completion: @escaping StreamWrites.Completion
  ) {
    guard let token = writes.begin(completion) else {
      fail("too many writes wait", completion)
      return
    }
    let write = StreamWrite(
      table: writes, token: token, subject: subject, bytes: bytes, expecting: expecting,
      isDeletion: isDeletion, messageID: messageID)
    guard !bus.thread.outbox.offer(.write(write)) else { return }
    let text = bus.thread.outbox.isClosed ? "the bus is closed" : "the outbox is full"
    fail(text) { [writes] in writes.end(token, $0) }
  }

  func write(_ subject: String, _ bytes: [UInt8], expecting: UInt64?) async -> AppendResult {
    await withCheckedContinuation { continuation in
      write(subject, bytes, expecting: expecting) { continuation.resume(returning: $0) }
    }
  }

  /// Completions come on the bus's thread, also those of what never got there, unless it has ended.
  private func fail(_ text: String, _ completion: @escaping StreamWrites.Completion) {
    let taken = bus.thread.outbox.run { _ in completion(.unknown(text)) }
    if !taken { completion(.unknown(text)) }
  }

  func expire(now: ContinuousClock.Instant) -> ContinuousClock.Instant? { writes.expire(now: now) }
  func disconnected() { writes.endAll("the connection broke") }
  func reconnected() {}

  /// Reads an acknowledgement: `{"stream":"S","seq":12}`, or with an `error`.
  private static func result(_ bytes: UnsafeBufferPointer<UInt8>) -> AppendResult {
    if find("\"error\":", bytes) == nil, let start = find("\"seq\":", bytes) {
      var sequence: UInt64 = 0
      for digit in bytes[start...].drop(while: { $0 == 32 }).prefix(19) {
        guard (48...57).contains(digit) else { break }
        sequence = sequence * 10 + UInt64(digit - 48)
      }
      if sequence > 0 { return .appended(sequence: sequence) }
    }
    guard let error = JSONValue(parsing: bytes)?["error"] else {
      return .unknown(
        "not an acknowledgement: \(String(decoding: bytes.prefix(200), as: UTF8.self))")
    }
    let code = error["err_code"]?.unsigned ?? 0
    if JetStreamAPI.wrongLastSequence.contains(code) { return .refused }
    // What a stream of ours that has a limit answers when it is full; others have none.
    if JetStreamAPI.streamFull.contains(code) { return .refused }
    return .unknown("JetStream says: \(error["description"]?.text ?? "error") (\(code))")
  }

  /// The index behind the first occurrence of a pattern.
  private static func find(_ pattern: StaticString, _ bytes: UnsafeBufferPointer<UInt8>) -> Int? {
    let length = pattern.utf8CodeUnitCount
    guard bytes.count >= length else { return nil }
    return pattern.withUTF8Buffer { pattern in
      for start in 0...(bytes.count - length) where bytes[start] == pattern[0] {
        if (1..<length).allSatisfy({ bytes[start + $0] == pattern[$0] }) { return start + length }
      }
      return nil
    }
  }
}
