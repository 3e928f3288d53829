import CallBus
import CallProcesses
import NATSBus
import Synchronization
import TestSupport
import Testing

/// A job that was accepted is handed out, whatever is killed.
@Suite(.timeLimit(.minutes(3)), .serialized)
struct WorkQueueCrashTests {
  private func options() -> WorkQueueOptions {
    var options = WorkQueueOptions()
    options.settleWithin = .seconds(1)
    options.addTimeout = .seconds(1)
    return options
  }

  /// Adds numbered jobs, each until it is known to be kept, while the server is killed under them.
  @Test(arguments: NATSServerProcess.programs)
  func aKilledServerKeepsWhatItAccepted(program: String) async throws {
    let server = try await NATSServerProcess.start(program: program)
    defer { server.stop() }
    let (adder, taker) = (try await NATSBus.test(server.url), try await NATSBus.test(server.url))
    let queue = try await adder.openWorkQueue(options())
    let other = try await taker.openWorkQueue(options())
    let done = Mutex(Set<UInt64>())
    // Works on as the server goes and comes: `take` is called once.
    let taking = try await other.consume(lane: "one", inFlight: 20) { item in
      let number = item.bytes.reduce(0) { $0 << 8 | UInt64($1) }
      _ = done.withLock { $0.insert(number) }
      item.settle(.done)
    }
    var accepted: UInt64 = 0
    for _ in 0..<3 {
      for _ in 0..<200 { accepted = try await addOne(queue, behind: accepted) }
      server.kill()
      // Nothing can be accepted meanwhile, and no answer is not a yes.
      let result = await add(queue, accepted + 1)
      if case .appended = result { Issue.record("accepted by a dead server") }
      try await server.relaunch()
    }
    accepted = try await addOne(queue, behind: accepted)
    let deadline = ContinuousClock.now + .seconds(60)
    while done.withLock({ $0.count }) < Int(accepted) {
      try #require(.now < deadline, "\(done.withLock { $0.count }) of \(accepted) came")
      await lookAgain()
    }
    // A server that is killed may keep jobs that were done, and hands them out no more (nats-server, #5542): they stay until
    // they are too old.
    #expect(done.withLock { $0 } == Set(1...accepted))
    taking.cancel()
    await adder.close()
    await taker.close()
  }

  private func addOne(_ queue: JetStreamWorkQueue, behind number: UInt64) async throws -> UInt64 {
    let deadline = ContinuousClock.now + .seconds(30)
    while true {
      if case .appended = await add(queue, number + 1) { return number + 1 }
      try #require(.now < deadline, "cannot add any more")
      await lookAgain()
    }
  }

  private func add(_ queue: JetStreamWorkQueue, _ number: UInt64) async -> AppendResult {
    let bytes = (0..<8).map { UInt8(truncatingIfNeeded: number >> (56 - 8 * $0)) }
    return await queue.add("one", "\(number)", bytes)
  }

  /// An operator deletes the consumer, or a restored store has none.
  @Test func aConsumerThatIsGoneIsMadeAgain() async throws {
    try await withServer { _, bus in
      let queue = try await bus.openWorkQueue(options())
      let seen = Inbox<WorkItem>(capacity: 10)
      let taking = try await queue.consume(lane: "one", inFlight: 4) { seen.offer($0) }
      for number in UInt64(1)...3 {
        _ = await add(queue, number)
        var came = false
        while !came {
          let batch = await seen.next(until: .now + .seconds(20))
          try #require(!batch.isEmpty, "nothing came behind deletion \(number - 1)")
          for item in batch {
            came = came || item.bytes[7] == UInt8(number)
            item.settle(.done)
          }
        }
        try await deleteConsumer(bus)
      }
      taking.cancel()
    }
  }

  private func deleteConsumer(_ bus: NATSBus) async throws {
    let deadline = ContinuousClock.now + .seconds(20)
    while true {
      let reply = try await bus.request(
        "$JS.API.CONSUMER.DELETE.test-push.one", [], timeout: .seconds(5))
      let text = String(decoding: reply.bytes, as: UTF8.self)
      if text.contains("\"success\":true") { return }
      try #require(.now < deadline, "\(text)")
      await lookAgain()
    }
  }

  /// Two takers, of which one's connection dies without a word: the other gets what it had.
  @Test func whatADeadTakerHadGoesToAnother() async throws {
    let server = try await NATSServerProcess.start()
    defer { server.stop() }
    let (dying, living) = (try await NATSBus.test(server.url), try await NATSBus.test(server.url))
    let queue = try await living.openWorkQueue(options())
    let held = Inbox<WorkItem>(capacity: 100)
    _ = try await dying.openWorkQueue(options()).consume(lane: "one", inFlight: 10) {
      held.offer($0)
    }
    for number in UInt64(1)...10 { _ = await add(queue, number) }
    var count = 0
    while count < 10 { count += await held.next(until: .now + .seconds(20)).count }
    await dying.close()
    let seen = Inbox<WorkItem>(capacity: 100)
    let taking = try await queue.consume(lane: "one", inFlight: 10) { seen.offer($0) }
    var numbers: [UInt8] = []
    while numbers.count < 10 {
      let batch = await seen.next(until: .now + .seconds(20))
      try #require(!batch.isEmpty, "only \(numbers.count) came")
      for item in batch {
        #expect(item.attempt > 1)
        numbers.append(item.bytes[7])
        item.settle(.done)
      }
    }
    #expect(numbers.sorted() == Array(1...10))
    taking.cancel()
    await living.close()
  }

  /// A queue is not made by who does not know how it is to be.
  @Test func aMissingQueueIsToldApart() async throws {
    try await withServer { _, bus in
      var options = options()
      options.createsMissing = false
      let error = await #expect(throws: BusError.self) { try await bus.openWorkQueue(options) }
      #expect(error?.isTransient == true && error?.code == .streamNotFound)
      _ = try await bus.openWorkQueue(self.options())
      _ = try await bus.openWorkQueue(options)
      // Twice, and with other limits: they are an operator's choice.
      options.createsMissing = true
      options.maxJobs = 17
      _ = try await bus.openWorkQueue(options)
    }
  }
}
