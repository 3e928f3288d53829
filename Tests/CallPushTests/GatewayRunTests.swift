import CallAuth
import CallBus
import CallCore
import CallPush
import CallTelemetry
import CallWire
import Logging
import Synchronization
import Testing

extension GatewayTests {
  /// A token of another app is not sent with this app's keys.
  @Test func entriesServeTheirApps() async throws {
    let bench = try await Bench()
    try bench.listen()
    let sender = Sender(.accepted)
    let gateway = bench.gateway("push-1", lanes: [("app", .apnsProduction, sender)], apps: ["demo"])
    await withTaskGroup(of: Void.self) { group in
      group.addTask { try? await gateway.run() }
      await bench.add(bench.job(1, topic: "app", lasts: .milliseconds(200), app: "other"))
      await bench.add(bench.job(2, topic: "app"))
      let reports = await bench.collect(2, from: bench.reports)
      let mine = reports.first { $0.call.low == 2 }
      let others = reports.first { $0.call.low == 1 }
      #expect(mine?.outcome == .accepted)
      switch others?.outcome {
      case .rejected, .expired: break
      default: Issue.record("\(String(describing: others))")
      }
      #expect(await bench.collect(1, from: sender.seen).count == 1)
      group.cancelAll()
    }
  }

  @Test func jobsAreSentReportedAndForgotten() async throws {
    let bench = try await Bench()
    try bench.listen()
    let sender = Sender(.accepted)
    let gateway = bench.gateway("push-1", [("app", sender)])
    try await withThrowingTaskGroup(of: Void.self) { group in
      group.addTask { try await gateway.run() }
      for number in UInt64(1)...100 { await bench.add(bench.job(number, topic: "app")) }
      let messages = await bench.collect(100, from: sender.seen)
      #expect(Set(messages.map(\.id)).count == 100)
      let reports = await bench.collect(100, from: bench.reports)
      #expect(reports.allSatisfy { $0.outcome == .accepted })
      #expect(Set(reports.map(\.call)).count == 100)
      try await bench.isEmpty()
      // The capability is valid for that device and call only.
      let keys = try PushCapabilityKeys([[UInt8](repeating: 7, count: 32)])
      let text = String(decoding: messages[0].payload, as: UTF8.self)
      let allowed = try keys.verify(text, now: bench.clock.now().microseconds / 1_000_000)
      #expect(allowed.device == "phone")
      gateway.beginShutdown()
      try await group.waitForAll()
    }
    await bench.bus.close()
  }

  /// One team's provider is dead. The pushes of the other team continue, and its own resume when it is back.
  @Test func aDeadPoolDelaysNoOther() async throws {
    let bench = try await Bench()
    try bench.listen()
    let (dead, well) = (Sender(nil), Sender(.accepted))
    let gateway = bench.gateway("push-1", [("dead", dead), ("well", well)], sends: 5)
    try await withThrowingTaskGroup(of: Void.self) { group in
      group.addTask { try await gateway.run() }
      // More jobs than the pool holds: the others return to the queue.
      for number in UInt64(1)...40 { await bench.add(bench.job(number, topic: "dead")) }
      _ = await bench.collect(5, from: dead.seen)
      for number in UInt64(101)...200 { await bench.add(bench.job(number, topic: "well")) }
      #expect(await bench.collect(100, from: well.seen).count == 100)
      #expect(dead.seen.depth == 0, "more under way than allowed")
      dead.release(.accepted)
      #expect(await bench.collect(35, from: dead.seen).count == 35)
      try await bench.isEmpty()
      gateway.beginShutdown()
      try await group.waitForAll()
    }
    await bench.bus.close()
  }

  /// A gateway dies with a push under way. Another gateway sends it under the same id.
  @Test func whatADeadGatewayHadIsSentByAnother() async throws {
    let bench = try await Bench()
    try bench.listen()
    let (stuck, well) = (Sender(nil), Sender(.accepted))
    let dying = bench.gateway("push-1", [("app", stuck)])
    let run = Task { try await dying.run() }
    await bench.add(bench.job(1, topic: "app"))
    let first = await bench.collect(1, from: stuck.seen)
    // Like a crash: no job is returned, and nothing more is sent.
    run.cancel()
    let living = bench.gateway("push-2", [("app", well)])
    try await withThrowingTaskGroup(of: Void.self) { group in
      group.addTask { try await living.run() }
      let second = await bench.collect(1, from: well.seen)
      #expect(second.map(\.id) == first.map(\.id))
      try await bench.isEmpty()
      living.beginShutdown()
      try await group.waitForAll()
    }
    stuck.release(.failed(reason: "dead"))
    _ = try? await run.value
    await bench.bus.close()
  }

  @Test func lateJobsAreDroppedAndReported() async throws {
    let bench = try await Bench()
    try bench.listen()
    let sender = Sender(.accepted)
    let gateway = bench.gateway("push-1", [("app", sender)])
    await bench.add(bench.job(1, topic: "app", lasts: .milliseconds(-1)))
    try await withThrowingTaskGroup(of: Void.self) { group in
      group.addTask { try await gateway.run() }
      #expect(await bench.collect(1, from: bench.reports).map(\.outcome) == [.expired])
      try await bench.isEmpty()
      #expect(sender.seen.depth == 0)
      gateway.beginShutdown()
      try await group.waitForAll()
    }
    await bench.bus.close()
  }

  /// A shard without an owner for a while receives the report of a gone token in the end.
  @Test func whatMustBeHeardIsRepeatedUntilItIs() async throws {
    let bench = try await Bench()
    let heard = Mutex(0)
    try bench.listen {
      heard.withLock {
        $0 += 1
        return $0 > 2
      }
    }
    let sender = Sender(.tokenGone(at: nil))
    let gateway = bench.gateway("push-1", [("app", sender)])
    try await withThrowingTaskGroup(of: Void.self) { group in
      group.addTask { try await gateway.run() }
      await bench.add(bench.job(1, topic: "app"))
      #expect(await bench.collect(2, from: bench.reports).count == 2)
      #expect(try await bench.queue.depth(lane: "apns-production") == 1)
      #expect(await bench.collect(1, from: bench.reports).count == 1)
      try await bench.isEmpty()
      #expect(sender.seen.depth == 1, "sent once")
      gateway.beginShutdown()
      try await group.waitForAll()
    }
    await bench.bus.close()
  }

  /// A draining gateway finishes the pushes under way and returns the rest to the queue.
  @Test func aDrainFinishesWhatIsUnderWay() async throws {
    let bench = try await Bench()
    try bench.listen()
    let sender = Sender(nil)
    let gateway = bench.gateway("push-1", [("app", sender)], sends: 2)
    let run = Task { try await gateway.run() }
    for number in UInt64(1)...4 { await bench.add(bench.job(number, topic: "app")) }
    _ = await bench.collect(2, from: sender.seen)
    gateway.beginShutdown()
    sender.release(.accepted)
    try await run.value
    #expect(await bench.collect(2, from: bench.reports).count == 2)
    // The two jobs that were not begun.
    let left = Inbox<WorkItem>(capacity: 10)
    _ = try await bench.queue.consume(lane: "apns-production", inFlight: 10) { left.offer($0) }
    #expect(await bench.collect(2, from: left).count == 2)
    await bench.bus.close()
  }
}
