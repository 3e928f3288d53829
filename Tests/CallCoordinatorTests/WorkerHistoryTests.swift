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

  private func ask(_ bench: WorkerBench, _ command: HistoryCommand, request: UInt64) async throws
    -> HistoryPage
  {
    let user = bench.user(0)
    bench.edge.send(.history(command), from: 1, user, "d1", to: user, request: request)
    try await eventually("the reply") { bench.edge.reply(to: 1, request: request) != nil }
    return try #require(bench.edge.reply(to: 1, request: request)?.history)
  }

  /// No later owner tells of an entry once the journal says that it is stored.
  @Test func itIsAFactOnceTheShardOfTheOtherSideKnows() async throws {
    try await WorkerBench(keeping: [.history]).serve { bench in
      let caller = bench.user(1)
      bench.placeUnreachable(call, from: caller, subscriptions: .history)
      try await eventually("both are stored") { bench.metrics.historyMessages.value == 2 }
      let calls = try await bench.storedHistory(caller).map {
        if case .entry(let entry) = $0 { entry.call } else { nil as CallID? }
      }
      #expect(calls == [call])
      // Everything that was decided before is in the journal once this is answered.
      try await bench.ask(50)
      #expect(!bench.isJournalled, "the caller's shard has no owner")
      try await bench.adopt(1)
      try await eventually("it is a fact") { bench.isJournalled }
    }
  }

  @Test func aUserReadsAndMarksItsHistory() async throws {
    try await WorkerBench(keeping: [.history]).serve { bench in
      let calls = (1...3).map { CallID(high: 3, low: $0) }
      for (index, call) in calls.enumerated() {
        bench.placeUnreachable(call, subscriptions: .history)
        try await eventually("call \(index)") {
          bench.metrics.historyMessages.value == UInt64(2 * (index + 1))
        }
      }
      let page = try await ask(bench, .list(before: nil, limit: 2), request: 50)
      #expect(page.items.map(\.entry.call) == [calls[2], calls[1]])
      #expect(page.next == page.items.last?.cursor && page.readUpTo == .start)
      // Without a limit: the standard.
      let rest = try await ask(bench, .list(before: page.next, limit: 0), request: 51)
      #expect(rest.items.map(\.entry.call) == [calls[0]] && rest.next == nil)
      let marked = try await ask(bench, .markRead(upTo: page.items[0].cursor), request: 52)
      #expect(marked.readUpTo == page.items[0].cursor && marked.state.unread == 0)
      let back = try await ask(bench, .markRead(upTo: rest.items[0].cursor), request: 53)
      #expect(back == marked, "less than before changes nothing")
      #expect(try await bench.storedHistory(bench.user(0)).count == 4)
    }
  }

  /// The shard of another call adds an entry while a mark is on its way to the store.
  @Test func anEntryThatComesBeforeAMarkIsUnread() async throws {
    let missed = HistoryEntry(
      call: CallID(high: 3, low: 9), callee: "bob", isPlaced: false, peer: "carol",
      placedAt: Timestamp(microseconds: 1000), endedAt: Timestamp(microseconds: 2000),
      reason: .unanswered, isMissed: true)
    let histories = { @Sendable store in
      Marked(store: store) { user, id, bytes, completion in
        store.add(user, id: "another", ClusterCodec.encode(.entry(missed))) { _ in
          store.add(user, id: id, bytes, completion: completion)
        }
      }
    }
    try await WorkerBench(keeping: [.history], histories: histories).serve { bench in
      bench.placeUnreachable(call, subscriptions: .history)
      try await eventually("the entries") { bench.metrics.historyMessages.value == 2 }
      let page = try await ask(bench, .list(before: nil, limit: 2), request: 50)
      let marked = try await ask(bench, .markRead(upTo: page.items[0].cursor), request: 51)
      #expect(marked.readUpTo == page.items[0].cursor && marked.state.unread == 1)
      #expect(try await bench.storedHistory(bench.user(0)).count == 3)
    }
  }

  /// The store has it or not, and does not say; the device that marked never asks again.
  @Test(arguments: [true, false]) func aMarkWithoutAnAnswerIsShown(isStored: Bool) async throws {
    let isFirst = Mutex(true)
    let histories = { @Sendable store in
      Marked(store: store) { user, id, bytes, completion in
        let isFirst = isFirst.withLock { first in
          defer { first = false }
          return first
        }
        guard isFirst else { return store.add(user, id: id, bytes, completion: completion) }
        guard isStored else { return completion(.unknown("it is lost")) }
        store.add(user, id: id, bytes) { _ in completion(.unknown("its answer is lost")) }
      }
    }
    try await WorkerBench(keeping: [.history], histories: histories).serve { bench in
      let user = bench.user(0)
      bench.placeUnreachable(call, subscriptions: .history)
      try await eventually("the entries") { bench.metrics.historyMessages.value == 2 }
      let attach = Attach(history: HistoryMark(shown: nil))
      bench.edge.send(.attach(attach), from: 2, user, "d2", to: user, request: 49)
      try await eventually("d2 sees a missed call") { bench.lastHistory(2)?.unread == 1 }
      let cursor = try #require(bench.lastHistory(2)?.cursor)
      bench.edge.send(.history(.markRead(upTo: cursor)), from: 1, user, "d1", to: user, request: 50)
      try await eventually("d2 sees that it was read") { bench.lastHistory(2)?.unread == 0 }
      #expect(bench.edge.errors == [.tryAgain])
      #expect(try await bench.storedHistory(user).last == .read(upTo: cursor))
    }
  }

  /// The next owner does not know of the mark, so the edge has to ask it.
  @Test func whoNoLongerOwnsTheShardDoesNotAnswerAMark() async throws {
    let held = Mutex<AppendCompletion?>(nil)
    let histories = { @Sendable store in
      Marked(store: store) { user, id, bytes, completion in
        store.add(user, id: id, bytes) { _ in held.withLock { $0 = completion } }
      }
    }
    try await WorkerBench(keeping: [.history], histories: histories).serve { bench in
      let user = bench.user(0)
      bench.placeUnreachable(call, subscriptions: .history)
      try await eventually("the entries") { bench.metrics.historyMessages.value == 2 }
      let page = try await ask(bench, .list(before: nil, limit: 2), request: 50)
      let cursor = page.items[0].cursor
      bench.edge.send(.history(.markRead(upTo: cursor)), from: 1, user, "d1", to: user, request: 51)
      try await eventually("the mark is stored") { held.withLock { $0 != nil } }
      try await bench.depose()
      held.withLock { $0 }?(.appended(sequence: 3))
      try await eventually("the owner of before knows") { bench.metrics.historyReads.value == 2 }
      try await bench.flush()
      #expect(bench.edge.reply(to: 1, request: 51) == nil)
    }
  }

  /// A store whose marks are carried out by the test.
  private struct Marked: HistoryStream {
    let store: any HistoryStream
    let mark: @Sendable (UserKey, String, [UInt8], @escaping AppendCompletion) -> Void

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
      mark(user, id, bytes, completion)
    }
  }

  /// By its token alone: no session stands for it.
  @Test func anAppsServerReadsAndMarksAUsersHistory() async throws {
    let rig = CommandAuthenticatorTests.Rig()
    try await WorkerBench(keeping: [.history]) { $0.require(rig) }.serve { bench in
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
      let edge = try FakeEdge(bench)
      func server(of app: String) throws -> Credential {
        let now = bench.clock.now().microseconds / 1_000_000
        return .token(try rig.keys.mintServerToken(app: app, lifetimeSeconds: 60, now: now))
      }
      let (mine, other) = (try server(of: user.app), try server(of: "demo"))
      let list = Command.Body.history(.list(before: nil, limit: 10))
      let page = try #require(try await edge.ask(list, of: user, "", mine).history)
      #expect(page.items.map(\.entry.call) == [call])
      #expect(page.state.unread == 1 && page.readUpTo == .start)

      let cursor = try #require(page.items.first?.cursor)
      let mark = Command.Body.history(.markRead(upTo: cursor))
      for body in [list, mark] { _ = try await edge.ask(body, of: user, "", other) }
      #expect(edge.errors == [.notAccepted, .notAccepted])
      #expect(try await edge.ask(list, of: user, "", mine) == .history(page))
      #expect(try await bench.storedHistory(user) == [message])

      let marked = try #require(try await edge.ask(mark, of: user, "", mine).history)
      #expect(marked.readUpTo == cursor && marked.state.unread == 0 && marked.items.isEmpty)
      // Again it changes nothing.
      #expect(try await edge.ask(mark, of: user, "", mine) == .history(marked))
      #expect(try await bench.storedHistory(user) == [message, .read(upTo: cursor)])
    }
  }
}

extension WorkerBench {
  /// The state of its user's history that a session was shown last.
  fileprivate func lastHistory(_ session: UInt64) -> HistoryState? {
    edge.items.last { item in
      if item.session == session, case .history = item.body { true } else { false }
    }.flatMap { if case .history(let state) = $0.body { state } else { nil } }
  }
}
