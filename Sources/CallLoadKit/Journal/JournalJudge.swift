package import CallBus
import CallCore
import CallJudge
import CallWire

/// Opens the journal of a cluster, by the URLs of its servers and its name; `callload` does that with NATS.
package typealias OpenJournal =
  @Sendable (_ natsURL: String, _ cluster: String, _ shards: Int) async throws -> any Journal

/// Follows the journal of a local cluster during a run, and judges it together with what devices received.
actor JournalJudge {
  private let journal: any Journal
  private let queue: EventQueue
  private var reader: JournalReader
  private var judge: RunJudge

  private static let interval: Duration = .milliseconds(400)
  /// How many reads are judged together: what waits is put in order each time.
  private static let readsTogether = 5
  /// How long the end of a run waits for a journal that cannot be read.
  private static let lastAttempts = 75

  init(_ journal: any Journal, shards: Int, _ queue: EventQueue, _ judge: RunJudge) {
    self.journal = journal
    self.queue = queue
    self.judge = judge
    reader = JournalReader(shards: shards)
  }

  /// Until the task is cancelled.
  func follow() async {
    while !Task.isCancelled {
      for _ in 0..<Self.readsTogether where !Task.isCancelled {
        _ = await read()
        try? await Task.sleep(for: Self.interval)
      }
      judge.judge()
    }
  }

  /// - Returns: whether all that was stored before was read.
  private func read() async -> Bool {
    let reached = queue.reached
    var reader = reader
    let (records, isWhole) = await reader.read(journal)
    self.reader = reader
    guard isWhole else {
      // An outage of NATS; the next time is soon.
      judge.add(records, reached: .zero)
      return false
    }
    let (events, eventsReached) = queue.take()
    judge.add(records, reached: reached)
    judge.add(events, reached: eventsReached)
    return true
  }

  /// The run is over, and its calls have settled.
  func finish() async -> JournalFindings {
    for _ in 0..<Self.lastAttempts where !queue.isFull {
      guard await read() else {
        try? await Task.sleep(for: Self.interval)
        continue
      }
      judge.finish()
      return judge.findings
    }
    var findings = judge.findings
    findings.problem =
      queue.isFull
      ? "more than \(EventQueue.most) events waited for it"
      : "it could not be read at the end of the run"
    return findings
  }
}

/// Reads each shard's records that count, in order, from where the last read ended.
package struct JournalReader: Sendable {
  private struct Shard: Sendable {
    var chain = JournalChain(position: 0, end: 0)
    /// The place of its last record in the order of the run.
    var at = Timestamp.zero
  }
  private var shards: [Shard]

  /// The shard to read next.
  private var next = 0

  /// More are asked for as long as there are so many.
  private static let batch = 4

  package init(shards: Int) { self.shards = Array(repeating: Shard(), count: shards) }

  /// - Returns: the records, and whether those of all shards were read. After a failure the next read begins behind the
  ///   shard where it was, so that one which is away keeps none of the others from being read before they are purged.
  package mutating func read(
    _ journal: any Journal
  ) async -> (records: [ReadRecord], isWhole: Bool) {
    var records: [ReadRecord] = []
    for _ in shards.indices {
      let shard = next
      next = (next + 1) % shards.count
      do { try await read(shard, journal, &records) } catch { return (records, false) }
    }
    return (records, true)
  }

  private mutating func read(
    _ shard: Int, _ journal: any Journal, _ records: inout [ReadRecord]
  ) async throws {
    var stored: [StoredRecord]
    repeat {
      stored = try await journal.records(
        shard: shard, from: shards[shard].chain.end + 1, limit: Self.batch)
      for one in stored {
        let record = try ClusterCodec.journalRecord(one.bytes)
        let verdict = shards[shard].chain.append(one.sequence, previous: record.previous)
        if verdict == .gap { shards[shard].chain.skip(one.sequence) }
        // A replicated store may keep an append that lost. No reader counts it.
        guard verdict != .void else { continue }
        let read = ReadRecord(
          shard: shard, record, after: shards[shard].at, isBehindGap: verdict == .gap)
        records.append(read)
        shards[shard].at = read.at
      }
    } while stored.count == Self.batch
  }
}
