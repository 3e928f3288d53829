package import CallBus
internal import CallCore
internal import CallTelemetry
internal import CallWire
package import Logging

/// Makes a shard this node's: takes the lease, reads the shard back, and fences the journal.
package struct ShardClaim: Sendable {
  package struct Dependencies: Sendable {
    package var configuration: CoordinatorConfiguration
    package var incarnation: UInt64
    package var subjects: Subjects
    package var bus: any MessageBus
    package var journal: any Journal
    package var checkpoints: CheckpointStore
    package var leases: any KeyValueBucket
    package var registrations: any KeyValueBucket
    package var clock: ClusterClock
    package var metrics: CoordinatorMetrics
    package var logger: Logger
  }

  package enum Failure: Error, Equatable {
    /// Somebody else has it.
    case taken
    /// Worth another try later.
    case unavailable(String)
    /// The store holds what this version cannot read: only a repair or another version helps.
    case unreadable(Unreadable)
  }

  /// What of a shard's store cannot be read.
  package struct Unreadable: Error, Sendable, Equatable {
    package enum What: String, Sendable { case journal, checkpoint, lease }
    package var what: What
    /// Of the record, where it is one of the journal.
    package var sequence: UInt64?
    package var reason: String
    package init(_ what: What, sequence: UInt64? = nil, _ reason: String) {
      self.what = what
      self.sequence = sequence
      self.reason = reason
    }
    package var text: String {
      sequence.map { "\(what.rawValue), record \($0): \(reason)" } ?? "\(what.rawValue): \(reason)"
    }
  }

  let dependencies: Dependencies
  let shard: Int
  let inbox: WorkerInbox
  /// When the owner that was lost was last heard of; nil where there was none, or nobody knows.
  var lostSince: Timestamp?
  /// The edges when the shard is recovered.
  let edges: @Sendable () async -> KnownEdges

  /// Epochs are the upper part of the calls' versions, which fit 53 bits.
  private static let epochMax: UInt64 = 1 << 33

  /// - Returns: the term, which the worker has adopted, and the lease's revision.
  func run(lease: Lease?, revision: UInt64) async throws(Failure) -> (ShardTerm, UInt64) {
    var taken = revision
    var epoch = lease?.epoch ?? 0
    do {
      return try await run(lease, &taken, &epoch)
    } catch {
      if case .unreadable(let what) = error { await refuse(what, lease, epoch, expecting: taken) }
      throw error
    }
  }

  /// Writes into the lease that this node cannot read the shard, so that another is let try.
  private func refuse(
    _ what: Unreadable, _ former: Lease?, _ epoch: UInt64, expecting revision: UInt64
  ) async {
    let others = (former?.refusedBy ?? []).filter { $0 != dependencies.incarnation }
    let lease = Lease(
      owner: dependencies.configuration.nodeID, incarnation: dependencies.incarnation, epoch: epoch,
      released: true, refusedBy: others.suffix(Self.refusalsMax) + [dependencies.incarnation],
      refusal: what.text)
    _ = await dependencies.leases.put("\(shard)", ClusterCodec.encode(lease), expecting: revision)
  }

  private static let refusalsMax = 31

  private func run(
    _ lease: Lease?, _ revision: inout UInt64, _ epoch: inout UInt64
  ) async throws(Failure) -> (ShardTerm, UInt64) {
    let began = dependencies.clock.now()
    // Questions to the store that need no other's answer are asked together: at a hand-over every
    // round trip is a part of the pause.
    async let readEnd = journalEnd()
    async let readCheckpoint = checkpointNow()
    async let readRegistrations = registrations(ahead: lease)
    let accepted = try await acceptedLoss()
    let end = try await readEnd.get()
    // The lease bucket may have been lost and made anew; the journal's epochs only grow. So do those of
    // checkpoints, where the journal's end is lost, too.
    let last = try record(end, accepted)
    var former = max(lease?.epoch ?? 0, last?.epoch ?? 0)
    if lease == nil || last == nil, let checkpoint = try await readCheckpoint.get() {
      former = max(former, checkpoint.0.epoch)
    }
    let next = former &+ 1
    guard next <= Self.epochMax else {
      throw .unreadable(Unreadable(.lease, "its epoch \(next) is out of range"))
    }
    epoch = next
    let term = ShardTerm(shard: shard, epoch: epoch)
    revision = try await takeLease(term.epoch, refusedBy: stillRefused(lease), expecting: revision)
    inbox.offer(.beginRecovery(term))
    do {
      let ahead = ReadAhead(
        end: end, checkpoint: await readCheckpoint, registrations: await readRegistrations)
      var recovered = try await recover(term, accepted, ahead)
      recovered.afterLoss = lease.map { !$0.released } ?? false
      dependencies.metrics.claims.increment()
      dependencies.metrics.recoveryLatency.record(
        microseconds: (dependencies.clock.now() - began).microseconds)
      inbox.offer(.adopt(recovered))
      return (term, revision)
    } catch {
      inbox.offer(.abandon(term))
      throw error
    }
  }

  private func record(
    _ stored: StoredRecord?, _ accepted: UInt64
  ) throws(Failure) -> JournalRecord? {
    guard let stored else { return nil }
    if stored.sequence <= accepted { return try? ClusterCodec.journalRecord(stored.bytes) }
    return try decode(stored)
  }

  /// Who cannot read the shard. Where this node was one of them and now takes it after all, the cause
  /// may be gone for the others, too.
  private func stillRefused(_ lease: Lease?) -> [UInt64] {
    let refused = lease?.refusedBy ?? []
    return refused.contains(dependencies.incarnation) ? [] : refused
  }

  /// Up to which sequence an operator gives up what is missing or cannot be read; 0: nothing.
  private func acceptedLoss() async throws(Failure) -> UInt64 {
    do throws(CheckpointStore.Failure) {
      return try await dependencies.checkpoints.acceptedLoss(shard: shard)
    } catch { throw Self.failure(error) }
  }

  func decode(_ stored: StoredRecord) throws(Failure) -> JournalRecord {
    do {
      return try ClusterCodec.journalRecord(stored.bytes)
    } catch {
      throw .unreadable(Unreadable(.journal, sequence: stored.sequence, "\(error)"))
    }
  }

  func reading<Value>(_ body: () async throws -> Value) async throws(Failure) -> Value {
    do { return try await body() } catch { throw .unavailable("\(error)") }
  }

  // MARK: The lease

  private func takeLease(
    _ epoch: UInt64, refusedBy: [UInt64], expecting: UInt64
  ) async throws(Failure) -> UInt64 {
    let lease = Lease(
      owner: dependencies.configuration.nodeID, incarnation: dependencies.incarnation, epoch: epoch,
      released: false, refusedBy: refusedBy)
    switch await dependencies.leases.put(
      "\(shard)", ClusterCodec.encode(lease), expecting: expecting)
    {
    case .appended(let revision): return revision
    case .refused: throw .taken
    case .unknown(let reason):
      let entry = try await reading { try await dependencies.leases.get("\(shard)") }
      guard let entry, let value = entry.value, let found = try? ClusterCodec.lease(value),
        found == lease
      else { throw .unavailable(reason) }
      return entry.revision
    }
  }
}
