package import CallBus
package import CallCore

/// The writes of one shard to the store of registrations, where the rules of users are as well. Those of a device go
/// one by one, each as a compare-and-set on the entry that this owner knows.
///
/// Registrations are keys beside the journal, so its fence does not stop a former owner that was frozen with a write
/// under way. Hence no write is unconditional. An entry counts as known
///
/// - as the claim read it,
/// - as the store accepted it from this owner,
/// - as it was read again, but only for what the journal accepted *behind* that read: an append that began after the
///   read, and was accepted, shows that no other node owned the shard at the time of the read.
///
/// An unknown entry is written as if the key did not exist. The store refuses that if the key exists; then the key is
/// read, and the device registers again.
///
/// A write without an answer is not over: the store may have it. The key is read. If it holds the value, the write
/// counts; until then the state machine takes it for under way, so that no other device gets its tokens. Otherwise, or
/// if the key cannot be read, the device registers again.
package struct RegistrationWrites: Sendable {
  package struct Key: Hashable, Sendable {
    package var user: UserKey
    /// nil: the key is that of the user's rules.
    package var device: DeviceID?
    package init(_ user: UserKey, _ device: DeviceID?) {
      self.user = user
      self.device = device
    }
  }

  package struct Write: Sendable, Equatable {
    package var key: Key
    /// nil removes the key.
    package var value: [UInt8]?
    /// The state machine's number of the write.
    package var token: UInt64
    /// The number of the record that decided it.
    package var record: UInt64
    package init(_ key: Key, _ value: [UInt8]?, token: UInt64, record: UInt64) {
      self.key = key
      self.value = value
      self.token = token
      self.record = record
    }
  }

  package enum Step: Sendable, Equatable {
    /// Write to the store; answered by `ended`.
    case write(Write, expecting: UInt64)
    case stored(token: UInt64)
    case failed(token: UInt64)
    /// Read the key; answered by `read`.
    case read(Key)
  }

  private struct Known {
    var revision: UInt64
    /// The last record that had begun when the entry was read: the entry is valid for later records.
    var readAt: UInt64 = 0
  }

  private enum Busy {
    /// A write is under way; others wait. The state machine limits how many (`registrationsWaiting`).
    case writing(Write, waiting: [Write])
    /// `settling`: a write of which the store has not answered.
    case reading(settling: Write?)
  }

  /// A key that is missing here does not exist, as far as known.
  private var known: [Key: Known]
  private var busy: [Key: Busy] = [:]

  /// - Parameter revisions: what the claim read.
  package init(revisions: [Key: UInt64] = [:]) {
    known = revisions.mapValues { Known(revision: $0) }
  }

  package mutating func add(_ write: Write) -> [Step] {
    switch busy[write.key] {
    case .writing(let first, var waiting):
      waiting.append(write)
      busy[write.key] = .writing(first, waiting: waiting)
      return []
    case .reading: return [.failed(token: write.token)]
    case nil: return start(write, waiting: [])
    }
  }

  private mutating func start(_ write: Write, waiting: [Write]) -> [Step] {
    let present = known[write.key] ?? Known(revision: 0)
    guard present.readAt < write.record else {
      busy[write.key] = nil
      return ([write] + waiting).map { .failed(token: $0.token) }
    }
    busy[write.key] = .writing(write, waiting: waiting)
    return [.write(write, expecting: present.revision)]
  }

  /// Takes the store's answer to the write of a key that is under way.
  package mutating func ended(_ key: Key, _ result: AppendResult) -> [Step] {
    guard case .writing(let write, var waiting) = busy[key] else { return [] }
    busy[key] = nil
    if case .appended(let revision) = result {
      known[key] = write.value == nil ? nil : Known(revision: revision)
      let stored = Step.stored(token: write.token)
      if waiting.isEmpty { return [stored] }
      let next = waiting.removeFirst()
      return [stored] + start(next, waiting: waiting)
    }
    known[key] = nil
    // Refused: the entry is another one. No answer: it may be either.
    let isUnknown = if case .unknown = result { true } else { false }
    busy[key] = .reading(settling: isUnknown ? write : nil)
    let failed = isUnknown ? waiting : [write] + waiting
    return failed.map { .failed(token: $0.token) } + [.read(key)]
  }

  /// - Parameters:
  ///   - entry: what the key holds; nil if it holds nothing, or if the read failed.
  ///   - record: the number of the last record that has begun.
  package mutating func read(_ key: Key, _ entry: KeyValueEntry?, record: UInt64) -> [Step] {
    guard case .reading(let unsettled) = busy[key] else { return [] }
    busy[key] = nil
    if let entry { known[key] = Known(revision: entry.revision, readAt: record) }
    guard let unsettled else { return [] }
    // An empty key proves nothing: the replica that answered may lag behind the removal.
    let isStored = entry?.value.map { $0 == unsettled.value } ?? false
    return [isStored ? .stored(token: unsettled.token) : .failed(token: unsettled.token)]
  }
}
