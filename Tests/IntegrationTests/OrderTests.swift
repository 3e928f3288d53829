import CallBus
import CallProcesses
import CallTelemetry
import Logging
import NATSBus
import Synchronization
import Testing

/// Orders of `callctl` to nodes that take long.
@Suite(.timeLimit(.minutes(2)))
struct OrderTests {
  /// An audit trail that takes longer for a record than `callctl` waits for an answer to a question.
  private struct SlowAudit: AuditTrail {
    func append(_ bytes: [UInt8]) async -> AppendResult {
      try? await Task.sleep(for: .seconds(1.5))
      return .appended(sequence: 1)
    }
    func records(limit: Int) async throws -> [StoredRecord] { [] }
  }

  @Test("an order whose record is stored late has been carried out, and its operator is told so")
  func anOrderWithASlowRecord() async throws {
    let server = try await NATSServerProcess.start()
    defer { server.stop() }
    let subjects = Subjects(cluster: "test", shardCount: 1)
    let bus = try await NATSBus.connect(
      url: server.url, name: "node", options: NATSOptions(subjects: subjects))
    let isDraining = Mutex(false)
    let orders = OrderDispatcher(
      bus: bus, subjects: subjects, audit: SlowAudit(), node: "e1", role: "edge",
      logger: Logger(label: "test"),
      handlers: OrderDispatcher.draining("e1") { _ in isDraining.withLock { $0 = true } })
    orders.listen()
    let status = try bus.answer(subjects.adminStatus) {
      NodeStatus(node: "e1", role: "edge", state: "serving", version: "1", shardCount: 1)
    }
    let running = Task { await orders.run() }
    let output = try await TestCluster.runAlone(
      "callctl",
      ["drain", "e1", "--force", "--timeout", "1", "--nats-url", server.url, "--cluster", "test"])
    #expect(output.status == 0, "\(output.said)")
    #expect(isDraining.withLock { $0 })
    status.cancel()
    running.cancel()
    await running.value
    await bus.close()
  }
}
