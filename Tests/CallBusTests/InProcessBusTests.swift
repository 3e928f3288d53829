import CallBus
import Testing

@Suite(.timeLimit(.minutes(1)))
struct InProcessBusTests {
  @Test func faultsLoseMessages() async throws {
    let bus = InProcessBus()
    let seen = Inbox<[UInt8]>(capacity: 10)
    bus.setFaults { $0.dropMessage = { $0.bytes == [1] } }
    let subscription = try bus.subscribe("s") { seen.offer($0.bytes) }
    #expect(bus.publish([1, 2, 3].map { OutgoingMessage(subject: "s", bytes: [$0]) }) == 0)
    var all: [[UInt8]] = []
    while all.count < 2 { all += await seen.next(until: nil) }
    #expect(all == [[2], [3]])
    subscription.cancel()
    await bus.close()
    await bus.close()
  }

  @Test func refusesAndCountsWhenTheOutboxIsFull() async throws {
    let bus = InProcessBus(outboxCapacity: 5)
    let journal = try await bus.openJournal(JournalOptions())
    let messages = (0..<8).map { OutgoingMessage(subject: "s", bytes: [$0]) }
    #expect(bus.publish(messages) >= 3)
    #expect(bus.statistics.dropped >= 3)
    await bus.close()
    #expect(!bus.publish("s", [1]))
    let result = await journal.append(shard: 0, expecting: 0, [1])
    #expect(result == .unknown("the bus is closed"))
    await #expect(throws: BusError.closed) {
      _ = try await bus.request("s", [], timeout: .seconds(10))
    }
  }

  @Test(arguments: [
    ("a.b", "a.b", true), ("a.b", "a.c", false), ("a.b", "a", false), ("a.b", "a.b.c", false),
    ("a.*", "a.b", true), ("*.b", "a.b", true), ("a.*", "a.b.c", false), ("a.*", "a", false),
    ("a.>", "a.b.c", true), ("a.>", "a", false), (">", "a", true), ("*.*", "a.b", true),
    ("a.*.c.>", "a.b.c.d.e", true), ("a.*.c.>", "a.b.c", false), ("a", "ab", false),
  ])
  func filtersMatchAsTheServersDo(filter: String, subject: String, matches: Bool) {
    #expect(SubjectFilter(filter).matches(subject) == matches)
  }

  @Test(arguments: [
    ("a.b.c", true), ("a.*.>", true), ("", false), ("a..b", false), (".a", false), ("a.", false),
    ("a.>.b", false), ("a b", false), ("a\r\nPUB x", false),
  ])
  func knowsWhatASubjectIs(text: String, isValid: Bool) {
    #expect(SubjectFilter.isValid(text) == isValid)
  }
}
