import CallBus
import CallCoordinator
import CallCore
import CallTelemetry
import CallWire
import Synchronization
import Testing

/// The records, events and histories that a worker keeps beside the journal.
enum Kept: String, CaseIterable, Sendable {
  case records, events, history

  /// The subscriptions of an app that has it.
  var subscriptions: Subscriptions {
    switch self {
    case .records: []
    case .events: .webhooks
    case .history: .history
    }
  }

  /// The messages of one call that ended at once.
  var messages: Int { self == .history ? 2 : 1 }

  fileprivate func setFault(
    _ bench: WorkerBench, _ fault: @escaping @Sendable (String) -> InProcessFaults.Append?
  ) {
    bench.bus.setFaults { faults in
      switch self {
      case .records: faults.onRecords = fault
      case .events: faults.onAppStream = { _, id in fault(id) }
      case .history: faults.onHistory = fault
      }
    }
  }

  fileprivate func failed(_ metrics: CoordinatorMetrics) -> UInt64 {
    switch self {
    case .records: metrics.recordMessagesFailed.value
    case .events: metrics.eventMessagesFailed.value
    case .history: metrics.historyMessagesFailed.value
    }
  }

  fileprivate func waiting(_ metrics: CoordinatorMetrics) -> Int64 {
    switch self {
    case .records: metrics.recordsWaiting.value
    case .events: metrics.eventsWaiting.value
    case .history: metrics.historyCallsWaiting.value
    }
  }
}

extension WorkerBench {
  /// Ends at once: the callee has no device.
  func placeUnreachable(
    _ call: CallID, from caller: UserKey = .user("alice"), subscriptions: Subscriptions
  ) {
    edge.send(
      .place(PlaceRequest(call: call, subscriptions: subscriptions)), from: 2, caller, "a1",
      to: user(0), request: call.low)
  }

  /// Whether the journal says that all that is kept of a call is stored.
  var isJournalled: Bool {
    journal.records.flatMap(\.entries).contains { $0.change == .recorded }
  }

  func storedEvents() async throws -> [AppEvent] {
    let stream = try await bus.openAppStream(.events, .events)
    var (found, sequence): ([AppEvent], UInt64) = ([], 1)
    while let message = try await stream.next(of: user(0).app, from: sequence) {
      found += try ClusterCodec.appEvents(message.bytes).events.compactMap(\.self)
      sequence = message.sequence + 1
    }
    return found
  }

  func storedHistory(_ user: UserKey) async throws -> [HistoryMessage] {
    try await bus.openHistories(HistoryOptions()).messages(of: user).map {
      try ClusterCodec.historyMessage($0.bytes)
    }
  }
}

/// A worker stores what is kept of its shards' calls.
@Suite struct WorkerStreamTests {
  private let call = CallID(high: 3, low: 4)

  private func stored(_ kept: Kept, _ bench: WorkerBench) async throws -> [String] {
    switch kept {
    case .records:
      let stream = try await bench.bus.openRecords(RecordOptions())
      guard let range = try await stream.range() else { return [] }
      return try await stream.messages(range).flatMap {
        try ClusterCodec.callRecords($0.bytes).records
      }.map { "\($0.call) \($0.end.map { "\($0.reason)" } ?? "")" }
    case .events:
      return try await bench.storedEvents().filter { $0.kind != .missed }
        .map { "\($0.call) \($0.kind)" }
    case .history:
      var found: [String] = []
      for user in [UserKey.user("alice"), bench.user(0)] {
        for case .entry(let entry) in try await bench.storedHistory(user) {
          found.append("\(entry.call) \(user.user)")
        }
      }
      return found
    }
  }

  private func expected(_ kept: Kept, _ bench: WorkerBench) -> [String] {
    switch kept {
    case .records: ["\(call) \(EndReason.unreachable)"]
    case .events: ["\(call) \(AppEventKind.placed)", "\(call) \(AppEventKind.ended)"]
    case .history: ["\(call) alice", "\(call) \(bench.user(0).user)"]
    }
  }

  @Test(arguments: Kept.allCases)
  func itIsStoredBehindTheJournalAndThenAFact(kept: Kept) async throws {
    try await WorkerBench(keeping: [kept]).serve { bench in
      bench.journal.hold()
      bench.placeUnreachable(call, subscriptions: kept.subscriptions)
      try await eventually("the end waits for the journal") { bench.journal.waiting >= 1 }
      try await bench.flush()
      #expect(try await stored(kept, bench).isEmpty)
      bench.journal.letGo()
      try await eventually("it is a fact") { bench.isJournalled }
      #expect(try await stored(kept, bench) == expected(kept, bench))
      if kept == .records { #expect(bench.metrics.recordsStored.value == 1) }
      if kept == .history { #expect(bench.metrics.historyMessages.value == 2) }
      try await eventually("nothing waits") { kept.waiting(bench.metrics) == 0 }
    }
  }

  @Test(arguments: Kept.allCases) func aStreamThatFailsIsAskedAgain(kept: Kept) async throws {
    try await WorkerBench(keeping: [kept]).serve { bench in
      let asked = Mutex<[String]>([])
      kept.setFault(bench) { id in
        asked.withLock { ids in
          ids.append(id)
          // The first is stored and its answer lost, the second is not stored.
          return ids.count == 1 ? .unknown(stored: true) : ids.count == 2 ? .refuse : nil
        }
      }
      bench.placeUnreachable(call, subscriptions: kept.subscriptions)
      try await eventually("it is a fact") { bench.isJournalled }
      #expect(try await stored(kept, bench) == expected(kept, bench), "the stream knows the id")
      // Events of a later turn have a message of their own.
      let ids = asked.withLock { kept == .events ? Array($0.prefix(3)) : $0 }
      #expect(ids.count == 2 + kept.messages && Set(ids).count == kept.messages)
      #expect(kept.failed(bench.metrics) == 2)
    }
  }

  /// Records are for all apps or none, the others for apps that ask for them.
  @Test(arguments: Kept.allCases) func whatIsOffCostsNothing(kept: Kept) async throws {
    let keeping: [Kept: Set<Kept>] = [.events: [.events], .history: [.records, .history]]
    try await WorkerBench(keeping: keeping[kept] ?? []).serve { bench in
      bench.placeUnreachable(call, subscriptions: [])
      try await eventually("the call ends") { !bench.edge.stops(to: 2).isEmpty }
      if kept == .history {
        try await eventually("its record is a fact") { bench.isJournalled }
      } else {
        #expect(!bench.isJournalled)
      }
      #expect(kept.waiting(bench.metrics) == 0 && bench.metrics.historyMessages.value == 0)
      #expect(try await stored(kept, bench).isEmpty)
    }
  }

  /// The owner before had not stored it; of a history it had stored one side, and did not come to say so.
  @Test(arguments: [Kept.records, .history]) func aNewOwnerStoresIt(kept: Kept) async throws {
    try await WorkerBench(keeping: [kept]).serve { bench in
      let holds = Mutex(true)
      kept.setFault(bench) { id in
        let isStored = kept == .history && id.contains(".alice-")
        return holds.withLock { $0 } ? .unknown(stored: isStored) : nil
      }
      bench.placeUnreachable(call, subscriptions: kept.subscriptions)
      try await eventually("an attempt") { kept.failed(bench.metrics) >= kept.messages }
      try await bench.depose()
      let former = try await stored(kept, bench)
      #expect(former == (kept == .history ? ["\(call) alice"] : []) && !bench.isJournalled)
      holds.withLock { $0 = false }
      try await bench.recover(0, epoch: 2)
      try await eventually("a fact of the new owner") { bench.isJournalled }
      let found = try await stored(kept, bench)
      // A record perhaps twice, and readers drop the second.
      #expect((kept == .records ? Array(Set(found)) : found) == expected(kept, bench))
    }
  }
}
