package import CallBus
package import CallCore
internal import CallTelemetry
package import Logging

/// A shard's calls at one of its records that is in the journal.
package struct CheckpointJob: Sendable {
  package var shard: Int
  package var epoch: UInt64
  package var sequence: UInt64
  package var snapshot: ShardSnapshot
  /// Somebody waits for it: the shard is about to be handed over.
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

  /// Costs some microseconds for each call: not for a worker's thread.
  package var checkpoint: Checkpoint {
    Checkpoint(sequence: sequence, epoch: epoch, entries: snapshot.entries())
  }
}

/// Writes checkpoints, one at a time per node, and purges what they make superfluous. All of it happens
/// on threads other than the workers'.
package final class Checkpointer: Sendable {
  private let store: CheckpointStore
  private let journal: any Journal
  private let metrics: CoordinatorMetrics
  private let logger: Logger
  /// A worker asks again only after further records, so a shard has one or two jobs here.
  /// Policy when full: refuse; the shard asks again after as many records.
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

  /// How many jobs wait.
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

  /// Not where a hand-over, of this shard or the next, would have to wait for it.
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
    // Whoever waits for it is about to hand the shard over: the server lets appends to a stream and
    // reads of it wait while it cuts it.
    defer { job.done(true) }
    guard let former else { return .written(replacing: nil) }
    do {
      // Only what the former checkpoint made superfluous: a replicated bucket may take a former
      // owner's older checkpoint in the same moment, and what lies behind that must be there.
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

/// How often the store is to be swept of what a former owner, or an attempt without an answer, left.
///
/// A sweep removes what is older than the checkpoint that was replaced. So with the first one behind a
/// failure, or of a term, what is to go may still be too young; with the second it is not.
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
