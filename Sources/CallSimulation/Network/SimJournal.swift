package import CallBus
internal import CallCore

package final class SimJournal: Journal, @unchecked Sendable {
  private let bus: SimBus
  private let timeout: Span

  init(_ bus: SimBus, timeout: Duration) {
    self.bus = bus
    self.timeout = Span(timeout)
  }

  private var nats: SimNATS { bus.nats }
  private var node: SimNode { bus.node }

  package func append(
    shard: Int, expecting: UInt64, _ bytes: [UInt8],
    completion: @escaping @Sendable (AppendResult) -> Void
  ) {
    if node.state != .dead {
      for look in nats.observers.appendStarted { look(node, shard, bytes) }
    }
    var completion = completion
    if nats.tamper.answersAppendsEarly {
      let answer = completion
      let sequence = nats.store.nextSequence(behind: expecting)
      bus.world.schedule(after: .milliseconds(0)) { [node] in
        node.arrive { answer(.appended(sequence: sequence)) }
      }
      completion = { _ in }
    }
    bus.writes.write(
      .journal(shard), timeout: timeout, mayBeRefused: true,
      apply: { [nats, node] in nats.append(shard, expecting: expecting, bytes, from: node) },
      completion: { [self, completion] result in
        if case .appended(let sequence) = result { learned(shard, sequence) }
        completion(result)
      })
  }

  package func last(shard: Int) async throws -> StoredRecord? {
    let record = try await bus.ask { [nats] in
      nats.strikes("read stale", nats.faults.readStale)
        ? nats.formerEnd[shard] : nats.store.last(shard)
    }
    if let record { learned(shard, record.sequence) }
    return record
  }

  private func learned(_ shard: Int, _ sequence: UInt64) {
    for look in nats.observers.appendKnown { look(node, shard, sequence) }
  }

  package func records(
    shard: Int, from sequence: UInt64, limit: Int
  ) async throws -> [StoredRecord] {
    let found = try await bus.ask { [nats] in
      let records = nats.store.records(shard, from: sequence, limit: limit)
      guard let change = nats.tamper.changesRecord else { return records }
      return records.compactMap { change(shard, $0) }
    }
    for record in found { learned(shard, record.sequence) }
    return found
  }

  package func purge(shard: Int, through sequence: UInt64) async throws {
    try await bus.ask { [nats] in nats.purge(shard, through: sequence) }
  }

  package func statistics() async throws -> JournalStatistics {
    try await bus.ask { [nats] in
      var statistics = JournalStatistics()
      for journal in nats.store.journals {
        statistics.messages += UInt64(journal.count)
        statistics.bytes += journal.reduce(0) { $0 + UInt64($1.bytes.count) }
      }
      return statistics
    }
  }
}

package final class SimBucket: KeyValueBucket, @unchecked Sendable {
  private let bus: SimBus
  private let name: String

  init(_ bus: SimBus, name: String) {
    self.bus = bus
    self.name = name
  }

  private var nats: SimNATS { bus.nats }

  package func put(
    _ key: String, _ value: [UInt8], expecting: UInt64?,
    completion: @escaping @Sendable (AppendResult) -> Void
  ) {
    write(key, value, expecting: expecting, completion)
  }

  package func delete(
    _ key: String, expecting: UInt64?, completion: @escaping @Sendable (AppendResult) -> Void
  ) {
    write(key, nil, expecting: expecting, completion)
  }

  private func write(
    _ key: String, _ value: [UInt8]?, expecting: UInt64?,
    _ completion: @escaping @Sendable (AppendResult) -> Void
  ) {
    bus.writes.write(
      .bucket(name), timeout: bus.storeTimeout, mayBeRefused: expecting != nil,
      apply: { [nats, node = bus.node, name] in
        nats.put(name, key, value, expecting: expecting, from: node)
      },
      // A write that is pending when the world ends must not retain it.
      unconfirmed: { [weak nats, weak node = bus.node, name] sequence in
        if let nats, let node { nats.gaveUp(node, name, key, sequence) }
      },
      completion: completion)
  }

  package func get(_ key: String) async throws -> KeyValueEntry? {
    try await bus.ask { [name, nats] in
      nats.tamper.hidesEntry(name) ? nil : nats.store.get(name, key)
    }
  }

  package func entries(matching filter: String) async throws -> [KeyValueEntry] {
    let filter = SubjectFilter(filter)
    return try await bus.ask { [nats, name] in
      let entries = nats.store.entries(name, filter.matches)
      guard let change = nats.tamper.changesEntry else { return entries }
      return entries.map { entry in
        KeyValueEntry(
          key: entry.key, value: entry.value.map { change(entry.key, $0) }, revision: entry.revision
        )
      }
    }
  }

  package func watch(
    _ filter: String, handler: @escaping @Sendable (KeyValueEntry) -> Void
  ) async throws -> any BusSubscription {
    let watch = SimWatch(bus.link, name, filter, handler: handler)
    // The present entries are delivered before the reply.
    try await bus.ask { [nats] in nats.begin(watch, deletions: false) }
    bus.keep(watch)
    return SimSubscription { watch.cancel() }
  }
}
