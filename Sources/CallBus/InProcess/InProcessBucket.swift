internal import Synchronization

/// A key-value bucket in memory.
public final class InProcessBucket: KeyValueBucket {
  private let core: InProcessCore
  private let name: String

  init(_ core: InProcessCore, name: String) {
    self.core = core
    self.name = name
  }

  public func put(
    _ key: String, _ value: [UInt8], expecting: UInt64?, completion: @escaping AppendCompletion
  ) {
    core.write(
      completion, fault: { [name] in $0.onPut?(name, key) },
      body: { [self] _ in store(key, value, expecting: expecting) })
  }

  public func delete(_ key: String, expecting: UInt64?, completion: @escaping AppendCompletion) {
    core.write(
      completion, fault: { [name] in $0.onPut?(name, key) },
      body: { [self] _ in store(key, nil, expecting: expecting) })
  }

  private func store(_ key: String, _ value: [UInt8]?, expecting: UInt64?) -> AppendResult {
    let (result, watches) = core.store.withLock { store in
      var bucket = store.buckets.removeValue(forKey: name) ?? InProcessStore.Stream()
      defer { store.buckets[name] = bucket }
      let last = bucket.subjects[key]?.last
      let isDeleted = last != nil && last?.bytes == nil
      let expected = expecting == 0 && isDeleted ? last?.sequence : expecting
      let result = bucket.append(key, value, expecting: expected, keepOne: true)
      if value == nil, case .appended = result { bucket.subjects[key] = nil }
      return (result, store.watches.filter { $0.bucket == name && $0.filter.matches(key) })
    }
    if case .appended(let revision) = result {
      let entry = KeyValueEntry(key: key, value: value, revision: revision)
      for watch in watches { watch.handler(entry) }
    }
    return result
  }

  public func get(_ key: String) async throws -> KeyValueEntry? {
    try await core.perform { [self] in present { $0 == key }.first }
  }

  public func entries(matching filter: String) async throws -> [KeyValueEntry] {
    let filter = SubjectFilter(filter)
    return try await core.perform { [self] in present(filter.matches) }
  }

  public func watch(
    _ filter: String, handler: @escaping EntryHandler
  ) async throws -> any BusSubscription {
    let filter = SubjectFilter(filter)
    // Writes happen on this thread as well, so nothing comes between the present entries and the first change.
    let id = try await core.perform { [self] in
      let id = core.store.withLock { store in
        store.lastWatch += 1
        store.watches.append(
          InProcessStore.Watch(id: store.lastWatch, bucket: name, filter: filter, handler: handler))
        return store.lastWatch
      }
      for entry in present(filter.matches) { handler(entry) }
      return id
    }
    return InProcessSubscription { [core] in
      core.store.withLock { $0.watches.removeAll { $0.id == id } }
    }
  }

  private func present(_ isWanted: (String) -> Bool) -> [KeyValueEntry] {
    core.store.withLock { store in
      (store.buckets[name]?.subjects ?? [:]).compactMap { key, entries in
        guard isWanted(key), let last = entries.last, let value = last.bytes else { return nil }
        return KeyValueEntry(key: key, value: value, revision: last.sequence)
      }.sorted { $0.revision < $1.revision }
    }
  }
}
