import CallBus
import CallCore
import CallSimulation
import Testing

private func sequence(_ result: AppendResult) throws -> UInt64 {
  guard case .appended(let sequence) = result else {
    throw BusError.failed("not appended: \(result)")
  }
  return sequence
}

/// The simulated NATS behaves as the protocols of the bus require, and has faults when asked for.
@Suite struct NetworkTests {
  /// Touched by the world's thread only.
  private final class Log: @unchecked Sendable {
    var lines: [String] = []
    var results: [AppendResult] = []
  }

  private struct Rig {
    let world: SimWorld
    let nats: SimNATS
    var buses: [SimBus] = []

    init(seed: UInt64, nodes: Int) {
      world = SimWorld(seed: seed)
      nats = SimNATS(world)
      for number in 0..<nodes { buses.append(nats.connect(node: world.makeNode("n\(number)"))) }
    }

    /// Runs a task of a node to its end.
    func run(_ node: Int, _ body: @escaping @Sendable (SimBus) async throws -> Void) {
      let bus = buses[node]
      let task = bus.node.start {
        do { try await body(bus) } catch { Issue.record("\(error)") }
      }
      world.run(for: .seconds(10))
      task.cancel()
    }
  }

  @Test func messagesKeepTheirOrderAndReachEverybody() throws {
    let rig = Rig(seed: 1, nodes: 3)
    let log = Log()
    for bus in rig.buses {
      _ = try bus.subscribe("a.*") { log.lines.append(String(decoding: $0.bytes, as: UTF8.self)) }
    }
    rig.world.run(for: .milliseconds(10))
    for number in 0..<50 { rig.buses[0].publish("a.b", Array("\(number)".utf8)) }
    rig.world.run(for: .seconds(1))
    #expect(log.lines.count == 150)
    var next: [String: Int] = [:]
    for line in log.lines { next[line, default: 0] += 1 }
    #expect(next.values.allSatisfy { $0 == 3 })
    #expect(log.lines.first == "0" && log.lines.last == "49")
  }

  @Test func aBrokenLineLosesWhatIsUnderWayAndSendsWhatWaitedLater() throws {
    let rig = Rig(seed: 2, nodes: 2)
    let log = Log()
    _ = try rig.buses[1].subscribe("x") {
      log.lines.append(String(decoding: $0.bytes, as: UTF8.self))
    }
    rig.world.run(for: .milliseconds(10))
    rig.nats.cut([rig.buses[1].node], for: .seconds(1), notice: .milliseconds(1))
    rig.world.run(for: .milliseconds(100))
    #expect(!rig.buses[1].statistics.connected)
    rig.buses[0].publish("x", Array("lost".utf8))
    rig.world.run(for: .milliseconds(100))
    rig.nats.cut([rig.buses[0].node], for: .seconds(2), notice: .milliseconds(1))
    rig.world.run(for: .milliseconds(100))
    rig.buses[0].publish("x", Array("late".utf8))
    rig.world.run(for: .seconds(5))
    #expect(rig.buses[1].statistics.connected)
    #expect(log.lines == ["late"])
  }

  /// No job goes to a consumer whose request arrived, and whose node gave it up before the answer.
  @Test func whoGaveUpConsumingGetsNoJobs() throws {
    let rig = Rig(seed: 5, nodes: 2)
    let log = Log()
    rig.run(0) { bus in
      let queue = try await bus.openWorkQueue(WorkQueueOptions())
      bus.storeTimeout = .zero
      await #expect(throws: BusError.timeout) {
        _ = try await queue.consume(lane: "fcm", inFlight: 10) { _ in }
      }
    }
    rig.run(1) { bus in
      let queue = try await bus.openWorkQueue(WorkQueueOptions())
      _ = try await queue.consume(lane: "fcm", inFlight: 10) { item in
        log.lines.append("\(String(decoding: item.bytes, as: UTF8.self)), attempt \(item.attempt)")
        item.settle(.done)
      }
      for job in ["1", "2"] {
        queue.add(lane: "fcm", id: job, Array(job.utf8)) { log.results.append($0) }
      }
    }
    #expect(log.lines == ["1, attempt 1", "2, attempt 1"])
    #expect(log.results.count == 2)
  }

  @Test func aStalledLineDeliversEverythingLateAndInOrder() throws {
    let rig = Rig(seed: 3, nodes: 2)
    let log = Log()
    _ = try rig.buses[1].subscribe("x") { log.lines.append("\($0.bytes[0])") }
    rig.world.run(for: .milliseconds(10))
    rig.nats.stall([rig.buses[1].node], for: .seconds(1))
    for number in 0..<5 { rig.buses[0].publish("x", [UInt8(number)]) }
    rig.world.run(for: .milliseconds(900))
    #expect(log.lines.isEmpty)
    rig.world.run(for: .milliseconds(200))
    #expect(log.lines == ["0", "1", "2", "3", "4"])
  }

  @Test func onlyTheExpectedAppendIsTaken() {
    let rig = Rig(seed: 4, nodes: 1)
    rig.run(0) { bus in
      let journal = try await bus.openJournal(JournalOptions())
      func append(_ expecting: UInt64, _ byte: UInt8) async -> AppendResult {
        await withCheckedContinuation { continuation in
          journal.append(shard: 0, expecting: expecting, [byte]) {
            continuation.resume(returning: $0)
          }
        }
      }
      let first = try await sequence(append(0, 1))
      #expect(await append(0, 2) == .refused)
      let second = try await sequence(append(first, 3))
      #expect(try await journal.records(shard: 0, from: 1, limit: 9).map(\.bytes) == [[1], [3]])
      try await journal.purge(shard: 0, through: second)
      #expect(try await journal.last(shard: 0)?.bytes == [3])
      #expect(try await journal.records(shard: 0, from: 1, limit: 1).map(\.sequence) == [second])
    }
  }

  @Test func aWriteWhoseAnswerIsLostIsStoredAndUnknown() {
    let rig = Rig(seed: 5, nodes: 1)
    rig.nats.faults.writeAnswerLost = 1
    let log = Log()
    rig.run(0) { bus in
      let journal = try await bus.openJournal(JournalOptions())
      journal.append(shard: 3, expecting: 0, [7]) { log.results.append($0) }
    }
    #expect(log.results == [.unknown("no acknowledgement in time")])
    #expect(rig.nats.store.records(3, from: 1).map(\.bytes) == [[7]])
  }

  @Test func aWriteUnderWayWhenTheLineBreaksIsUnknown() {
    let rig = Rig(seed: 6, nodes: 1)
    let log = Log()
    rig.run(0) { bus in
      let bucket = try await bus.openBucket("b", BucketOptions())
      bucket.put("k", [1], expecting: nil) { log.results.append($0) }
      bus.node.world.count("asked")
    }
    #expect(log.results.count == 1)
    rig.run(0) { bus in
      let bucket = try await bus.openBucket("b", BucketOptions())
      bus.node.world.schedule(after: .milliseconds(0)) {
        rig.nats.cut([bus.node], for: .milliseconds(10), notice: .milliseconds(0))
      }
      bucket.put("k", [2], expecting: nil) { log.results.append($0) }
    }
    #expect(log.results.last == .unknown("the connection broke"))
  }

  @Test func whatWasTakenAndGivenUpIsNamedWhileItStands() {
    let rig = Rig(seed: 12, nodes: 1)
    let log = Log()
    rig.nats.observers.unconfirmed.append { log.lines.append("\($0.name) \($1) \($2)") }
    rig.nats.faults.writeAnswerLost = 1
    rig.run(0) { bus in
      let bucket = try await bus.openBucket("b", BucketOptions())
      bucket.put("written twice", [1], expecting: nil) { _ in }
      bucket.put("written twice", [2], expecting: nil) { _ in }
      bucket.put("refused", [3], expecting: 9) { log.results.append($0) }
    }
    #expect(log.lines == ["n0 b written twice"])
    #expect(log.results == [.unknown("no acknowledgement in time")])
    rig.nats.faults = .none
    rig.run(0) { bus in
      let bucket = try await bus.openBucket("b", BucketOptions())
      bucket.put("heard", [4], expecting: nil) { _ in }
    }
    #expect(log.lines.count == 1)
  }

  @Test(
    "a write that comes late is named where its writer lived and gave it up",
    arguments: [true, false])
  func whatWasGivenUpAndTakenThen(_ lives: Bool) {
    let rig = Rig(seed: 13, nodes: 1)
    let log = Log()
    rig.nats.observers.unconfirmed.append { log.lines.append("\($0.name) \($1) \($2)") }
    rig.nats.faults.writeLate = 1
    // It is at least 20 ms late.
    rig.buses[0].storeTimeout = .milliseconds(10)
    rig.run(0) { bus in
      let bucket = try await bus.openBucket("b", BucketOptions())
      bucket.put("k", [1], expecting: nil) { _ in }
      bus.node.world.schedule(after: .milliseconds(5)) { if !lives { bus.node.kill() } }
    }
    #expect(rig.nats.store.get("b", "k")?.value == [1])
    #expect(log.lines == (lives ? ["n0 b k"] : []))
  }

  @Test func aBucketComparesAndSetsAndTellsWhoWatches() {
    let rig = Rig(seed: 7, nodes: 2)
    let log = Log()
    rig.run(1) { bus in
      let bucket = try await bus.openBucket("b", BucketOptions())
      _ = try await bucket.watch("a.>") { log.lines.append("\($0.key) \($0.value ?? [])") }
    }
    rig.run(0) { bus in
      let bucket = try await bus.openBucket("b", BucketOptions())
      func put(_ key: String, _ byte: UInt8, _ expecting: UInt64?) async -> AppendResult {
        await withCheckedContinuation { continuation in
          bucket.put(key, [byte], expecting: expecting) { continuation.resume(returning: $0) }
        }
      }
      let revision = try await sequence(put("a.x", 1, 0))
      #expect(await put("a.x", 2, 0) == .refused)
      #expect(await put("a.x", 3, revision) != .refused)
      _ = await put("b.x", 4, nil)
      _ = await bucket.delete("a.x")
      #expect(try await bucket.get("a.x") == nil)
      #expect(await put("a.x", 5, 0) != .refused)
    }
    #expect(log.lines == ["a.x [1]", "a.x [3]", "a.x []", "a.x [5]"])
  }

  @Test func aWatchCatchesUpBehindABrokenLine() {
    let rig = Rig(seed: 8, nodes: 2)
    let log = Log()
    rig.run(1) { bus in
      let bucket = try await bus.openBucket("b", BucketOptions())
      _ = try await bucket.watch(">") { log.lines.append("\($0.key) \($0.value ?? [])") }
    }
    rig.nats.cut([rig.buses[1].node], for: .seconds(12), notice: .milliseconds(1))
    rig.run(0) { bus in
      let bucket = try await bus.openBucket("b", BucketOptions())
      for byte in 1...3 { bucket.put("k", [UInt8(byte)], expecting: nil) { _ in } }
    }
    #expect(log.lines.isEmpty)
    rig.world.run(for: .seconds(5))
    #expect(log.lines == ["k [3]"])
  }

  @Test func aRequestIsAnsweredOrKnowsThatNobodyListens() throws {
    let rig = Rig(seed: 9, nodes: 2)
    let answering = rig.buses[1]
    _ = try answering.subscribe("q") { message in
      answering.publish(message.replyTo ?? "", [9])
    }
    rig.run(0) { bus in
      #expect(try await bus.request("q", [], timeout: .seconds(1)).bytes == [9])
      do {
        _ = try await bus.request("nobody", [], timeout: .seconds(1))
        Issue.record("somebody answered")
      } catch BusError.noResponders {}
    }
  }

  @Test func theDeadAreNotHeard() {
    let rig = Rig(seed: 10, nodes: 1)
    let log = Log()
    rig.run(0) { bus in
      let journal = try await bus.openJournal(JournalOptions())
      bus.node.world.schedule(after: .seconds(1)) {
        bus.node.kill()
        #expect(!bus.publish("x", [1]))
        journal.append(shard: 0, expecting: 0, [1]) { log.results.append($0) }
      }
    }
    #expect(log.results == [.unknown("closed")])
    #expect(rig.nats.store.records(0, from: 1).isEmpty)
  }
}
