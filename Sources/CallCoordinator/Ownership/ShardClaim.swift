package import CallBus
internal import CallCore
internal import CallTelemetry
internal import CallWire
package import Logging

/// Claims a shard for this node: takes the lease, replays the shard, and fences the journal.
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

    /// A lease of this node.
    func lease(epoch: UInt64, released: Bool, refusedBy: [UInt64], refusal: String = "") -> Lease {
      Lease(
        owner: configuration.nodeID, incarnation: incarnation, epoch: epoch, released: released,
        refusedBy: refusedBy, refusal: refusal)
    }

    func write(_ lease: Lease, of shard: Int, expecting revision: UInt64) async -> AppendResult {
      await leases.put("\(shard)", ClusterCodec.encode(lease), expecting: revision)
    }
  }

  package enum Failure: Error, Equatable {
    /// Another node owns it.
    case taken
    /// A retry may succeed.
    case unavailable(String)
    /// This version cannot read the store: only a repair or another version helps.
    case unreadable(Unreadable)
  }

  /// The part of a shard's store that cannot be read.
  package struct Unreadable: Error, Sendable, Equatable {
    package enum What: String, Sendable { case journal, checkpoint, lease }
    package var what: What
    /// The sequence of a record of the journal.
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
  /// The last sign of life of an owner that was lost; nil if none was lost, or if it is unknown.
  var lostSince: Timestamp?
  /// Returns the edges, once the shard is recovered.
  let edges: @Sendable () async -> KnownEdges

  /// Epochs are the upper bits of the calls' versions, which fit into 53 bits.
  private static let epochMax: UInt64 = 1 << 33

  /// Claims the shard and has the worker adopt it.
  /// - Throws: why that failed.
  func run(lease: Lease?, revision: UInt64) async throws(Failure) -> ClaimedShard {
    var taken = revision
    var epoch = lease?.epoch ?? 0
    do {
      return try await run(lease, &taken, &epoch)
    } catch {
      if case .unreadable(let what) = error { await refuse(what, lease, epoch, expecting: taken) }
      throw error
    }
  }

  /// Writes into the lease that this node cannot read the shard, so that another one tries.
  private func refuse(
    _ what: Unreadable, _ former: Lease?, _ epoch: UInt64, expecting revision: UInt64
  ) async {
    let others = (former?.refusedBy ?? []).filter { $0 != dependencies.incarnation }
    let lease = dependencies.lease(
      epoch: epoch, released: true,
      refusedBy: others.suffix(Self.refusalsMax) + [dependencies.incarnation], refusal: what.text)
    _ = await dependencies.write(lease, of: shard, expecting: revision)
  }

  private static let refusalsMax = 31

  private func run(
    _ lease: Lease?, _ revision: inout UInt64, _ epoch: inout UInt64
  ) async throws(Failure) -> ClaimedShard {
    let began = dependencies.clock.now()
    // Reads that do not depend on each other run concurrently: at a hand-over every round trip adds to the pause.
    async let readEnd = result { () async throws(Failure) in try await journalEnd() }
    async let readCheckpoint = result { () async throws(Failure) in try await checkpointNow() }
    async let readRegistrations = registrations(ahead: lease)
    let accepted = try await checkpoints { (store) async throws(CheckpointStore.Failure) in
      try await store.acceptedLoss(shard: shard)
    }
    let end = try await readEnd.get()
    // The bucket of leases may have been lost and created again, but the journal's epochs only grow; so do those of
    // checkpoints, if the journal's end is lost, too.
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
    revision = try await acquireLease(
      term.epoch, refusedBy: stillRefused(lease), expecting: revision)
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
    do {
      return try ClusterCodec.journalRecord(stored.bytes)
    } catch {
      if stored.sequence <= accepted { return nil }
      throw .unreadable(Unreadable(.journal, sequence: stored.sequence, "\(error)"))
    }
  }

  /// The nodes that cannot read the shard. If this node was one of them and now claims it after all, the cause may be
  /// gone for the others, too.
  private func stillRefused(_ lease: Lease?) -> [UInt64] {
    let refused = lease?.refusedBy ?? []
    return refused.contains(dependencies.incarnation) ? [] : refused
  }

  func reading<Value>(_ body: () async throws -> Value) async throws(Failure) -> Value {
    do { return try await body() } catch { throw .unavailable("\(error)") }
  }

  private func acquireLease(
    _ epoch: UInt64, refusedBy: [UInt64], expecting: UInt64
  ) async throws(Failure) -> UInt64 {
    let lease = dependencies.lease(epoch: epoch, released: false, refusedBy: refusedBy)
    switch await dependencies.write(lease, of: shard, expecting: expecting) {
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
