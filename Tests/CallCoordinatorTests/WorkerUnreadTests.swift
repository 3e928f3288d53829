import CallBus
import CallCoordinator
import CallCore
import CallTelemetry
import CallWire
import Testing

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
    bench.edge.send(
      .place(request), from: 2, alice, "a1", to: bench.user(0), request: 100 + number)
  }

  private func numbers(_ bench: WorkerBench) -> [UInt32?] { bench.outlet.kept.map(\.unread) }

  /// The call is counted whether its own entry is stored by then or not.
  @Test func theCallJustMissedCounts() async throws {
    try await WorkerBench(keepsHistory: true).run { bench in
      try await bench.adopt(0)
      for device in ["b1", "b2"] as [DeviceID] { try await enrol(bench, device) }
      miss(bench, 1)
      try await eventually("both notices") { bench.outlet.kept.count == 2 }
      #expect(numbers(bench) == [1, 1])
      miss(bench, 2)
      try await eventually("both again") { bench.outlet.kept.count == 4 }
      #expect(numbers(bench).suffix(2) == [2, 2])
      #expect(bench.metrics.pushesUncounted.value == 0)
    }
  }

  @Test func afterTheUserHasReadTheNextPushSaysSo() async throws {
    try await WorkerBench(keepsHistory: true).run { bench in
      try await bench.adopt(0)
      try await enrol(bench, "b1")
      for number in [1, 2] as [UInt64] { miss(bench, number) }
      try await eventually("both entries") { bench.metrics.historyMessages.value == 4 }
      let user = bench.user(0)
      let reply = try await bench.edge.ask(
        .history(.markRead(upTo: HistoryCursor(1000))), from: 1, user, "b2", to: user)
      guard case .history(let page) = reply else {
        Issue.record("not read: \(reply)")
        return
      }
      #expect(page.state.unread == 0)
      miss(bench, 3)
      try await eventually("the notice") { bench.outlet.kept.count == 3 }
      #expect(numbers(bench).last == 1)
    }
  }

  /// The store takes no entry, but can be read.
  @Test func entriesThatAreNotStoredYetCount() async throws {
    try await WorkerBench(keepsHistory: true).run { bench in
      try await bench.adopt(0)
      try await enrol(bench, "b1")
      bench.bus.setFaults { $0.onHistory = { _ in .refuse } }
      for number in [1, 2, 3] as [UInt64] {
        miss(bench, number)
        try await eventually("notice \(number)") { bench.outlet.kept.count == Int(number) }
      }
      #expect(numbers(bench) == [1, 2, 3])
    }
  }

  @Test func appsWithoutHistoriesHaveNoNumber() async throws {
    try await WorkerBench(keepsHistory: true).run { bench in
      try await bench.adopt(0)
      try await enrol(bench, "b1")
      miss(bench, 1, subscriptions: [])
      try await eventually("the notice") { bench.outlet.kept.count == 1 }
      #expect(numbers(bench) == [nil])
      #expect(bench.metrics.historyReads.value == 0)
    }
  }

  @Test func withoutRoomPushesGoWithout() async throws {
    try await WorkerBench(keepsHistory: true) { $0.unreadPushesMax = 0 }.run { bench in
      try await bench.adopt(0)
      try await enrol(bench, "b1")
      miss(bench, 1)
      try await eventually("the notice") { bench.outlet.kept.count == 1 }
      #expect(numbers(bench) == [nil] && bench.metrics.pushesUncounted.value == 1)
    }
  }

  /// A read that hangs: no read begins at all.
  @Test func aReadThatTakesTooLongDelaysThePushForAMoment() async throws {
    try await WorkerBench(keepsHistory: true) { $0.unreadReadsAtOnce = 0 }.run { bench in
      try await bench.adopt(0)
      try await enrol(bench, "b1")
      miss(bench, 1)
      try await eventually("the notice") { bench.outlet.kept.count == 1 }
      #expect(numbers(bench) == [nil] && bench.metrics.pushesUncounted.value == 1)
    }
  }
}
