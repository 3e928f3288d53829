import CallBus
import CallProcesses
import NATSBus
import Testing

/// The bus when the server goes, is not there or does not keep up.
@Suite(.timeLimit(.minutes(2)))
struct FailureTests {
  /// An attempt that the library has under way is not waited for.
  @Test func aCancelledTaskDoesNotWaitForItsConnection() async throws {
    var options = NATSOptions.test()
    // Longer than the test may take: only its cancellation can end the attempt.
    options.connectTimeout = .seconds(3600)
    let silent = try FalseServer(greets: false, answers: false)
    defer { silent.stop() }
    await withThrowingTaskGroup(of: Void.self) { group in
      group.addTask { [options] in
        _ = try await NATSBus.connect(url: silent.url, name: "test", options: options)
      }
      while silent.clients == 0 { await Task.yield() }
      group.cancelAll()
      await #expect(throws: CancellationError.self) { try await group.waitForAll() }
    }
  }

  /// A node that waits for a bucket, or opens it beside another one, reads it as soon as the server names it. A read in
  /// the moment between the two kills nats-server 2.9.
  @Test(arguments: [true, false])
  func aBucketIsReadOnceItIsMade(createsMissing: Bool) async throws {
    var existing = BucketOptions()
    existing.createsMissing = createsMissing
    try await withServer { [existing] server, first in
      var others: [NATSBus] = []
      for _ in 0..<3 { others.append(try await NATSBus.test(server.url)) }
      for number in 0..<50 {
        try await withThrowingTaskGroup(of: Void.self) { group in
          for other in others {
            group.addTask {
              let read = try await Self.firstRead(of: "b\(number)", other, existing)
              #expect(read == nil)
            }
          }
          _ = try await first.openBucket("b\(number)", BucketOptions())
          try await group.waitForAll()
        }
      }
      for bus in others + [first] {
        #expect(bus.statistics.reconnects == 0, "nats-server ended")
      }
      for bus in others { await bus.close() }
    }
  }

  private static func firstRead(
    of name: String, _ bus: NATSBus, _ options: BucketOptions
  ) async throws -> KeyValueEntry? {
    while true {
      do {
        return try await bus.openBucket(name, options).get("key")
      } catch BusError.notReady {
        // It is not there yet, or being made.
      }
    }
  }

  @Test func countsWhatAFullOutboxRefuses() async throws {
    let server = try await NATSServerProcess.start()
    defer { server.stop() }
    let events = Inbox<NATSEvent>(capacity: 100)
    var options = NATSOptions.test(events)
    options.outboxMessagesMax = 10
    let bus = try await NATSBus.connect(url: server.url, name: "test", options: options)
    let journal = try await bus.openJournal(JournalOptions())
    server.kill()
    try await events.until(.disconnected)
    let messages = (0..<25).map { OutgoingMessage(subject: "x", bytes: [UInt8($0)]) }
    #expect(bus.publish(messages) == 15)
    #expect(!bus.publish("x", [1]))
    #expect(bus.statistics.dropped == 16)
    #expect(bus.statistics.outboxDepth == 10)
    #expect(!bus.statistics.connected)
    // Refused for want of room, but only a deadline can say so while the connection is away.
    #expect(await journal.append(shard: 0, expecting: 0, [1]).doubt != nil)
    await bus.close()
    #expect(!bus.publish("x", [1]))
    await #expect(throws: BusError.closed) {
      _ = try await bus.request("x", [], timeout: .seconds(20))
    }
    #expect(throws: BusError.closed) { try bus.subscribe("x") { _ in } }
  }

  @Test func comesBackAfterTheServerDoes() async throws {
    let events = Inbox<NATSEvent>(capacity: 100)
    try await withServer(events) { server, bus in
      let contract = BusContract(bus: bus, other: bus)
      let journal = try await bus.openJournal(JournalOptions())
      let bucket = try await bus.openBucket("b", BucketOptions())
      let first = try await contract.append(journal, 0, expecting: 0, [1])
      let messages = Inbox<BusMessage>(capacity: 100)
      let subscription = try bus.subscribe("after.restart") { messages.offer($0) }
      let changes = Inbox<KeyValueEntry>(capacity: 100)
      let watch = try await bucket.watch(">") { changes.offer($0) }
      try await contract.put(bucket, "k", [1], expecting: 0)
      #expect(await contract.collect(1, from: changes).map(\.value) == [[1]])

      for round in UInt8(1)...2 {
        server.kill()
        try await events.until(.disconnected)
        // Waits in the outbox for the connection.
        bus.publish("after.restart", [round])
        try await server.restart()
        try await events.until(.reconnected(server: server.url))
        #expect(await contract.collect(1, from: messages).map(\.bytes) == [[round]])
        #expect(bus.statistics.reconnects == UInt64(round))
        #expect(bus.statistics.connected)
        #expect(try await journal.last(shard: 0)?.sequence == first)
        #expect(await journal.append(shard: 0, expecting: 0, [9]) == .refused)
        try await contract.put(bucket, "k", [1, round], expecting: nil)
        #expect(await contract.collect(1, from: changes).map(\.value) == [[1, round]])
      }
      _ = try await contract.append(journal, 0, expecting: first, [2])
      watch.cancel()
      subscription.cancel()
    }
  }

  @Test func appendsInFlightAreUnknownWhenTheConnectionBreaks() async throws {
    try await withServer { server, bus in
      var slow = JournalOptions()
      slow.appendTimeout = .seconds(60)
      slow.shardCount = 200
      let journal = try await bus.openJournal(slow)
      let results = Inbox<AppendResult>(capacity: 1000)
      for shard in 0..<200 {
        journal.append(shard: shard, expecting: 0, [1]) { results.offer($0) }
      }
      server.kill()
      let all = await BusContract(bus: bus, other: bus).collect(200, from: results)
      #expect(all.count == 200 && !all.contains(.refused))
    }
  }

  @Test func refusesAStreamThatWouldDropRecords() async throws {
    try await withServer { _, bus in
      let name = Subjects(cluster: "test", shardCount: 4).journalStream + "-0"
      let configuration = "{\"name\":\"\(name)\",\"subjects\":[\"a.b\"],\"max_age\":1000000000}"
      _ = try await bus.request(
        "$JS.API.STREAM.CREATE.\(name)", Array(configuration.utf8), timeout: .seconds(10))
      let error = await #expect(throws: BusError.self) {
        _ = try await bus.openJournal(JournalOptions())
      }
      guard case .failed(let text, code: .jetStream(10058)) = error else {
        Issue.record("another error")
        return
      }
      #expect(text.contains("subjects is a.b, not test-journal.0"))
      #expect(text.contains("max_age is 1000000000, not 0"))
      #expect(text.contains("discard is old, not new"))
    }
  }

  @Test func aLongOutboxOfLargeMessagesArrives() async throws {
    try await withServer { server, bus in
      #expect(bus.statistics.serverVersion.hasPrefix("2."))
      #expect(bus.statistics.server == server.url)
      let other = try await NATSBus.test(server.url)
      let contract = BusContract(bus: bus, other: other)
      let seen = Inbox<Int>(capacity: 1000)
      let subscription = try bus.subscribe("large") { seen.offer($0.bytes.count) }
      try await contract.settle(bus)
      // More than the sockets' buffers take at once: the thread has to wait until it can write.
      let sizes = (0..<60).map { 900_000 - $0 }
      for size in sizes { #expect(other.publish("large", [UInt8](repeating: 7, count: size))) }
      #expect(await contract.collect(60, from: seen) == sizes)
      subscription.cancel()
      await other.close()
    }
  }
}
