import CallBus
import CallProcesses
import Glibc
import NATSBus
import Synchronization
import Testing

/// The bus when the server goes, is not there or does not keep up.
@Suite(.timeLimit(.minutes(2)))
struct FailureTests {
  private func options() -> NATSOptions {
    NATSOptions(subjects: Subjects(cluster: "test", shardCount: 4))
  }

  @Test func saysWhatToDoWhenThereIsNoServer() async throws {
    let server = try await NATSServerProcess.start()
    server.stop()
    let error = await #expect(throws: BusError.self) {
      _ = try await NATSBus.connect(url: server.url, name: "test", options: options())
    }
    guard case .notReady(let text, _) = error else {
      Issue.record("another error: \(String(describing: error))")
      return
    }
    #expect(text.hasPrefix("no nats-server can be reached: "))
  }

  /// Waiting does not help, so the error differs from the one for a server that is not there.
  @Test func aServerThatRefusesIsNotWaitedFor() async throws {
    let server = try await NATSServerProcess.start(arguments: ["--user", "u", "--pass", "right"])
    defer { server.stop() }
    for url in [server.url, "nats://u:wrong-secret@127.0.0.1:\(server.port)"] {
      let error = await #expect(throws: BusError.self) {
        _ = try await NATSBus.connect(url: url, name: "test", options: options())
      }
      guard case .failed(let text, let code?) = error else {
        Issue.record("another error: \(String(describing: error))")
        return
      }
      #expect(BusError.Code.refusals.contains(code))
      #expect(text.hasPrefix("nats-server refuses the credentials: "))
      #expect(!text.contains("secret"))
    }
  }

  @Test func nothingThatIsSaidOfAConnectionHasThePassword() async throws {
    let server = try await NATSServerProcess.start(arguments: ["--user", "u", "--pass", "secret"])
    defer { server.stop() }
    let events = Inbox<NATSEvent>(capacity: 100)
    var options = options()
    options.onEvent = { events.offer($0) }
    let bus = try await NATSBus.connect(
      url: "nats://u:secret@127.0.0.1:\(server.port)", name: "test", options: options)
    #expect(bus.statistics.server == server.url)
    await bus.close()
    let said = await events.next(until: .now)
    #expect(said.contains(.connected(server: server.url)))
    #expect(!"\(said)".contains("secret"))
  }

  /// An attempt that the library has under way is not waited for.
  @Test func aCancelledTaskDoesNotWaitForItsConnection() async throws {
    var options = options()
    // Longer than the test may take: only its cancellation can end the attempt.
    options.connectTimeout = .seconds(3600)
    let silent = try SilentListener()
    await withThrowingTaskGroup(of: Void.self) { group in
      group.addTask { [options] in
        _ = try await NATSBus.connect(url: silent.url, name: "test", options: options)
      }
      await silent.accepted()
      group.cancelAll()
      await #expect(throws: CancellationError.self) { try await group.waitForAll() }
    }
  }

  /// A node that waits for a bucket, or opens it beside another one, reads it as soon as the server names it. A read in
  /// the moment between the two kills nats-server 2.9.
  @Test(arguments: [true, false])
  func aBucketIsReadOnceItIsMade(createsMissing: Bool) async throws {
    let server = try await NATSServerProcess.start()
    defer { server.stop() }
    var existing = BucketOptions()
    existing.createsMissing = createsMissing
    let first = try await NATSBus.connect(url: server.url, name: "first", options: options())
    var others: [NATSBus] = []
    for name in ["second", "third", "fourth"] {
      others.append(try await NATSBus.connect(url: server.url, name: name, options: options()))
    }
    for number in 0..<50 {
      try await withThrowingTaskGroup(of: Void.self) { group in
        for other in others {
          group.addTask { [existing] in
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
      await bus.close()
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
    var options = options()
    options.outboxMessagesMax = 10
    let events = Inbox<NATSEvent>(capacity: 100)
    options.onEvent = { events.offer($0) }
    let bus = try await NATSBus.connect(url: server.url, name: "test", options: options)
    let journal = try await bus.openJournal(JournalOptions())
    server.kill()
    try await until(.disconnected, events)
    let messages = (0..<25).map { OutgoingMessage(subject: "x", bytes: [UInt8($0)]) }
    #expect(bus.publish(messages) == 15)
    #expect(!bus.publish("x", [1]))
    #expect(bus.statistics.dropped == 16)
    #expect(bus.statistics.outboxDepth == 10)
    #expect(!bus.statistics.connected)
    // Refused for want of room, but only a deadline can say so while the connection is away.
    let result = await withCheckedContinuation { continuation in
      journal.append(shard: 0, expecting: 0, [1]) { continuation.resume(returning: $0) }
    }
    guard case .unknown = result else {
      Issue.record("\(result)")
      return
    }
    await bus.close()
    #expect(!bus.publish("x", [1]))
    await #expect(throws: BusError.closed) {
      _ = try await bus.request("x", [], timeout: .seconds(20))
    }
    #expect(throws: BusError.closed) { try bus.subscribe("x") { _ in } }
  }

  @Test func comesBackAfterTheServerDoes() async throws {
    let server = try await NATSServerProcess.start()
    defer { server.stop() }
    let events = Inbox<NATSEvent>(capacity: 100)
    var options = options()
    options.onEvent = { events.offer($0) }
    let bus = try await NATSBus.connect(url: server.url, name: "test", options: options)
    let contract = BusContract(bus: bus, other: bus)
    let journal = try await bus.openJournal(JournalOptions())
    let bucket = try await bus.openBucket("b", BucketOptions())
    let first = try await contract.append(journal, 0, expecting: 0, [1])
    let messages = Inbox<BusMessage>(capacity: 100)
    let subscription = try bus.subscribe("after.restart") { messages.offer($0) }
    let changes = Inbox<KeyValueEntry>(capacity: 100)
    let watch = try await bucket.watch(">") { changes.offer($0) }
    _ = try await contract.revision(await bucket.put("k", [1], expecting: 0))
    #expect(await contract.collect(1, from: changes).map(\.value) == [[1]])

    for round in UInt8(1)...2 {
      server.kill()
      try await until(.disconnected, events)
      // Waits in the outbox for the connection.
      bus.publish("after.restart", [round])
      try await server.restart()
      try await until(.reconnected(server: server.url), events)
      #expect(await contract.collect(1, from: messages).map(\.bytes) == [[round]])
      #expect(bus.statistics.reconnects == UInt64(round))
      #expect(bus.statistics.connected)
      #expect(try await journal.last(shard: 0)?.sequence == first)
      #expect(await contract.outcome(journal, 0, expecting: 0, [9]) == .refused)
      _ = try await contract.revision(await bucket.put("k", [1, round], expecting: nil))
      #expect(await contract.collect(1, from: changes).map(\.value) == [[1, round]])
    }
    _ = try await contract.append(journal, 0, expecting: first, [2])
    watch.cancel()
    subscription.cancel()
    await bus.close()
  }

  @Test func appendsInFlightAreUnknownWhenTheConnectionBreaks() async throws {
    let server = try await NATSServerProcess.start()
    defer { server.stop() }
    let bus = try await NATSBus.connect(url: server.url, name: "test", options: options())
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
    #expect(all.count == 200)
    for result in all {
      switch result {
      case .appended, .unknown: break
      case .refused: Issue.record("refused")
      }
    }
    await bus.close()
  }

  @Test func refusesAStreamThatWouldDropRecords() async throws {
    let server = try await NATSServerProcess.start()
    defer { server.stop() }
    let bus = try await NATSBus.connect(url: server.url, name: "test", options: options())
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
    await bus.close()
  }

  @Test func aLongOutboxOfLargeMessagesArrives() async throws {
    let server = try await NATSServerProcess.start()
    defer { server.stop() }
    let bus = try await NATSBus.connect(url: server.url, name: "one", options: options())
    #expect(bus.statistics.serverVersion.hasPrefix("2."))
    #expect(bus.statistics.server == server.url)
    let other = try await NATSBus.connect(url: server.url, name: "two", options: options())
    let contract = BusContract(bus: bus, other: other)
    let seen = Inbox<Int>(capacity: 1000)
    let subscription = try bus.subscribe("large") { seen.offer($0.bytes.count) }
    try await contract.settle(bus)
    // More than the sockets' buffers take at once: the thread has to wait until it can write.
    let sizes = (0..<60).map { 900_000 - $0 }
    for size in sizes { #expect(other.publish("large", [UInt8](repeating: 7, count: size))) }
    #expect(await contract.collect(60, from: seen) == sizes)
    subscription.cancel()
    await bus.close()
    await other.close()
  }

  private func until(_ event: NATSEvent, _ events: Inbox<NATSEvent>) async throws {
    while true {
      let batch = await events.next(until: .now + .seconds(30))
      try #require(!batch.isEmpty, "\(event) did not come")
      if batch.contains(event) { return }
    }
  }
}

/// A server that takes connections and never says a word.
private final class SilentListener: Sendable {
  private let descriptor: Int32
  private let connections = Mutex<[Int32]>([])
  let port: UInt16
  var url: String { "nats://127.0.0.1:\(port)" }

  init() throws {
    descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
    var name = sockaddr_in()
    name.sin_family = sa_family_t(AF_INET)
    name.sin_addr.s_addr = inet_addr("127.0.0.1")
    var size = socklen_t(MemoryLayout<sockaddr_in>.size)
    let descriptor = descriptor
    let isBound = withUnsafeMutablePointer(to: &name) {
      $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        bind(descriptor, $0, size) == 0 && listen(descriptor, 8) == 0
          && getsockname(descriptor, $0, &size) == 0
      }
    }
    try #require(isBound)
    port = UInt16(bigEndian: name.sin_port)
  }

  /// Ends whoever is still connected.
  deinit { for descriptor in connections.withLock({ $0 }) + [descriptor] { close(descriptor) } }

  /// Returns once somebody has connected.
  func accepted() async {
    await withCheckedContinuation { continuation in
      startThread(named: "accepts") { [self] in
        let connection = accept(descriptor, nil, nil)
        connections.withLock { $0.append(connection) }
        continuation.resume()
      }
    }
  }
}
