package import CallBus
package import CallCore

/// The writes of one shard to the store of registrations: those of a device one by one, and each of
/// them only onto the entry that this owner knows.
///
/// Registrations are keys beside the journal, so its fence does not keep a former owner from them: one
/// that hung with a write in hand, and wakes when the shard is another's, would write over what is
/// newer. Hence no write takes whatever is there. An entry counts as known
///
/// - as the claim read it,
/// - as the store took it from this owner,
/// - as it was read again, but only for what the journal took *behind* that: an append that was begun
///   after the read, and taken, shows that at the time of the read nobody else had the shard.
///
/// What is not known is written as if there were nothing, which the store refuses where there is
/// something; then it is read, and whoever asked tries again.
///
/// A write without an answer is not over: the store may have it. Where the key holds it, it counts, and
/// until the key was read the rules take it for under way, so that nobody else gets a token in it. Where
/// the key holds something else, or cannot be read, whoever asked tries again.
package struct RegistrationWrites: Sendable {
  package struct Key: Hashable, Sendable {
    package var user: UserKey
    package var device: DeviceID
    package init(_ user: UserKey, _ device: DeviceID) {
      self.user = user
      self.device = device
    }
  }

  package struct Write: Sendable, Equatable {
    package var key: Key
    /// nil removes the key.
    package var value: [UInt8]?
    /// By which the rules know it.
    package var token: UInt64
    /// The number of the record behind which it leaves.
    package var record: UInt64
    package init(_ key: Key, _ value: [UInt8]?, token: UInt64, record: UInt64) {
      self.key = key
      self.value = value
      self.token = token
      self.record = record
    }
  }

  package enum Step: Sendable, Equatable {
    /// To the store; answered by `ended`.
    case write(Write, expecting: UInt64)
    case stored(token: UInt64)
    case failed(token: UInt64)
    /// Learn what the key holds; answered by `read`.
    case read(Key)
  }

  private struct Known {
    var revision: UInt64
    /// Read when the record of this number had been begun: good for what leaves behind a later one.
    var readAt: UInt64 = 0
  }

  private enum Busy {
    /// A write is on its way; others wait. The rules bound how many (`registrationsWaiting`).
    case writing(Write, waiting: [Write])
    /// `settling`: a write that the store took, or did not.
    case reading(settling: Write?)
  }

  /// Nothing here of a key: as far as is known it does not exist.
  private var known: [Key: Known]
  private var busy: [Key: Busy] = [:]

  /// - Parameter revisions: what the claim read.
  package init(revisions: [Key: UInt64] = [:]) {
    known = revisions.mapValues { Known(revision: $0) }
  }

  package mutating func add(_ write: Write, _ steps: inout [Step]) {
    switch busy[write.key] {
    case .writing(let first, var waiting):
      waiting.append(write)
      busy[write.key] = .writing(first, waiting: waiting)
    case .reading: steps.append(.failed(token: write.token))
    case nil: start(write, waiting: [], &steps)
    }
  }

  private mutating func start(_ write: Write, waiting: [Write], _ steps: inout [Step]) {
    let present = known[write.key] ?? Known(revision: 0)
    guard present.readAt < write.record else {
      busy[write.key] = nil
      for each in [write] + waiting { steps.append(.failed(token: each.token)) }
      return
    }
    busy[write.key] = .writing(write, waiting: waiting)
    steps.append(.write(write, expecting: present.revision))
  }

  /// What the store said of the write of a key that is under way.
  package mutating func ended(_ key: Key, _ result: AppendResult, _ steps: inout [Step]) {
    guard case .writing(let write, var waiting) = busy[key] else { return }
    busy[key] = nil
    if case .appended(let revision) = result {
      known[key] = write.value == nil ? nil : Known(revision: revision)
      steps.append(.stored(token: write.token))
      if waiting.isEmpty { return }
      let next = waiting.removeFirst()
      return start(next, waiting: waiting, &steps)
    }
    known[key] = nil
    // Refused: it is not what this owner thought. No answer: it may be either.
    let isUnknown = if case .unknown = result { true } else { false }
    busy[key] = .reading(settling: isUnknown ? write : nil)
    for each in isUnknown ? waiting : [write] + waiting {
      steps.append(.failed(token: each.token))
    }
    steps.append(.read(key))
  }

  /// - Parameters:
  ///   - entry: what the key holds; nil where it holds nothing, or nobody could tell.
  ///   - record: the number of the last record that was begun.
  package mutating func read(
    _ key: Key, _ entry: KeyValueEntry?, record: UInt64, _ steps: inout [Step]
  ) {
    guard case .reading(let unsettled) = busy[key] else { return }
    busy[key] = nil
    if let entry { known[key] = Known(revision: entry.revision, readAt: record) }
    guard let unsettled else { return }
    // That it holds nothing shows nothing: who answered may lag behind the entry that was to be removed.
    let isStored = entry?.value.map { $0 == unsettled.value } ?? false
    steps.append(isStored ? .stored(token: unsettled.token) : .failed(token: unsettled.token))
  }
}
