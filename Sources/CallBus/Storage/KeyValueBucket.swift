/// A key-value bucket with revisions and compare-and-set.
///
/// Keys consist of `[-/_=.a-zA-Z0-9]`; `Subjects.keyPart` encodes anything else.
public protocol KeyValueBucket: Sendable {
  /// Starts a write. `completion` is called exactly once, on the bus's thread.
  /// - Parameter expecting: the revision that the key must have (0: it must not exist, or its last entry is a
  ///   deletion); nil writes unconditionally.
  func put(
    _ key: String, _ value: [UInt8], expecting: UInt64?,
    completion: @escaping AppendCompletion)

  /// Starts a deletion. Nothing of the key stays in the store in the end, so that short-lived keys do not fill it.
  /// - Parameter expecting: the revision that the key must have; nil deletes unconditionally.
  func delete(_ key: String, expecting: UInt64?, completion: @escaping AppendCompletion)

  /// The key's present entry; nil if it has none or was deleted.
  /// - Throws: `BusError`, as all functions that read.
  func get(_ key: String) async throws -> KeyValueEntry?

  /// All present entries whose keys match a filter such as `12.>` or `>`.
  func entries(matching filter: String) async throws -> [KeyValueEntry]

  /// Calls `handler` on the bus's thread for every present entry that matches, then for every change. It may skip all
  /// but the last of several changes to a key. Changes of one key come in their order; one of another key may come
  /// later than those that follow it. A deletion has a nil value, and may be missed: the store keeps no trace of it for
  /// a watch that lags.
  func watch(_ filter: String, handler: @escaping EntryHandler) async throws -> any BusSubscription

  /// The size of the store, including deletion markers.
  func statistics() async throws -> JournalStatistics
}

extension KeyValueBucket {
  package func put(_ key: String, _ value: [UInt8], expecting: UInt64?) async -> AppendResult {
    await withCheckedContinuation { continuation in
      put(key, value, expecting: expecting) { continuation.resume(returning: $0) }
    }
  }

  package func delete(_ key: String, expecting: UInt64? = nil) async -> AppendResult {
    await withCheckedContinuation { continuation in
      delete(key, expecting: expecting) { continuation.resume(returning: $0) }
    }
  }

  /// Writes what `value` makes of the present entry of a key, and starts again while others write it.
  /// - Parameter value: returns nil to leave the entry as it is.
  /// - Returns: nil once it is written or left; otherwise the result of the last of five attempts.
  /// - Throws: `BusError`, or what `value` throws.
  package func update(
    _ key: String, _ value: (KeyValueEntry?) throws -> [UInt8]?
  ) async throws -> AppendResult? {
    var last = AppendResult.refused
    for _ in 0..<5 {
      let present = try await get(key)
      guard let bytes = try value(present) else { return nil }
      last = await put(key, bytes, expecting: present?.revision ?? 0)
      // If refused, another node was faster; if unknown, it may be stored: the next read shows.
      if case .appended = last { return nil }
    }
    return last
  }

  /// For stores without deletion markers.
  public func statistics() async throws -> JournalStatistics {
    var statistics = JournalStatistics()
    for entry in try await entries(matching: ">") {
      statistics.messages += 1
      statistics.bytes += UInt64(entry.value?.count ?? 0)
    }
    return statistics
  }
}

public typealias EntryHandler = @Sendable (KeyValueEntry) -> Void

public struct KeyValueEntry: Sendable, Equatable {
  public var key: String
  /// nil: deleted.
  public var value: [UInt8]?
  public var revision: UInt64
  public init(key: String, value: [UInt8]?, revision: UInt64) {
    self.key = key
    self.value = value
    self.revision = revision
  }
}
