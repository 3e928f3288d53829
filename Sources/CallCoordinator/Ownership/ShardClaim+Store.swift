internal import CallBus
internal import CallCore
internal import CallTelemetry
internal import CallWire
internal import Logging

/// Reads of a claim from the store.
extension ShardClaim {
  func result<Value>(_ body: () async throws(Failure) -> Value) async -> Result<Value, Failure> {
    do throws(Failure) { return .success(try await body()) } catch { return .failure(error) }
  }

  func journalEnd() async throws(Failure) -> StoredRecord? {
    try await reading { try await dependencies.journal.last(shard: shard) }
  }

  func checkpoints<Value>(
    _ body: (CheckpointStore) async throws(CheckpointStore.Failure) -> Value
  ) async throws(Failure) -> Value {
    do throws(CheckpointStore.Failure) {
      return try await body(dependencies.checkpoints)
    } catch {
      switch error {
      case .outdated: throw .taken
      case .unreadable(let what): throw .unreadable(Unreadable(.checkpoint, what))
      case .unavailable(let why): throw .unavailable(why)
      }
    }
  }

  func checkpointNow() async throws(Failure) -> (Checkpoint, revision: UInt64)? {
    try await checkpoints { (store) async throws(CheckpointStore.Failure) in
      try await store.read(shard: shard)
    }
  }

  func checkpointRevision() async throws(Failure) -> UInt64 {
    try await checkpoints { (store) async throws(CheckpointStore.Failure) in
      try await store.revision(shard: shard)
    }
  }

  /// Reads the registrations before the shard is fenced. They are used only if the last owner parted, which the journal
  /// shows: a lease is also released by a node that took it from a living owner and could not use it.
  func registrations(ahead lease: Lease?) async -> StoredRegistrations? {
    guard let lease, lease.released else { return nil }
    return try? await registrations()
  }

  func registrations() async throws(Failure) -> StoredRegistrations {
    let bucket = dependencies.registrations
    async let readRules = result { () async throws(Failure) in
      try await reading { try await bucket.entries(matching: Subjects.rulesFilter(shard: shard)) }
    }
    let entries = try await reading { try await bucket.entries(matching: "\(shard).>") }
    var found = StoredRegistrations()
    add(rules: try await readRules.get(), to: &found)
    for entry in entries {
      guard let value = entry.value else { continue }
      do {
        found.add(try ClusterCodec.registration(value), entry.revision)
      } catch {
        // One unreadable registration must not stop the whole shard.
        dependencies.metrics.registrationsUnreadable.increment()
        dependencies.logger.error(
          "A registration cannot be read: its device is not woken.",
          metadata: .keys([.shard: "\(shard)", .key: "\(entry.key)", .error: "\(error)"]))
      }
    }
    return found
  }

  private func add(rules entries: [KeyValueEntry], to found: inout StoredRegistrations) {
    for entry in entries {
      guard let value = entry.value else { continue }
      do {
        let stored = try ClusterCodec.rules(value)
        found.rules[stored.user] = stored.rules
        found.revisions[RegistrationWrites.Key(stored.user, nil)] = entry.revision
      } catch {
        dependencies.metrics.registrationsUnreadable.increment()
        dependencies.logger.error(
          "A user's rules cannot be read: calls ring as if there were none.",
          metadata: .keys([.shard: "\(shard)", .key: "\(entry.key)", .error: "\(error)"]))
      }
    }
  }

  /// The registrations of a shard, its users' rules, and the revisions of their keys.
  struct StoredRegistrations {
    var all: [Registration] = []
    var rules: [UserKey: UserRules] = [:]
    var revisions: [RegistrationWrites.Key: UInt64] = [:]

    mutating func add(_ registration: Registration, _ revision: UInt64) {
      all.append(registration)
      revisions[RegistrationWrites.Key(registration.user, registration.device)] = revision
    }
  }
}
