package import CallBus
internal import CallWire

/// Requests to JetStream's JSON API. All functions throw `BusError`.
///
/// Messages are read with STREAM.MSG.GET, which only the stream's leader answers, never with DIRECT.GET, which any
/// replica answers: one that lags would return an old lease, checkpoint or end of a journal. Journals do not allow
/// direct reads at all; buckets do, for other tools. A leader that was partitioned may still give old answers for some
/// seconds. Correctness does not depend on that: the end of a journal is confirmed by the append that expects it,
/// records name the ones that they follow, so that a gap is detected, and leases and checkpoints change by
/// compare-and-set.
///
/// Consumers read from any replica. What they find of a history or a bucket is therefore compared with what the leader
/// has (`JetStreamHistories.messages`, `BucketWatch`).
package struct JetStreamAPI: Sendable {
  /// An answer of JetStream.
  package struct Reply {
    var json: JSONValue
    /// nil: no error.
    var errorCode: BusError.Code? {
      json["error"].map { .jetStream($0["err_code"]?.unsigned ?? 0) }
    }

    /// - Parameter what: what failed, for the error.
    /// - Throws: the error in the answer.
    func checked(_ what: String) throws -> JSONValue {
      guard let error = json["error"] else { return json }
      let text = error["description"]?.text ?? "unknown error"
      let number = error["err_code"]?.unsigned ?? 0
      let sentence = "\(what): JetStream says: \(text) (\(number))"
      let code = BusError.Code.jetStream(number)
      // Service unavailable, as in HTTP; or the servers have not found one another yet.
      let passes = error["code"]?.unsigned == 503 || code == .noSuitablePeers
      throw passes ? BusError.notReady(sentence, code: code) : .failed(sentence, code: code)
    }
  }

  package struct StoredMessage {
    var subject: String
    var sequence: UInt64
    var bytes: [UInt8]
    var isDeletion: Bool
    /// When the server took it, in ISO 8601.
    var time = ""
    var record: StoredRecord { StoredRecord(sequence: sequence, bytes: bytes) }
  }

  let bus: NATSBus
  let timeout: Duration

  init(_ bus: NATSBus) {
    self.bus = bus
    timeout = bus.thread.options.managementTimeout
  }

  /// - Parameter timeout: nil: `managementTimeout`.
  func call(_ subject: String, _ body: String, timeout: Duration? = nil) async throws -> Reply {
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

  /// Sends a request; `completion` is called once, as a rule on the bus's thread.
  func start(
    _ subject: String, _ body: String, timeout: Duration? = nil,
    completion: @escaping @Sendable (Result<Reply, any Error>) -> Void
  ) {
    bus.start(
      JetStreamSubject.api + subject, Array(body.utf8), timeout: timeout ?? self.timeout
    ) { answer in
      completion(
        Result {
          guard let reply = try answer.get().first else { throw BusError.timeout }
          return try Self.parse(reply)
        })
    }
  }

  /// - Parameter what: names the stream in errors.
  /// - Throws: `BusError.notReady` if the stream does not exist.
  func checkExists(_ stream: String, what: String) async throws {
    let reply = try await call(JetStreamSubject.information(stream), "")
    if reply.errorCode == .streamNotFound {
      throw BusError.notReady(
        "there is no \(what) yet: a coordinator makes it", code: .streamNotFound)
    }
    try Self.checkIsMade(reply.checked("cannot open the \(what)"), what: what)
  }

  /// - Throws: `BusError.notReady` if the stream is being made.
  static func checkIsMade(_ information: JSONValue, what: String) throws {
    if isBeingMade(information) { throw BusError.notReady("the \(what) is being made") }
  }

  /// Whether the server names a stream whose store it has not made yet. A message that is read from such a stream kills
  /// nats-server 2.9 (`jsMsgGetRequest`: nil pointer dereference).
  ///
  /// - Parameter information: the answer to STREAM.INFO or STREAM.CREATE. The server sets `created` under the lock under
  ///   which it makes the store; before that it is the zero of Go's time.
  package static func isBeingMade(_ information: JSONValue) -> Bool {
    information["created"]?.text?.hasPrefix("0001-01-01T") ?? false
  }

  /// - Throws: `BusError.failed`, if the answer is not JSON.
  package static func parse(_ reply: BusMessage) throws -> Reply {
    guard let json = JSONValue(parsing: reply.bytes) else {
      throw BusError.failed("not JSON, on \(reply.subject)")
    }
    return Reply(json: json)
  }

  /// The last message of a subject; nil if there is none.
  func last(stream: String, subject: String) async throws -> StoredMessage? {
    try await message(stream, Self.last(subject: subject))
  }

  static func last(subject: String) -> String {
    "{\"last_by_subj\":\(JSONWriter.quoted(subject))}"
  }

  /// The first message of a subject at or after a sequence; nil if there is none.
  func next(stream: String, subject: String, from sequence: UInt64) async throws -> StoredMessage? {
    try await message(stream, Self.next(subject: subject, from: sequence))
  }

  static func next(subject: String, from sequence: UInt64) -> String {
    "{\"seq\":\(max(1, sequence)),\"next_by_subj\":\(JSONWriter.quoted(subject))}"
  }

  /// The message with a sequence; nil if it was removed.
  func message(stream: String, sequence: UInt64) async throws -> StoredMessage? {
    try await message(stream, "{\"seq\":\(sequence)}")
  }

  private func message(_ stream: String, _ body: String) async throws -> StoredMessage? {
    let timeout = bus.thread.options.readTimeout
    return try Self.storedMessage(
      await call(JetStreamSubject.message(stream), body, timeout: timeout), stream)
  }

  package static func storedMessage(_ reply: Reply, _ stream: String) throws -> StoredMessage? {
    if reply.errorCode == .noMessageFound { return nil }
    // A server of a cluster may not know yet of a stream that has just been made.
    if reply.errorCode == .streamNotFound {
      throw BusError.notReady("there is no stream \(stream)", code: .streamNotFound)
    }
    let json = try reply.checked("cannot read from \(stream)")
    guard let message = json["message"], let subject = message["subject"]?.text,
      let sequence = message["seq"]?.unsigned,
      let bytes = Base64.bytes(message["data"]?.text ?? ""),
      let headers = Base64.bytes(message["hdrs"]?.text ?? "")
    else { throw BusError.failed("not a message, from \(stream)") }
    let text = String(decoding: headers, as: UTF8.self)
    return StoredMessage(
      subject: subject, sequence: sequence, bytes: bytes,
      isDeletion: text.contains("KV-Operation: DEL") || text.contains("KV-Operation: PURGE"),
      time: message["time"]?.text ?? "")
  }

  /// Removes the messages that match a subject filter and precede a sequence.
  func purge(stream: String, filter: String, before sequence: UInt64) async throws {
    // The server takes 0 for no bound at all.
    guard sequence > 0 else { return }
    let body = Self.purge(filter: filter, before: sequence)
    _ = try await call(JetStreamSubject.purge(stream), body).checked("cannot purge \(stream)")
  }

  static func purge(filter: String, before sequence: UInt64) -> String {
    "{\"filter\":\(JSONWriter.quoted(filter)),\"seq\":\(sequence)}"
  }

  /// The sequences of the first and the last message; nil if there is none.
  /// - Throws: `BusError.notReady` if there is no such stream.
  func range(of stream: String) async throws -> ClosedRange<UInt64>? {
    let reply = try await call(JetStreamSubject.information(stream), "")
    if reply.errorCode == .streamNotFound {
      throw BusError.notReady("there is no stream \(stream)", code: .streamNotFound)
    }
    let state = try reply.checked("cannot ask for \(stream)")["state"]
    let (first, last) = (state?["first_seq"]?.unsigned ?? 0, state?["last_seq"]?.unsigned ?? 0)
    // An empty stream begins behind its last message.
    return last > 0 && first <= last ? max(1, first)...last : nil
  }

  func information(stream: String) async throws -> JSONValue {
    try await call(JetStreamSubject.information(stream), "").checked("cannot ask for \(stream)")
  }
}

extension JournalStatistics {
  /// Adds the size of a stream, from its `state`.
  mutating func add(_ state: JSONValue?) {
    messages += state?["messages"]?.unsigned ?? 0
    bytes += state?["bytes"]?.unsigned ?? 0
  }
}

/// The subjects of JetStream's API. `NATSPermissions` derives the roles' permissions from them.
enum JetStreamSubject {
  /// The prefix of all of them.
  static let api = "$JS.API."
  static let list = "STREAM.LIST"

  static func create(_ stream: String) -> String { "STREAM.CREATE.\(stream)" }
  static func update(_ stream: String) -> String { "STREAM.UPDATE.\(stream)" }
  static func information(_ stream: String) -> String { "STREAM.INFO.\(stream)" }
  static func message(_ stream: String) -> String { "STREAM.MSG.GET.\(stream)" }
  static func purge(_ stream: String) -> String { "STREAM.PURGE.\(stream)" }
  /// An ephemeral consumer, named by the server.
  static func follow(_ stream: String) -> String { "CONSUMER.CREATE.\(stream)" }
  static func unfollow(_ stream: String, _ consumer: String) -> String {
    "CONSUMER.DELETE.\(stream).\(consumer)"
  }
  /// The durable consumer of a work queue's lane.
  static func serve(_ stream: String, _ lane: String) -> String {
    "CONSUMER.DURABLE.CREATE.\(stream).\(lane)"
  }
  static func next(_ stream: String, _ lane: String) -> String {
    "CONSUMER.MSG.NEXT.\(stream).\(lane)"
  }

  /// The stream and the subjects of a bucket.
  static func stream(ofBucket name: String) -> String { "KV_\(name)" }
  static func prefix(ofBucket name: String) -> String { "$KV.\(name)." }
}
