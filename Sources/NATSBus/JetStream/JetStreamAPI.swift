package import CallBus
internal import CallWire

/// Questions to JetStream, in its own JSON.
///
/// Messages are read with STREAM.MSG.GET, which only the stream's leader answers, never with
/// DIRECT.GET, which every replica does, the one that lags as well: an old lease, checkpoint or
/// journal's end would be taken for the present one. Journals do not allow direct reads at all;
/// buckets do, for other tools. A leader that was cut off and does not know it yet can still give an
/// old answer for some seconds. Nothing is built on that not happening: what is read of a journal is
/// confirmed by the append that expects it to be the end, records name the ones that they follow,
/// so that a gap shows, and leases and checkpoints change by compare-and-set.
package struct JetStreamAPI: Sendable {
  /// What JetStream answered.
  package struct Reply {
    var json: JSONValue
    /// Its number for the error, such as 10037: no message found.
    var errorCode: UInt64? { json["error"].map { $0["err_code"]?.unsigned ?? 0 } }

    /// The answer, or an error that says what was asked.
    func checked(_ what: String) throws -> JSONValue {
      guard let error = json["error"] else { return json }
      let text = error["description"]?.text ?? "unknown error"
      let sentence = "\(what): JetStream says: \(text) (\(errorCode ?? 0))"
      // As HTTP's: the service is not available now; or servers have yet to find one another.
      let passes = error["code"]?.unsigned == 503 || errorCode == JetStreamAPI.noSuitablePeers
      throw passes ? BusError.notReady(sentence) : .failed(sentence)
    }
  }

  package struct StoredMessage {
    var subject: String
    var sequence: UInt64
    var bytes: [UInt8]
    var isDeletion: Bool
  }

  static let noMessageFound: UInt64 = 10037
  static let streamNotFound: UInt64 = 10059
  static let noSuitablePeers: UInt64 = 10005
  static let streamNameInUse: UInt64 = 10058
  /// Of the header with the expected sequence; the second number is newer servers'.
  static let wrongLastSequence: Set<UInt64> = [10071, 10164]

  /// Of a store operation that failed, for whatever reason: a limit of the stream, a full disk, a
  /// broken one.
  static let storeFailed: Set<UInt64> = [10077]

  let bus: NATSBus
  let timeout: Duration

  init(_ bus: NATSBus) {
    self.bus = bus
    timeout = bus.thread.options.managementTimeout
  }

  /// - Parameter timeout: nil: as long as questions wait.
  func call(
    _ subject: String, _ body: String, timeout: Duration? = nil
  ) async throws -> Reply {
    let reply: BusMessage
    do {
      reply = try await bus.request(
        JetStreamSubject.api + subject, Array(body.utf8), timeout: timeout ?? self.timeout)
    } catch BusError.noResponders {
      throw BusError.notReady(
        "JetStream does not answer \(subject): start nats-server with --jetstream")
    }
    return try Self.parse(reply)
  }

  package static func parse(_ reply: BusMessage) throws -> Reply {
    guard let json = JSONValue(parsing: reply.bytes) else {
      throw BusError.failed("not JSON, on \(reply.subject)")
    }
    return Reply(json: json)
  }

  /// The last message of a subject; nil when there is none.
  func last(stream: String, subject: String) async throws -> StoredMessage? {
    try await message(stream, "{\"last_by_subj\":\(JSONWriter.quoted(subject))}")
  }

  /// The first message of a subject at or behind a sequence; nil when there is none.
  func next(stream: String, subject: String, from sequence: UInt64) async throws -> StoredMessage? {
    try await message(
      stream, "{\"seq\":\(max(1, sequence)),\"next_by_subj\":\(JSONWriter.quoted(subject))}")
  }

  /// nil when it is gone.
  func message(stream: String, sequence: UInt64) async throws -> StoredMessage? {
    try await message(stream, "{\"seq\":\(sequence)}")
  }

  private func message(_ stream: String, _ body: String) async throws -> StoredMessage? {
    let timeout = bus.thread.options.readTimeout
    return try Self.storedMessage(
      await call(JetStreamSubject.message(stream), body, timeout: timeout), stream)
  }

  package static func storedMessage(_ reply: Reply, _ stream: String) throws -> StoredMessage? {
    if reply.errorCode == noMessageFound { return nil }
    let json = try reply.checked("cannot read from \(stream)")
    guard let message = json["message"], let subject = message["subject"]?.text,
      let sequence = message["seq"]?.unsigned,
      let bytes = Base64.bytes(message["data"]?.text ?? ""),
      let headers = Base64.bytes(message["hdrs"]?.text ?? "")
    else { throw BusError.failed("not a message, from \(stream)") }
    let text = String(decoding: headers, as: UTF8.self)
    return StoredMessage(
      subject: subject, sequence: sequence, bytes: bytes,
      isDeletion: text.contains("KV-Operation: DEL") || text.contains("KV-Operation: PURGE"))
  }

  /// Removes the messages that match a subject filter and lie before a sequence.
  func purge(stream: String, filter: String, before sequence: UInt64) async throws {
    // To the server, 0 means no bound at all.
    guard sequence > 0 else { return }
    let body = "{\"filter\":\(JSONWriter.quoted(filter)),\"seq\":\(sequence)}"
    _ = try await call(JetStreamSubject.purge(stream), body).checked("cannot purge \(stream)")
  }

  func information(stream: String) async throws -> JSONValue {
    try await call(JetStreamSubject.information(stream), "").checked("cannot ask for \(stream)")
  }
}
