package import CallBus
package import CallCore
internal import CallTelemetry
package import Logging

/// A shard's calls as of a record that the journal has.
package struct CheckpointJob: Sendable {
  package var shard: Int
  package var epoch: UInt64
  package var sequence: UInt64
  package var snapshot: ShardSnapshot
  /// Whether a hand-over of the shard waits for it.
  package var isAwaited: Bool
  package var done: @Sendable (Bool) -> Void
  package init(
    shard: Int, epoch: UInt64, sequence: UInt64, snapshot: ShardSnapshot, isAwaited: Bool = false,
    done: @escaping @Sendable (Bool) -> Void
  ) {
    self.shard = shard
    self.epoch = epoch
    self.sequence = sequence
    self.snapshot = snapshot
    self.isAwaited = isAwaited
    self.done = done
  }

  /// Takes some microseconds for each call, so do not use it on a worker's thread.
  package var checkpoint: Checkpoint {
    Checkpoint(sequence: sequence, epoch: epoch, entries: snapshot.entries())
  }
}

/// Writes checkpoints, one at a time per node, and purges what they replace, off the workers' threads.
package final class Checkpointer: Sendable {
  private let store: CheckpointStore
  private let journal: any Journal
  private let metrics: CoordinatorMetrics
  private let logger: Logger
  /// A shard has at most two jobs here, since its next checkpoint takes further records. Policy when full: refuse; the
  /// shard retries later.
  private let jobs: Inbox<CheckpointJob>

  package init(
    store: CheckpointStore, journal: any Journal, shardCount: Int, metrics: CoordinatorMetrics,
    logger: Logger
  ) {
    self.store = store
    self.journal = journal
    self.metrics = metrics
    self.logger = logger
    jobs = Inbox(capacity: 2 * shardCount)
  }

  package var waiting: Int { jobs.depth }

  package func offer(_ job: CheckpointJob) {
    if !jobs.offer(job) { fail(job, "too many checkpoints wait") }
  }

  package func run() async {
    var sweeps = SweepSchedule()
    while !Task.isCancelled {
      for job in await jobs.next(until: nil) {
        if Task.isCancelled {
          job.done(false)
          continue
        }
        sweeps.begin(job.shard, epoch: job.epoch)
        switch await write(job) {
        case .failed: sweeps.failed(job.shard)
        case .written(let replaced):
          guard let replaced, sweeps.isOwed(job.shard), !job.isAwaited, jobs.depth == 0,
            await sweep(job.shard, before: replaced)
          else { continue }
          sweeps.done(job.shard)
        }
      }
    }
    jobs.close()
    for job in await jobs.next(until: nil) { job.done(false) }
  }

  /// Do not call it while a hand-over would have to wait for it.
  private func sweep(_ shard: Int, before replaced: CheckpointStore.Head) async -> Bool {
    do {
      try await store.sweep(shard: shard, before: replaced)
      return true
    } catch {
      logger.info(
        "What older checkpoints left could not be removed; the next checkpoint tries again.",
        metadata: .keys([.shard: "\(shard)", .error: "\(error)"]))
      return false
    }
  }

  private enum Written {
    case written(replacing: CheckpointStore.Head?)
    case failed
  }

  private func write(_ job: CheckpointJob) async -> Written {
    let former: CheckpointStore.Head?
    do throws(CheckpointStore.Failure) {
      former = try await store.write(job.checkpoint, shard: job.shard)
    } catch {
      fail(job, "\(error)")
      return .failed
    }
    metrics.checkpoints.increment()
    // After the purge: the server delays appends to a stream, and reads of it, during a purge, which a hand-over must
    // not meet.
    defer { job.done(true) }
    guard let former else { return .written(replacing: nil) }
    do {
      // Only what the replaced checkpoint covers: a replicated bucket may accept a former owner's older checkpoint at
      // the same moment, and the records behind that one must be there.
      try await journal.purge(shard: job.shard, through: former.sequence)
    } catch {
      logger.warning(
        "Records before a checkpoint could not be purged; the next checkpoint takes them along.",
        metadata: .keys([.shard: "\(job.shard)", .error: "\(error)"]))
    }
    return .written(replacing: former)
  }

  private func fail(_ job: CheckpointJob, _ reason: String) {
    metrics.checkpointsFailed.increment()
    logger.warning(
      "A checkpoint could not be written; the journal keeps its records.",
      metadata: .keys([
        .shard: "\(job.shard)", .epoch: "\(job.epoch)", .sequence: "\(job.sequence)",
        .error: "\(reason)",
      ]))
    job.done(false)
  }
}

/// Counts the sweeps that a shard's bucket needs after a former owner, or an attempt without an answer, left chunks.
///
/// A sweep removes what is older than the replaced checkpoint. The first one of a term, or after a failure, may find
/// the remaining chunks too young; the second one does not.
struct SweepSchedule {
  private static let most = 2
  private var shards: [Int: (epoch: UInt64, count: Int)] = [:]

  mutating func begin(_ shard: Int, epoch: UInt64) {
    if shards[shard]?.epoch != epoch { shards[shard] = (epoch, Self.most) }
  }

  mutating func failed(_ shard: Int) { shards[shard]?.count = Self.most }

  func isOwed(_ shard: Int) -> Bool { shards[shard].map { $0.count > 0 } ?? false }

  mutating func done(_ shard: Int) { shards[shard]?.count -= 1 }
}

/// How much may stand behind a shard's newest checkpoint before the next one is taken.
package struct CheckpointPolicy: Sendable, Equatable {
  package var records: Int
  package var bytes: Int
  package var age: Span
  package init(records: Int, bytes: Int, age: Span) {
    self.records = records
    self.bytes = bytes
    self.age = age
  }
}

/// The journal behind a shard's newest checkpoint, which a new owner would have to replay. Pure.
package struct JournalTail: Sendable, Equatable {
  package private(set) var records = 0
  package private(set) var bytes = 0
  /// When the first record was written; nil without records.
  package private(set) var since: Timestamp?
  /// Whether a checkpoint is due at once.
  package var needsCheckpoint = false

  package init() {}

  package mutating func add(records: Int = 1, bytes: Int, at time: Timestamp) {
    guard records > 0 else { return }
    self.records += records
    self.bytes += bytes
    since = min(since ?? time, time)
  }

  /// Adds `former` again, after the checkpoint that should have replaced it failed.
  package mutating func prepend(_ former: JournalTail) {
    if let since = former.since { add(records: former.records, bytes: former.bytes, at: since) }
    needsCheckpoint = needsCheckpoint || former.needsCheckpoint
  }

  package func due(_ policy: CheckpointPolicy) -> Timestamp {
    if needsCheckpoint || records >= policy.records || bytes >= policy.bytes {
      return Timestamp(microseconds: 0)
    }
    return since.map { $0 + policy.age } ?? .distantFuture
  }
}
