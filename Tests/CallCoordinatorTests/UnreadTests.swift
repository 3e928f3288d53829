import CallBus
import CallCoordinator
import CallCore
import CallTelemetry
import CallWire
import Testing

/// Pushes that wait for the number of unread missed calls.
@Suite struct UnreadReadsTests {
  private let start = Timestamp(microseconds: 1_000_000_000)
  private let term = ShardTerm(shard: 3, epoch: 7)
  private let bob = UserKey.user("bob")
  private let carol = UserKey.user("carol")

  private func push(_ number: UInt64, _ term: ShardTerm? = nil) -> UnreadReads.Push {
    let job = PushJob(
      user: bob, device: DeviceID("b\(number)"), call: CallID(high: 1, low: number),
      purpose: .missedNotice,
      token: PushToken(provider: .apns, environment: "production", topic: "t", token: "c0ffee"),
      dialect: .callmesh, caller: Party(user: "alice", device: "a1"), video: false, headers: [],
      placedAt: start, ringDeadline: start, decidedAt: start, deadline: start + .seconds(30))
    return UnreadReads.Push(
      term: term ?? self.term, job: job, missed: [PlacedCall(job.call, placedAt: start)])
  }

  private func end(_ read: UnreadReads.Read?, _ reads: inout UnreadReads) -> [UnreadReads.Push] {
    read.map { reads.ended($0.number) } ?? []
  }

  @Test func oneReadForThePushesOfAUser() {
    var reads = UnreadReads(atOnce: 10, pushesMax: 10)
    #expect(reads.nextDeadline == .distantFuture && reads.next() == nil)
    for number in [1, 2] as [UInt64] {
      #expect(reads.add(push(number), of: bob, now: start) == true)
    }
    #expect(reads.add(push(3), of: carol, now: start) == true)
    #expect(reads.count == 3 && reads.nextDeadline == start + UnreadReads.waitMax)
    let (first, second) = (reads.next(), reads.next())
    #expect(first?.user == bob && second?.user == carol && reads.next() == nil)
    #expect(end(first, &reads) == [push(1), push(2)])
    #expect(end(first, &reads).isEmpty, "answered twice")
    #expect(end(second, &reads) == [push(3)])
    #expect(reads.count == 0 && reads.nextDeadline == .distantFuture)
  }

  /// Anything that is stored between the beginning of a read and the decision would be in neither.
  @Test func aReadThatHasBegunTakesNoFurtherPushes() {
    var reads = UnreadReads(atOnce: 10, pushesMax: 10)
    _ = reads.add(push(1), of: bob, now: start)
    let first = reads.next()
    _ = reads.add(push(2), of: bob, now: start)
    let second = reads.next()
    #expect(second?.user == bob && first != second)
    #expect(end(second, &reads) == [push(2)])
    #expect(end(first, &reads) == [push(1)])
  }

  @Test func aPushGoesWithoutRatherThanLate() {
    var reads = UnreadReads(atOnce: 1, pushesMax: 10)
    _ = reads.add(push(1), of: bob, now: start)
    let first = reads.next()
    _ = reads.add(push(2), of: carol, now: start + .milliseconds(100))
    #expect(reads.next() == nil, "one at once")
    #expect(reads.expired(now: start + .milliseconds(299)).isEmpty)
    #expect(reads.expired(now: start + UnreadReads.waitMax) == [push(1)])
    #expect(reads.expired(now: start + .seconds(1)) == [push(2)], "its read never began")
    #expect(reads.count == 0 && reads.nextDeadline == .distantFuture)
    // The store is still asked: nobody else is, until it answers.
    _ = reads.add(push(3), of: carol, now: start + .seconds(2))
    #expect(reads.next() == nil)
    #expect(end(first, &reads).isEmpty, "too late")
    let third = reads.next()
    #expect(third?.user == carol)
    #expect(end(third, &reads) == [push(3)])
  }

  @Test func thereIsALimit() {
    var reads = UnreadReads(atOnce: 10, pushesMax: 2)
    for number in [1, 2] as [UInt64] {
      #expect(reads.add(push(number), of: bob, now: start) == true)
    }
    #expect(reads.add(push(3), of: carol, now: start) == false)
    _ = reads.expired(now: start + .seconds(1))
    #expect(reads.add(push(3), of: carol, now: start + .seconds(1)) == true)
  }

  @Test func aShardThatIsHandedOverTakesItsPushesAlong() {
    var reads = UnreadReads(atOnce: 10, pushesMax: 10)
    let other = ShardTerm(shard: 4, epoch: 1)
    _ = reads.add(push(1), of: bob, now: start)
    _ = reads.add(push(2, other), of: bob, now: start)
    #expect(reads.leave(term) == [push(1)])
    #expect(reads.leave(term).isEmpty && reads.count == 1)
    #expect(reads.expired(now: start + .seconds(1)) == [push(2, other)])
  }
}

/// Pushes of apps with histories have the number of unread missed calls.
@Suite struct WorkerUnreadTests {
  private let alice = UserKey.user("alice")

  private func enrol(_ bench: WorkerBench, _ device: DeviceID) async throws {
    let user = bench.user(0)
    var token = bench.token("alert-\(device.text)")
    token.topic = "org.example"
    _ = try await bench.edge.ask(
      .register(RegistrationRequest(alertToken: token, capabilities: .missedNotice)), from: 50,
      user, device, to: user)
  }

  /// Ends at once, missed: the callee has tokens for alerts only.
  private func miss(_ bench: WorkerBench, _ number: UInt64, subscriptions: Subscriptions = .history)
  {
    let request = PlaceRequest(call: CallID(high: 3, low: number), subscriptions: subscriptions)
    bench.edge.send(.place(request), from: 2, alice, "a1", to: bench.user(0), request: 100 + number)
  }

  private func numbers(_ bench: WorkerBench) -> [UInt32?] { bench.outlet.kept.map(\.unread) }

  /// Waits for that many notices in all.
  @inline(never)
  private func notices(_ count: Int, _ bench: WorkerBench) async throws {
    try await eventually("\(count) notices") { bench.outlet.kept.count == count }
  }

  /// The call is counted whether its own entry is stored by then or not.
  @Test func theCallJustMissedCounts() async throws {
    try await WorkerBench(keeping: [.history]).serve { bench in
      for device in ["b1", "b2"] as [DeviceID] { try await enrol(bench, device) }
      miss(bench, 1)
      try await notices(2, bench)
      #expect(numbers(bench) == [1, 1])
      miss(bench, 2)
      try await notices(4, bench)
      #expect(numbers(bench).suffix(2) == [2, 2])
      #expect(bench.metrics.pushesUncounted.value == 0)
    }
  }

  @Test func afterTheUserHasReadTheNextPushSaysSo() async throws {
    try await WorkerBench(keeping: [.history]).serve { bench in
      try await enrol(bench, "b1")
      for number in [1, 2] as [UInt64] { miss(bench, number) }
      try await eventually("both entries") { bench.metrics.historyMessages.value == 4 }
      let user = bench.user(0)
      let reply = try await bench.edge.ask(
        .history(.markRead(upTo: HistoryCursor(1000))), from: 1, user, "b2", to: user)
      #expect(reply.history?.state.unread == 0)
      miss(bench, 3)
      try await notices(3, bench)
      #expect(numbers(bench).last == 1)
    }
  }

  /// The store takes no entry, but can be read.
  @Test func entriesThatAreNotStoredYetCount() async throws {
    try await WorkerBench(keeping: [.history]).serve { bench in
      try await enrol(bench, "b1")
      bench.bus.setFaults { $0.onHistory = { _ in .refuse } }
      for number in [1, 2, 3] as [UInt64] {
        miss(bench, number)
        try await notices(Int(number), bench)
      }
      #expect(numbers(bench) == [1, 2, 3])
    }
  }

  @Test func appsWithoutHistoriesHaveNoNumber() async throws {
    try await WorkerBench(keeping: [.history]).serve { bench in
      try await enrol(bench, "b1")
      miss(bench, 1, subscriptions: [])
      try await notices(1, bench)
      #expect(numbers(bench) == [nil])
      #expect(bench.metrics.historyReads.value == 0)
    }
  }

  /// There is no room; or a read hangs, and no read begins at all: it delays the push for a moment.
  @Test(arguments: [true, false]) func somePushesGoWithout(hasRoom: Bool) async throws {
    try await WorkerBench(keeping: [.history]) {
      if hasRoom { $0.unreadReadsAtOnce = 0 } else { $0.unreadPushesMax = 0 }
    }.serve { bench in
      try await enrol(bench, "b1")
      miss(bench, 1)
      try await notices(1, bench)
      #expect(numbers(bench) == [nil] && bench.metrics.pushesUncounted.value == 1)
    }
  }
}
