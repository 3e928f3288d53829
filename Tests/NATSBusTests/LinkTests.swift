import CallBus
import CallProcesses
import Foundation
import NATSBus
import Synchronization
import Testing

/// A connection that broke in the middle of what the server said is followed by one that knows nothing of
/// that: what was said in halves is lost, and nothing else.
@Suite(.timeLimit(.minutes(1)))
struct LinkTests {
  /// A bus whose server is behind a relay, and one that is connected to it without.
  @inline(never)
  private func withRelay(
    _ body: (CutRelay, NATSBus, _ other: NATSBus, Inbox<NATSEvent>) async throws -> Void
  ) async throws {
    try await withServer { server, other in
      let relay = try CutRelay(to: server.port)
      defer { relay.stop() }
      let events = Inbox<NATSEvent>(capacity: 1000)
      let bus = try await NATSBus.test(relay.url, events)
      try await body(relay, bus, other, events)
      await bus.close()
    }
  }

  /// `MSG half.line 7 16\r\npayload-half-way\r\n`, and where it ends.
  @Test(arguments: ["MS", "MSG half.l", "16\r", "16\r\n", "payload-ha"])
  func halfAMessageIsForgotten(end: String) async throws {
    try await withRelay { relay, bus, other, events in
      let contract = BusContract(bus: bus, other: other)
      let messages = Inbox<BusMessage>(capacity: 100)
      let subscription = try bus.subscribe("half.>") { messages.offer($0) }
      try await contract.settle(bus)
      relay.cut(behind: end)
      other.publish("half.line", Array("payload-half-way".utf8))
      try await events.until(.reconnected(server: relay.url))
      try await contract.settle(bus)
      for number in UInt8(0)..<10 { other.publish("half.line", [number]) }
      let seen = await contract.collect(10, from: messages)
      #expect(seen.map(\.bytes) == (UInt8(0)..<10).map { [$0] })
      #expect(seen.allSatisfy { $0.subject == "half.line" })
      #expect(bus.statistics.reconnects == 1)
      subscription.cancel()
    }
  }

  /// Its marker stays then; the key counts as gone all the same.
  @Test func aDeletionWhoseAnswerWasLostCanBeSaidAgain() async throws {
    try await withRelay { relay, bus, _, events in
      let contract = BusContract(bus: bus, other: bus)
      let bucket = try await bus.openBucket("going", BucketOptions())
      let written = try await contract.put(bucket, "k", [1], expecting: 0)
      relay.cut(behind: "{\"stream\"")
      #expect(await bucket.delete("k", expecting: written).doubt != nil, "the answer is lost")
      try await events.until(.reconnected(server: relay.url))
      #expect(try await bucket.get("k") == nil)
      #expect(try await bucket.statistics().messages == 1, "the marker")
      _ = try await contract.revision(await bucket.delete("k", expecting: 0))
      // A key that is there is not deleted as if it were not.
      try await contract.put(bucket, "k", [2], expecting: 0)
      #expect(await bucket.delete("k", expecting: 0) == .refused)
      #expect(try await bucket.get("k")?.value == [2])
    }
  }

  /// It would be connected, and closed, for ever: the server's word for it must reach an operator.
  @Test func whyAServerClosesTheConnectionIsSaid() async throws {
    let file = FileManager.default.temporaryDirectory.appending(
      path: "max-subscriptions-\(UUID().uuidString).conf")
    try Data("max_subscriptions: 5\n".utf8).write(to: file)
    defer { try? FileManager.default.removeItem(at: file) }
    let events = Inbox<NATSEvent>(capacity: 1000)
    try await withServer(arguments: ["-c", file.path], events) { server, bus in
      let subscriptions = try (0..<20).map { try bus.subscribe("s.\($0)") { _ in } }
      var (isSaid, isBack) = (false, false)
      try await events.until { event in
        if case .failure(let text) = event, text.lowercased().contains("maximum subs") {
          isSaid = true
        }
        if event == .reconnected(server: server.url) { isBack = true }
        return isSaid && isBack
      }
      for subscription in subscriptions { subscription.cancel() }
    }
  }

  /// An operator reads why a node is not connected, once for each reason.
  @Test func whyNoAttemptSucceedsIsSaidOnce() async throws {
    let refusals = Inbox<Void>(capacity: 1000)
    let refuses = Mutex(false)
    let server = try FalseServer { bytes in
      guard String(decoding: bytes, as: UTF8.self).hasSuffix("PING\r\n") else { return [] }
      bytes.removeAll()
      guard refuses.withLock({ $0 }) else { return Array("PONG\r\n".utf8) }
      refusals.offer(())
      return Array("-ERR 'out of order'\r\n".utf8)
    }
    defer { server.stop() }
    let events = Inbox<NATSEvent>(capacity: 1000)
    let bus = try await NATSBus.test(server.url, events)
    refuses.withLock { $0 = true }
    server.say("-ERR 'leave'\r\n")
    var count = 0
    while count < 5 {
      let more = await refusals.next(until: .now + .seconds(60)).count
      try #require(more > 0, "only \(count) attempts came")
      count += more
    }
    await bus.close()
    let said = await events.next(until: .now)
    let reasons = said.compactMap { event -> String? in
      if case .failure(let text) = event { text } else { nil }
    }
    #expect(reasons.count == 2 && reasons[0] == "leave", "\(said)")
    #expect(reasons.last?.contains("out of order") == true, "\(said)")
  }

  @Test func aConnectionThatEndsWithoutAWordIsReported() async throws {
    let server = try FalseServer()
    let events = Inbox<NATSEvent>(capacity: 1000)
    let bus = try await NATSBus.test(server.url, events)
    server.stop()
    try await events.until(.failure("nats-server closed the connection"))
    await bus.close()
  }

  /// The library has no deadline for a server that greets and then says nothing more.
  @Test func aServerThatFallsSilentInTheHandshakeIsNotWaitedFor() async throws {
    let server = try await NATSServerProcess.start()
    defer { server.stop() }
    let relay = try CutRelay(to: server.port)
    defer { relay.stop() }
    let events = Inbox<NATSEvent>(capacity: 1000)
    let endOfGreeting = "\r\n"
    relay.silence(behind: endOfGreeting)
    let error = await #expect(throws: BusError.self) {
      _ = try await NATSBus.test(relay.url, events)
    }
    guard case .notReady(let text, _) = error else {
      Issue.record("another error: \(String(describing: error))")
      return
    }
    #expect(text.contains("said nothing"))
    let bus = try await NATSBus.test(relay.url, events)
    relay.cut(behind: "broken")
    relay.silence(behind: endOfGreeting)
    relay.silence(behind: endOfGreeting)
    let subscription = try bus.subscribe("line") { _ in }
    bus.publish("line", Array("broken".utf8))
    try await events.until(.reconnected(server: relay.url))
    #expect(bus.statistics.reconnects == 1)
    subscription.cancel()
    await bus.close()
  }

  /// Servers are tried in any order.
  @Test func behindASilentServerTheNextIsTried() async throws {
    let server = try await NATSServerProcess.start()
    defer { server.stop() }
    let relay = try CutRelay(to: server.port)
    defer { relay.stop() }
    relay.silence(behind: "\r\n")
    for _ in 0..<100 where !relay.isDone {
      let bus = try await NATSBus.test("\(relay.url),\(server.url)")
      if relay.isDone { #expect(bus.statistics.server == server.url) }
      await bus.close()
    }
    #expect(relay.isDone)
  }
}
