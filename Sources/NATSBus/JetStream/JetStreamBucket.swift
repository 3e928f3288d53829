public import CallBus
internal import Synchronization

/// A key-value bucket in the standard layout of NATS: stream `KV_<bucket>`, one message per key under `$KV.<bucket>.`,
/// deletions as markers.
public final class JetStreamBucket: KeyValueBucket {
  /// The time that `watch` and `entries` wait for all present entries.
  static let initialTimeout: Duration = .seconds(30)

  let bus: NATSBus
  let stream: String
  let prefix: String
  let api: JetStreamAPI
  private let writer: StreamWriter

  fileprivate init(_ bus: NATSBus, _ name: String) {
    self.bus = bus
    stream = JetStreamSubject.stream(ofBucket: name)
    prefix = JetStreamSubject.prefix(ofBucket: name)
    api = JetStreamAPI(bus)
    writer = StreamWriter(bus, timeout: bus.thread.options.managementTimeout)
  }

  public func put(
    _ key: String, _ value: [UInt8], expecting: UInt64?,
    completion: @escaping AppendCompletion
  ) {
    write(key, value, expecting: expecting) { [self] result in
      guard expecting == 0, result == .refused else { return completion(result) }
      overDeletion(key, completion) {
        self.write(key, value, expecting: $0, completion: completion)
      }
    }
  }

  /// A write that expects no entry was refused. If the last entry is a deletion marker, the key does not exist, and
  /// `body` writes again, expecting the marker.
  private func overDeletion(
    _ key: String, _ completion: @escaping AppendCompletion,
    _ body: @escaping @Sendable (_ expecting: UInt64) -> Void
  ) {
    let request = JetStreamAPI.last(subject: prefix + key)
    api.start(JetStreamSubject.message(stream), request) { [self] answer in
      do {
        let last = try JetStreamAPI.storedMessage(try answer.get(), stream)
        guard let last, last.isDeletion else { return completion(.refused) }
        body(last.sequence)
      } catch {
        completion(.unknown("cannot read what the key holds: \(error)"))
      }
    }
  }

  public func delete(_ key: String, expecting: UInt64?, completion: @escaping AppendCompletion) {
    guard isKey(key, completion) else { return }
    mark(key, expecting: expecting) { [self] result in
      guard expecting == 0, result == .refused else { return completion(result) }
      // The marker of an earlier deletion, whose answer was lost, may still be there.
      overDeletion(key, completion) { self.mark(key, expecting: $0, completion) }
    }
  }

  private func mark(_ key: String, expecting: UInt64?, _ completion: @escaping AppendCompletion) {
    writer.write(prefix + key, [], expecting: expecting, isDeletion: true) { [self] result in
      if case .appended(let sequence) = result { forget(key, through: sequence) }
      completion(result)
    }
  }

  /// Removes a deletion's marker, which would otherwise stay for ever. The marker is needed since it is ordered among
  /// the key's writes, which a removal is not. It also notifies watches, unless it is removed before the server
  /// delivers it: a consumer skips removed messages without a gap in its sequence. Later writes stay. Best effort: a
  /// marker that is left is removed when the bucket is next listed.
  private func forget(_ key: String, through sequence: UInt64) {
    let request = JetStreamAPI.purge(filter: prefix + key, before: sequence + 1)
    api.start(JetStreamSubject.purge(stream), request) { _ in }
  }

  private func write(
    _ key: String, _ value: [UInt8], expecting: UInt64?,
    completion: @escaping AppendCompletion
  ) {
    guard isKey(key, completion) else { return }
    writer.write(prefix + key, value, expecting: expecting, completion: completion)
  }

  private func isKey(_ key: String, _ completion: @escaping AppendCompletion)
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
    if !isValid { writer.fail("not a key: '\(key)'", completion) }
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
    var statistics = JournalStatistics()
    statistics.add(try await api.information(stream: stream)["state"])
    return statistics
  }

  public func watch(
    _ filter: String, handler: @escaping EntryHandler
  ) async throws -> any BusSubscription {
    try await follow(filter, heartbeat: BucketWatch.heartbeat, handler: handler)
  }

  /// - Returns: after all present entries.
  private func follow(
    _ filter: String, heartbeat: Duration, handler: @escaping EntryHandler
  ) async throws -> BucketWatch {
    guard SubjectFilter.isValid(filter) else {
      throw BusError.failed("not a filter of keys: '\(filter)'")
    }
    let watch = BucketWatch(self, filter: filter, heartbeat: heartbeat, handler: handler)
    try await watch.start()
    return watch
  }
}

extension NATSBus {
  public func openBucket(_ name: String, _ options: BucketOptions) async throws -> JetStreamBucket {
    let bucket = JetStreamBucket(self, name)
    guard options.createsMissing else {
      try await bucket.api.checkExists(bucket.stream, what: "bucket \(name)")
      return bucket
    }
    try await StreamSpecification(
      name: bucket.stream, subjects: ["\(bucket.prefix)>"], messagesPerSubject: 1,
      replicas: options.replicas, inMemory: options.inMemory, isBucket: true,
      maximumAge: options.maximumAge, bytesMax: options.bytesMax ?? -1
    ).create(bucket.api)
    return bucket
  }
}
