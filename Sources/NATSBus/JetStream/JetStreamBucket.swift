public import CallBus
internal import CallWire
internal import Synchronization

/// A key-value bucket in the layout that all NATS tools know: stream `KV_<bucket>`, one message per
/// key under `$KV.<bucket>.`, deletions as markers.
public final class JetStreamBucket: KeyValueBucket {
  /// How long `watch` and `entries` wait for all present entries.
  static let initialTimeout: Duration = .seconds(30)

  let bus: NATSBus
  let stream: String
  let prefix: String
  private let api: JetStreamAPI
  private let writer: StreamWriter

  static func open(_ bus: NATSBus, _ name: String, _ options: BucketOptions) async throws
    -> JetStreamBucket
  {
    let bucket = JetStreamBucket(bus, name)
    guard options.createsMissing else {
      let reply = try await bucket.api.call(JetStreamSubject.information(bucket.stream), "")
      if reply.errorCode == JetStreamAPI.streamNotFound {
        throw BusError.notReady("there is no bucket \(name) yet: a coordinator makes it")
      }
      _ = try reply.checked("cannot open the bucket \(name)")
      return bucket
    }
    try await StreamSpecification(
      name: bucket.stream, subjects: ["\(bucket.prefix)>"], messagesPerSubject: 1,
      replicas: options.replicas, inMemory: options.inMemory, isBucket: true,
      maximumAge: options.maximumAge, bytesMax: options.bytesMax ?? -1
    ).create(bucket.api)
    return bucket
  }

  private init(_ bus: NATSBus, _ name: String) {
    self.bus = bus
    stream = JetStreamSubject.stream(ofBucket: name)
    prefix = JetStreamSubject.prefix(ofBucket: name)
    api = JetStreamAPI(bus)
    writer = StreamWriter(bus, timeout: bus.thread.options.managementTimeout)
  }

  public func put(
    _ key: String, _ value: [UInt8], expecting: UInt64?,
    completion: @escaping @Sendable (AppendResult) -> Void
  ) {
    guard expecting == 0 else {
      write(key, value, expecting: expecting, completion: completion)
      return
    }
    write(key, value, expecting: 0) { [self] result in
      guard result == .refused else { return completion(result) }
      overDeletion(key, completion) {
        self.write(key, value, expecting: $0, completion: completion)
      }
    }
  }

  /// The key has an entry: if that is a deletion marker, the key does not exist all the same, and
  /// `body` writes behind that.
  private func overDeletion(
    _ key: String, _ completion: @escaping @Sendable (AppendResult) -> Void,
    _ body: @escaping @Sendable (_ expecting: UInt64) -> Void
  ) {
    let question = "{\"last_by_subj\":\(JSONWriter.quoted(prefix + key))}"
    bus.start(
      JetStreamSubject.api + JetStreamSubject.message(stream), Array(question.utf8),
      timeout: api.timeout
    ) { [self] answer in
      do {
        let reply = try answer.get().first.map(JetStreamAPI.parse)
        let last = try reply.flatMap { try JetStreamAPI.storedMessage($0, stream) }
        guard let last, last.isDeletion else { return completion(.refused) }
        body(last.sequence)
      } catch {
        completion(.unknown("cannot read what the key holds: \(error)"))
      }
    }
  }

  public func delete(
    _ key: String, expecting: UInt64?, completion: @escaping @Sendable (AppendResult) -> Void
  ) {
    guard isKey(key, completion) else { return }
    mark(key, expecting: expecting) { [self] result in
      guard expecting == 0, result == .refused else { return completion(result) }
      // The marker of an earlier deletion, whose answer was lost, may be there still.
      overDeletion(key, completion) { self.mark(key, expecting: $0, completion) }
    }
  }

  private func mark(
    _ key: String, expecting: UInt64?, _ completion: @escaping @Sendable (AppendResult) -> Void
  ) {
    writer.write(prefix + key, [], expecting: expecting, isDeletion: true) { [self] result in
      if case .appended(let sequence) = result { forget(key, through: sequence) }
      completion(result)
    }
  }

  /// Removes a deletion's marker, which else would stay for ever. It was needed because a deletion is
  /// ordered among the writes of its key as a removal is not; and it tells those who watch, if the server
  /// got around to it: a consumer passes over what is removed, without a gap in its numbers. What was
  /// written since stays. Best effort: a marker that is left behind goes when the bucket is next listed.
  private func forget(_ key: String, through sequence: UInt64) {
    let body =
      "{\"filter\":\(JSONWriter.quoted(prefix + key)),\"seq\":\(sequence + 1)}"
    let question = JetStreamSubject.api + JetStreamSubject.purge(stream)
    bus.start(question, Array(body.utf8), timeout: api.timeout) { _ in }
  }

  private func write(
    _ key: String, _ value: [UInt8], expecting: UInt64?,
    completion: @escaping @Sendable (AppendResult) -> Void
  ) {
    guard isKey(key, completion) else { return }
    writer.write(prefix + key, value, expecting: expecting, completion: completion)
  }

  private func isKey(_ key: String, _ completion: @escaping @Sendable (AppendResult) -> Void)
    -> Bool
  {
    let isValid =
      SubjectFilter.isValid(key)
      && key.utf8.allSatisfy { byte in
        switch byte {
        case 48...57, 65...90, 97...122, 45, 47, 95, 61, 46: true
        default: false
        }
      }
    if !isValid {
      let taken = bus.thread.outbox.run { _ in completion(.unknown("not a key: '\(key)'")) }
      if !taken { completion(.unknown("the bus is closed")) }
    }
    return isValid
  }

  public func get(_ key: String) async throws -> KeyValueEntry? {
    guard let last = try await api.last(stream: stream, subject: prefix + key), !last.isDeletion
    else { return nil }
    return KeyValueEntry(key: key, value: last.bytes, revision: last.sequence)
  }

  public func entries(matching filter: String) async throws -> [KeyValueEntry] {
    let found = Mutex<[String: KeyValueEntry]>([:])
    let watch = try await follow(filter, heartbeat: BucketWatch.heartbeatOfListing) { entry in
      found.withLock { $0[entry.key] = entry }
    }
    watch.cancel()
    let all = found.withLock { Array($0.values) }
    for entry in all where entry.value == nil { forget(entry.key, through: entry.revision) }
    return all.filter { $0.value != nil }.sorted { $0.revision < $1.revision }
  }

  public func statistics() async throws -> JournalStatistics {
    let state = try await api.information(stream: stream)["state"]
    var statistics = JournalStatistics()
    statistics.messages = state?["messages"]?.unsigned ?? 0
    statistics.bytes = state?["bytes"]?.unsigned ?? 0
    return statistics
  }

  public func watch(
    _ filter: String, handler: @escaping @Sendable (KeyValueEntry) -> Void
  ) async throws -> any BusSubscription {
    try await follow(filter, heartbeat: BucketWatch.heartbeat, handler: handler)
  }

  /// - Returns: once all that is present was handed over.
  private func follow(
    _ filter: String, heartbeat: Duration, handler: @escaping @Sendable (KeyValueEntry) -> Void
  ) async throws -> BucketWatch {
    guard SubjectFilter.isValid(filter) else {
      throw BusError.failed("not a filter of keys: '\(filter)'")
    }
    let watch = BucketWatch(self, filter: filter, heartbeat: heartbeat, handler: handler)
    try await withTaskCancellationHandler {
      try await withCheckedThrowingContinuation { continuation in
        watch.start { continuation.resume(with: $0) }
      }
    } onCancel: {
      watch.cancel()
    }
    return watch
  }
}
