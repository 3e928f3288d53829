import CallAuth
import CallBus
import CallCoordinator
import CallCore
import CallTelemetry
import CallWire
import Synchronization
import Testing

/// A worker adds its shards' calls to the histories of both users, and reads histories for them.
@Suite struct WorkerHistoryTests {
  private let call = CallID(high: 3, low: 4)
  private let alice = UserKey.user("alice")

  private func stored(_ bench: WorkerBench, _ user: UserKey) async throws -> [HistoryMessage] {
    try await bench.bus.openHistories(HistoryOptions()).messages(of: user).map {
      try ClusterCodec.historyMessage($0.bytes)
    }
  }

  private func calls(_ bench: WorkerBench, _ user: UserKey) async throws -> [CallID] {
    try await stored(bench, user).compactMap {
      if case .entry(let entry) = $0 { entry.call } else { nil }
    }
  }

  /// Ends at once: the callee has no device.
  private func placeUnreachable(
    _ bench: WorkerBench, _ call: CallID, from caller: UserKey? = nil,
    subscriptions: Subscriptions = .history
  ) {
    bench.edge.send(
      .place(PlaceRequest(call: call, subscriptions: subscriptions)), from: 2, caller ?? alice,
      "a1",
      to: bench.user(0), request: call.low)
  }

  private func isJournalled(_ bench: WorkerBench) -> Bool {
    bench.journal.records.flatMap(\.entries).contains { $0.change == .recorded }
  }

  private func ask(_ bench: WorkerBench, _ command: HistoryCommand, request: UInt64) async throws
    -> HistoryPage
  {
    let user = bench.user(0)
    bench.edge.send(.history(command), from: 1, user, "d1", to: user, request: request)
    try await eventually("the reply") { bench.edge.reply(to: 1, request: request) != nil }
    guard case .history(let page) = bench.edge.reply(to: 1, request: request) else {
      Issue.record("not a page")
      return HistoryPage()
    }
    return page
  }

  @Test func anEndedCallIsInBothHistoriesBehindItsEnd() async throws {
    try await WorkerBench(keepsHistory: true).run { bench in
      try await bench.adopt(0)
      bench.journal.hold()
      placeUnreachable(bench, call)
      try await eventually("the end waits for the journal") { bench.journal.waiting >= 1 }
      try await bench.flush()
      #expect(try await stored(bench, alice).isEmpty)
      bench.journal.letGo()
      try await eventually("it is a fact") { isJournalled(bench) }
      #expect(try await calls(bench, alice) == [call])
      #expect(try await calls(bench, bench.user(0)) == [call])
      #expect(bench.metrics.historyMessages.value == 2)
      try await eventually("nothing waits") { bench.metrics.historyCallsWaiting.value == 0 }
    }
  }

  @Test func aStoreThatFailsIsAskedAgain() async throws {
    try await WorkerBench(keepsHistory: true).run { bench in
      try await bench.adopt(0)
      let ids = Mutex<[String]>([])
      bench.bus.setFaults {
        $0.onHistory = { id in
          ids.withLock { ids in
            ids.append(id)
            // The first is stored and its answer lost, the second is not stored.
            return ids.count == 1 ? .unknown(stored: true) : ids.count == 2 ? .refuse : nil
          }
        }
      }
      placeUnreachable(bench, call)
      try await eventually("it is a fact") { isJournalled(bench) }
      #expect(try await calls(bench, alice) == [call])
      #expect(try await calls(bench, bench.user(0)) == [call])
      let asked = ids.withLock { Array($0) }
      #expect(asked.count == 4 && Set(asked).count == 2)
      #expect(bench.metrics.historyMessagesFailed.value == 2)
    }
  }

  @Test func appsWithoutHistoriesCostNothing() async throws {
    try await WorkerBench(keepsRecords: true, keepsHistory: true).run { bench in
      try await bench.adopt(0)
      placeUnreachable(bench, call, subscriptions: [])
      try await eventually("it is a fact") { isJournalled(bench) }
      #expect(try await stored(bench, alice).isEmpty)
      #expect(bench.metrics.historyMessages.value == 0)
    }
  }

  /// The owner before stored one side, and did not come to say so.
  @Test func aNewOwnerStoresWhatIsMissing() async throws {
    try await WorkerBench(keepsHistory: true).run { bench in
      let first = try await bench.adopt(0)
      let holds = Mutex(true)
      bench.bus.setFaults {
        $0.onHistory = { id in
          holds.withLock { $0 } ? .unknown(stored: id.hasSuffix("placed")) : nil
        }
      }
      placeUnreachable(bench, call)
      try await eventually("an attempt") { bench.metrics.historyMessagesFailed.value >= 2 }
      bench.worker.inbox.offer(.deposed(shard: 0, epoch: 2))
      try await eventually("it steps down") { bench.steppedDown == [first] }
      #expect(try await calls(bench, bench.user(0)).isEmpty && !isJournalled(bench))
      holds.withLock { $0 = false }
      try await bench.recover(0, epoch: 2)
      try await eventually("a fact of the new owner") { isJournalled(bench) }
      #expect(try await calls(bench, alice) == [call])
      #expect(try await calls(bench, bench.user(0)) == [call])
    }
  }

  /// No later owner tells of an entry once the journal says that it is stored.
  @Test func itIsAFactOnceTheShardOfTheOtherSideKnows() async throws {
    try await WorkerBench(keepsHistory: true).run { bench in
      try await bench.adopt(0)
      let caller = bench.user(1)
      placeUnreachable(bench, call, from: caller)
      try await eventually("both are stored") { bench.metrics.historyMessages.value == 2 }
      #expect(try await calls(bench, caller) == [call])
      // Everything that was decided before is in the journal once this is answered.
      bench.query(50, shard: 0)
      try await eventually("the answer") { bench.isAnswered(50) }
      #expect(!isJournalled(bench), "the caller's shard has no owner")
      try await bench.adopt(1)
      try await eventually("it is a fact") { isJournalled(bench) }
    }
  }

  @Test func aUserReadsAndMarksItsHistory() async throws {
    try await WorkerBench(keepsHistory: true).run { bench in
      try await bench.adopt(0)
      let calls = (1...3).map { CallID(high: 3, low: $0) }
      for (index, call) in calls.enumerated() {
        placeUnreachable(bench, call)
        try await eventually("call \(index)") {
          bench.metrics.historyMessages.value == UInt64(2 * (index + 1))
        }
      }
      let page = try await ask(bench, .list(before: nil, limit: 2), request: 50)
      #expect(page.items.map(\.entry.call) == [calls[2], calls[1]])
      #expect(page.items.map(\.entry.peer) == ["alice", "alice"])
      #expect(page.next == page.items.last?.cursor && page.readUpTo == .start)
      let rest = try await ask(bench, .list(before: page.next, limit: 0), request: 51)
      #expect(rest.items.map(\.entry.call) == [calls[0]] && rest.next == nil)
      let missed = page.items.count { $0.entry.isMissed } + rest.items.count { $0.entry.isMissed }
      #expect(page.state.unread == UInt32(missed))

      let marked = try await ask(
        bench, .markRead(upTo: page.items[0].cursor), request: 52)
      #expect(marked.readUpTo == page.items[0].cursor && marked.state.unread == 0)
      #expect(marked.state.cursor > page.state.cursor && marked.items.isEmpty)
      let back = try await ask(bench, .markRead(upTo: rest.items[0].cursor), request: 53)
      #expect(back == marked, "less than before changes nothing")
      #expect(try await stored(bench, bench.user(0)).count == 4)
    }
  }

  /// The shard of another call adds an entry while a mark is on its way to the store.
  @Test func anEntryThatComesBeforeAMarkIsUnread() async throws {
    try await WorkerBench(keepsHistory: true, histories: { Racing(store: $0) }).run { bench in
      try await bench.adopt(0)
      placeUnreachable(bench, call)
      try await eventually("the entries") { bench.metrics.historyMessages.value == 2 }
      let page = try await ask(bench, .list(before: nil, limit: 2), request: 50)
      let marked = try await ask(bench, .markRead(upTo: page.items[0].cursor), request: 51)
      #expect(marked.readUpTo == page.items[0].cursor && marked.state.unread == 1)
      #expect(try await stored(bench, bench.user(0)).count == 3)
    }
  }

  /// Before each mark comes an entry of a missed call.
  private struct Racing: HistoryStream {
    let store: any HistoryStream

    func create(followingLimits: Bool) async throws {
      try await store.create(followingLimits: followingLimits)
    }

    func messages(of user: UserKey) async throws -> [StoredRecord] {
      try await store.messages(of: user)
    }

    func add(
      _ user: UserKey, id: String, _ bytes: [UInt8], completion: @escaping AppendCompletion
    ) {
      guard case .read? = try? ClusterCodec.historyMessage(bytes) else {
        return store.add(user, id: id, bytes, completion: completion)
      }
      let missed = HistoryEntry(
        call: CallID(high: 3, low: 9), callee: user.user, isPlaced: false, peer: "carol",
        placedAt: Timestamp(microseconds: 1000), endedAt: Timestamp(microseconds: 2000),
        reason: .unanswered, isMissed: true)
      store.add(user, id: "another", ClusterCodec.encode(.entry(missed))) { _ in
        store.add(user, id: id, bytes, completion: completion)
      }
    }
  }

  /// By its token alone: no session stands for it.
  @Test func anAppsServerReadsAndMarksAUsersHistory() async throws {
    let rig = CommandAuthenticatorTests.Rig()
    try await WorkerBench(keepsHistory: true) { $0.require(rig) }.run { bench in
      try await bench.adopt(0)
      let user = bench.user(0)
      let message = HistoryMessage.entry(
        HistoryEntry(
          call: call, callee: user.user, isPlaced: false, peer: "alice",
          placedAt: Timestamp(microseconds: 1000), endedAt: Timestamp(microseconds: 2000),
          reason: .unanswered, isMissed: true))
      let stream = try await bench.bus.openHistories(HistoryOptions())
      await withCheckedContinuation { added in
        stream.add(user, id: "1", ClusterCodec.encode(message)) { _ in added.resume() }
      }
      let edge = try ForgingEdge(bench)
      func server(of app: String) throws -> Credential {
        let now = bench.clock.now().microseconds / 1_000_000
        return .token(try rig.keys.mintServerToken(app: app, lifetimeSeconds: 60, now: now))
      }
      let (mine, other) = (try server(of: user.app), try server(of: "demo"))
      let list = Command.Body.history(.list(before: nil, limit: 10))
      guard case .history(let page) = try await edge.ask(list, of: user, "", mine) else {
        throw Timeout(what: "no page")
      }
      #expect(page.items.map(\.entry.call) == [call])
      #expect(page.state.unread == 1 && page.readUpTo == .start)

      let cursor = try #require(page.items.first?.cursor)
      let mark = Command.Body.history(.markRead(upTo: cursor))
      for body in [list, mark] { _ = try await edge.ask(body, of: user, "", other) }
      #expect(edge.errors == [.notAccepted, .notAccepted])
      #expect(try await edge.ask(list, of: user, "", mine) == .history(page))
      #expect(try await stored(bench, user) == [message])

      guard case .history(let marked) = try await edge.ask(mark, of: user, "", mine) else {
        throw Timeout(what: "no mark")
      }
      #expect(marked.readUpTo == cursor && marked.state.unread == 0)
      #expect(try await stored(bench, user) == [message, .read(upTo: cursor)])
    }
  }
}
