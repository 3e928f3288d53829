import CallBus
import CallCore
import Synchronization
import Testing

/// The contract of every implementation of the bus, so that the one in memory stands for the real one.
struct BusContract<Bus: ClusterBus> {
  let bus: Bus
  /// Another connection to the same cluster; the same bus where there are no connections.
  let other: Bus

  // MARK: Messages

  func publishesToSubscribersAndWildcards() async throws {
    let seen = Inbox<BusMessage>(capacity: 100)
    let one = try bus.subscribe("t.one.x") { seen.offer($0) }
    let star = try bus.subscribe("t.*.y") { seen.offer($0) }
    let tail = try bus.subscribe("t.tail.>") { seen.offer($0) }
    try await settle(bus)
    for subject in ["t.one.x", "t.two.y", "t.tail.a.b", "t.none", "t.one.x.more", "t.tail"] {
      #expect(other.publish(subject, Array(subject.utf8), replyTo: "r.\(subject)"))
    }
    let messages = await collect(3, from: seen)
    #expect(Set(messages.map(\.subject)) == ["t.one.x", "t.two.y", "t.tail.a.b"])
    for message in messages {
      #expect(message.bytes == Array(message.subject.utf8))
      #expect(message.replyTo == "r.\(message.subject)")
    }
    one.cancel()
    one.cancel()
    star.cancel()
    tail.cancel()
    try await settle(bus)
    other.publish("t.one.x", [1])
    try await settle(other)
    try await settle(bus)
    #expect(seen.depth == 0)
    #expect(throws: BusError.self) { try bus.subscribe("a..b") { _ in } }
  }

  func givesEachMessageToOneOfAQueueGroup() async throws {
    let seen = Inbox<Int>(capacity: 100)
    let first = try bus.subscribe("q.work", queue: "group") { _ in seen.offer(1) }
    let second = try other.subscribe("q.work", queue: "group") { _ in seen.offer(2) }
    try await settle(bus)
    try await settle(other)
    for _ in 0..<20 { bus.publish("q.work", []) }
    #expect(await collect(20, from: seen).count == 20)
    try await settle(bus)
    try await settle(other)
    #expect(seen.depth == 0)
    first.cancel()
    second.cancel()
  }

  func callsReadCompleteAfterHandlers() async throws {
    let handled = Atomic(0)
    let ends = Inbox<Int>(capacity: 10_000)
    bus.onReadComplete { ends.offer(handled.load(ordering: .sequentiallyConsistent)) }
    let subscription = try bus.subscribe("burst") { _ in
      handled.add(1, ordering: .sequentiallyConsistent)
    }
    try await settle(bus)
    #expect(
      other.publish((0..<100).map { _ in OutgoingMessage(subject: "burst", bytes: [1]) }) == 0)
    var last = 0
    while last < 100 {
      let batch = await ends.next(until: .now + .seconds(20))
      try #require(!batch.isEmpty)
      last = batch.last ?? 0
    }
    subscription.cancel()
  }

  func answersRequests() async throws {
    let subscription = try bus.subscribe("echo") { message in
      if let inbox = message.replyTo { bus.publish(inbox, message.bytes + [0]) }
    }
    try await settle(bus)
    for number in UInt8(1)...20 {
      let reply = try await other.request("echo", [number], timeout: .seconds(10))
      #expect(reply.bytes == [number, 0])
    }
    subscription.cancel()
  }

  func requestsFailClearly() async throws {
    let silent = try bus.subscribe("silent") { _ in }
    try await settle(bus)
    await #expect(throws: BusError.timeout) {
      _ = try await other.request("silent", [], timeout: .milliseconds(30))
    }
    await #expect(throws: BusError.noResponders) {
      _ = try await other.request("nobody.there", [], timeout: .seconds(20))
    }
    let cancelled = Task { try await other.request("silent", [], timeout: .seconds(60)) }
    cancelled.cancel()
    await #expect(throws: CancellationError.self) { _ = try await cancelled.value }
    silent.cancel()
  }

  func collectsManyReplies() async throws {
    let subscriptions = try (UInt8(0)..<3).map { number in
      try bus.subscribe("many") { message in
        if let inbox = message.replyTo { bus.publish(inbox, [number]) }
      }
    }
    try await settle(bus)
    let limited = try await other.requestMany("many", [], window: .seconds(20), limit: 3)
    #expect(Set(limited.map(\.bytes)) == [[0], [1], [2]])
    let all = try await other.requestMany("many", [], window: .milliseconds(200), limit: 100)
    #expect(all.count == 3)
    for subscription in subscriptions { subscription.cancel() }
  }

  func keepsTheOrderOfManyMessages() async throws {
    let total = 100_000
    let seen = Inbox<Int>(capacity: total)
    let subscription = try bus.subscribe("stream.of.many") { message in
      seen.offerWithoutWaking(message.bytes.reduce(0) { $0 << 8 | Int($1) })
    }
    bus.onReadComplete { seen.wake() }
    try await settle(bus)
    var next = 0
    var expected = 0
    while expected < total {
      while next < total, next - expected < 20_000 {
        let bytes = [UInt8(next >> 16 & 255), UInt8(next >> 8 & 255), UInt8(next & 255)]
        guard other.publish("stream.of.many", bytes) else { break }
        next += 1
      }
      let batch = await seen.next(until: .now + .seconds(20))
      try #require(!batch.isEmpty, "the messages stopped at \(expected)")
      #expect(batch == Array(expected..<expected + batch.count))
      expected += batch.count
    }
    subscription.cancel()
    #expect(bus.statistics.messagesIn >= UInt64(total))
    #expect(other.statistics.messagesOut >= UInt64(total))
  }

  /// All that was asked of a bus before has reached the server.
  func settle(_ bus: Bus) async throws {
    _ = try? await bus.request("settle.nobody", [], timeout: .seconds(10))
  }

  func collect(
    until revisions: Set<UInt64>, from inbox: Inbox<KeyValueEntry>
  ) async -> [KeyValueEntry] {
    await collect(from: inbox) { revisions.isSubset(of: $0.map(\.revision)) }
  }

  func collect<Element: Sendable>(_ count: Int, from inbox: Inbox<Element>) async -> [Element] {
    await collect(from: inbox) { $0.count >= count }
  }

  private func collect<Element: Sendable>(
    from inbox: Inbox<Element>, until isComplete: ([Element]) -> Bool
  ) async -> [Element] {
    var all: [Element] = []
    while !isComplete(all) {
      let batch = await inbox.next(until: .now + .seconds(20))
      if batch.isEmpty { break }
      all += batch
    }
    return all
  }
}
