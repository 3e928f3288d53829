import CallBus
import CallCore
import CallPush
import CallTelemetry
import Foundation
import Synchronization
import Testing

/// Lanes that are unavailable for a while or for ever.
@Suite(.timeLimit(.minutes(2))) struct GatewayLaneTests {
  typealias Bench = GatewayTests.Bench
  typealias Sender = GatewayTests.Sender

  /// The result of attempts to consume a lane.
  final class Gate: Sendable {
    enum Way: Sendable {
      case open
      case failing
      /// Neither success nor failure, until the task is cancelled or the result changes.
      case silent
    }
    private let way: Mutex<[PushLane: Way]>
    private let attempts = Inbox<PushLane>(capacity: 10_000)

    /// Intercepts the lanes of a bus from now on.
    init(_ ways: [PushLane: Way], before bus: InProcessBus) {
      way = Mutex(ways)
      bus.setFaults { faults in
        faults.onTake = { [self] lane in
          if let lane = PushLane(rawValue: lane) { try await pass(lane) }
        }
      }
    }

    func set(_ lane: PushLane, _ new: Way) { way.withLock { $0[lane] = new } }

    private func pass(_ lane: PushLane) async throws {
      attempts.offer(lane)
      let pause = Inbox<Never>(capacity: 1)
      while true {
        try Task.checkCancellation()
        switch way.withLock({ $0[lane] ?? .open }) {
        case .open: return
        case .failing: throw BusError.notReady("no leader")
        case .silent: _ = await pause.next(until: .now + .milliseconds(1))
        }
      }
    }

    /// Waits for this many attempts at a lane.
    func tries(_ count: Int, _ lane: PushLane) async {
      var seen = 0
      while seen < count {
        let batch = await attempts.next(until: .now + .seconds(30))
        if batch.isEmpty {
          Issue.record("no attempt at \(lane)")
          return
        }
        seen += batch.count { $0 == lane }
      }
    }
  }

  private func ask(_ bench: Bench, _ action: DrainRequest.Action) async throws {
    let request = try JSONEncoder().encode(DrainRequest(node: "push-1", action: action))
    _ = try await bench.bus.request(
      bench.subjects.order(action.rawValue, by: "ann"), Array(request), timeout: .seconds(30))
  }

  /// The gateway processes requests and orders in the order of arrival.
  private func status(_ bench: Bench) async throws -> NodeStatus {
    let answer = try await bench.bus.request(
      bench.subjects.adminStatus, [], timeout: .seconds(30))
    return try JSONDecoder().decode(NodeStatus.self, from: Data(answer.bytes))
  }

  @Test func aLaneThatCannotBeTakenHoldsUpNothingElse() async throws {
    let bench = try await Bench()
    let gate = Gate([.fcm: .silent], before: bench.bus)
    let (well, waiting) = (Sender(.accepted), Sender(.accepted))
    // Neither lane must block the other.
    let gateway = bench.gateway(
      "push-1", lanes: [("late", .fcm, waiting), ("well", .apnsProduction, well)])
    // It shuts down although the attempt is still pending.
    try await bench.run(gateway) {
      await gate.tries(1, .fcm)
      await bench.add(bench.job(1, topic: "well"))
      #expect(await bench.collect(1, from: well.seen).count == 1)
      #expect(await bench.collect(1, from: bench.reports).map(\.outcome) == [.accepted])
      let lanes = try await status(bench).push?.lanes
      #expect(lanes?.count == 2)
    }
    #expect(waiting.seen.depth == 0)
    await bench.bus.close()
  }

  @Test func aLaneThatFailsIsTriedAgain() async throws {
    let bench = try await Bench()
    let gate = Gate([.fcm: .failing], before: bench.bus)
    let sender = Sender(.accepted)
    try await bench.run(bench.gateway("push-1", lanes: [("app", .fcm, sender)])) {
      await bench.add(bench.job(1), lane: .fcm)
      await gate.tries(2, .fcm)
      gate.set(.fcm, .open)
      #expect(await bench.collect(1, from: sender.seen).count == 1)
    }
    await bench.bus.close()
  }

  /// An attempt that began before a drain and succeeds after it consumes nothing.
  @Test func anAttemptThatADrainHasOvertakenTakesNothing() async throws {
    let bench = try await Bench()
    let gate = Gate([.fcm: .silent], before: bench.bus)
    let sender = Sender(.accepted)
    try await bench.run(bench.gateway("push-1", lanes: [("app", .fcm, sender)])) {
      await gate.tries(1, .fcm)
      try await ask(bench, .drain)
      #expect(try await status(bench).state == "leaving")
      gate.set(.fcm, .open)
      await bench.add(bench.job(1), lane: .fcm)
      gate.set(.fcm, .silent)
      try await ask(bench, .resume)
      #expect(try await status(bench).state == "serving")
      // One more attempt, of the current round.
      await gate.tries(1, .fcm)
      gate.set(.fcm, .open)
      #expect(await bench.collect(1, from: sender.seen).count == 1)
      try await bench.isEmpty(.fcm)
      #expect(sender.seen.depth == 0)
      try await ask(bench, .drain)
      _ = try await status(bench)
      await bench.add(bench.job(2), lane: .fcm)
    }
    // No subscription is left.
    #expect(sender.seen.depth == 0)
    #expect(try await bench.queue.depth(lane: "fcm") == 1)
    await bench.bus.close()
  }
}
