import CallBus
import CallTelemetry
import Logging
import Testing

/// Orders are known by their subject, recorded, and then carried out.
@Suite(.timeLimit(.minutes(1)))
struct OrderDispatcherTests {
  /// Stores no record.
  private struct Full: AuditTrail {
    func append(_ bytes: [UInt8]) async -> AppendResult { .unknown("full") }
    func records(limit: Int) async throws -> [StoredRecord] { [] }
  }

  private let subjects = Subjects(cluster: "test", shardCount: 1)

  private func run(
    _ audit: any AuditTrail, _ body: (InProcessBus, Inbox<DrainRequest>) async throws -> Void
  ) async throws {
    let (bus, done) = (InProcessBus(), Inbox<DrainRequest>(capacity: 100))
    let dispatcher = OrderDispatcher(
      bus: bus, subjects: subjects, audit: audit, node: "n", role: "edge",
      logger: Logger(label: "test"), handlers: OrderDispatcher.draining("n") { done.offer($0) })
    try await withThrowingTaskGroup(of: Void.self) { group in
      group.addTask { await dispatcher.run() }
      try await body(bus, done)
      group.cancelAll()
    }
    await bus.close()
  }

  /// The dispatcher may not have subscribed yet.
  private func ask(
    _ bus: InProcessBus, _ subject: String, _ json: String
  ) async throws -> OrderAnswer? {
    while true {
      do {
        let answer = try await bus.request(subject, Array(json.utf8), timeout: .seconds(20))
        return BoundedJSON.decode(OrderAnswer.self, answer.bytes)
      } catch BusError.noResponders {
        try await Task.sleep(for: .milliseconds(1))
      }
    }
  }

  @Test func theSubjectTellsWhoItWas() async throws {
    let audit = InProcessAuditTrail()
    try await run(audit) { bus, done in
      let drain = #"{"node":"n","action":"drain","seconds":7}"#
      #expect(
        try await ask(bus, "test.orders.ann.drain", drain) == OrderAnswer(node: "n", role: "edge"))
      #expect(
        try await ask(bus, subjects.order("resume", by: "b.ob"), #"{"node":"n","action":"resume"}"#)
          == OrderAnswer(node: "n", role: "edge"))
      #expect(done.depth == 2)
      // Neither is for this node.
      bus.publish("test.orders.ann.drain", Array(#"{"node":"m","action":"drain"}"#.utf8))
      bus.publish("test.orders.ann.drain", Array("{".utf8))
      // Nor is what the subject says something else of.
      bus.publish("test.orders.ann.resume", Array(drain.utf8))
      _ = try await ask(bus, "test.orders.ann.drain", drain)
    }
    let records = try await audit.records(limit: 10).compactMap { AuditRecord($0.bytes) }
    #expect(records.map(\.operatorName) == ["ann", "b_2eob", "ann"])
    #expect(records.map(\.order) == ["drain", "resume", "drain"])
    #expect(records.map(\.about) == ["n over 7 s", "n", "n over 7 s"])
    #expect(records.allSatisfy { $0.node == "n" && $0.role == "edge" && $0.atMilliseconds > 0 })
  }

  @Test func withoutARecordNothingIsDone() async throws {
    try await run(Full()) { bus, done in
      let answer = try await ask(bus, "test.orders.ann.drain", #"{"node":"n","action":"drain"}"#)
      #expect(answer?.refused?.contains("full") == true)
      #expect(done.depth == 0)
    }
  }
}
