internal import CallBus
internal import CallCore
internal import CallTelemetry
internal import Logging

/// Records of ended calls leave for a stream of their own. A slow or missing stream delays nothing else.
extension ShardWorker {
  func add(record call: CallID, _ shard: HeldShard, now: Timestamp) {
    records.add(RecordOutbox.Item(term: shard.term, call: call), now: now)
    records.compact { holding($0.term)?.machine.lacks(.record, of: $0.call) ?? false }
  }

  func sendRecords(now: Timestamp) {
    guard records.nextDeadline <= now, let recordStream else { return }
    let message = records.next(now: now) { item in
      holding(item.term).flatMap { Self.record(of: item.call, in: &$0.machine) }
    }
    guard let message else { return }
    let (inbox, number) = (inbox, message.number)
    let id = "\(configuration.writer)-\(index)-\(number)"
    recordStream.add(id: id, message.bytes) { inbox.offer(.recordsAdded(number, $0)) }
  }

  /// `inout`, though it changes nothing: a look at a machine that a class has would copy it.
  private static func record(of call: CallID, in machine: inout ShardMachine) -> CallRecord? {
    machine.record(of: call)
  }

  func recordsAdded(_ number: UInt64, _ result: AppendResult, now: Timestamp) {
    var isStored = false
    switch result {
    case .appended:
      isStored = true
      metrics.recordMessages.increment()
    case .refused: failedRecords(number, "the stream refuses it", now: now)
    case .unknown(let reason): failedRecords(number, reason, now: now)
    }
    let stored = records.answered(number, isStored: isStored, now: now)
    metrics.recordsStored.increment(by: UInt64(stored.count))
    for (term, items) in Dictionary(grouping: stored, by: \.term) {
      // A new owner stores them again, and readers drop the second record.
      guard let shard = holding(term) else { continue }
      if case .parting = shard.phase { continue }
      decide(shard, now: now) {
        $0.stored(.record, of: items.map(\.call), now: now, into: &$1)
      }
      touch(term.shard)
    }
  }

  private func failedRecords(_ number: UInt64, _ reason: String, now: Timestamp) {
    metrics.recordMessagesFailed.increment()
    failedRecordLogs.warn(
      logger, now: now, "Call records could not be stored. They are kept and retried.",
      [.reason: "\(reason)"])
  }
}

/// Creates a stream beside the journals, and again if it is removed. Calls do not wait for it.
struct StreamKeeper: Sendable {
  static let retry = Span.seconds(5)
  static let interval = Span.seconds(60)
  /// The content of the stream, for the log.
  let what: String
  let create: @Sendable (_ followingLimits: Bool) async throws -> Void
  let clock: ClusterClock
  let logger: Logger

  func run() async {
    var isCreated = false
    var failed = false
    while !Task.isCancelled {
      do {
        try await create(!isCreated)
        (isCreated, failed) = (true, false)
      } catch BusError.closed {
        return
      } catch {
        if !failed {
          logger.warning(
            "The stream of \(what) cannot be created: calls go on, what is kept of them waits.",
            metadata: .keys([.error: "\(error)"]))
        }
        failed = true
      }
      await clock.sleep(for: failed ? Self.retry : Self.interval)
    }
  }
}
