import CallBus
import CallTelemetry
import Foundation
import Synchronization
import Testing

/// Operators' revocations are recorded and stored by coordinators, so that no edge need be there.
@Suite struct RevocationOrderTests {
  private func revoke(_ bench: ClusterBench, _ request: KickRequest) async throws -> OrderAnswer? {
    let answer = try await bench.bus.request(
      bench.subjects.order("revoke", by: "ann"), Array(try JSONEncoder().encode(request)),
      timeout: .seconds(20))
    return BoundedJSON.decode(OrderAnswer.self, answer.bytes)
  }

  private func stored(_ bench: ClusterBench) async throws -> [Revocation] {
    try await bench.bus.openBucket(bench.subjects.revocationBucket, BucketOptions())
      .entries(matching: ">").compactMap(Revocation.init)
  }

  @Test func itIsRecordedAndStored() async throws {
    let bench = try await ClusterBench(shards: 1)
    bench.start("a")
    try await bench.settled(["a"])
    let done = OrderAnswer(node: "a", role: "coordinator")
    let request = KickRequest(app: "demo", user: "bob", revokedAtSeconds: 200)
    #expect(try await revoke(bench, request) == done)
    // An order of before changes nothing.
    let earlier = KickRequest(app: "demo", user: "bob", revokedAtSeconds: 100)
    #expect(try await revoke(bench, earlier) == done)
    #expect(try await stored(bench) == [Revocation(app: "demo", user: "bob", atSeconds: 200)])
    // Without a time it is no revocation, and is not answered.
    bench.bus.publish(
      bench.subjects.order("revoke", by: "ann"), Array(#"{"app":"demo","user":"eve"}"#.utf8))
    #expect(try await revoke(bench, request) == done)
    let records = try await bench.bus.openAudit(AuditOptions(role: ""))
      .records(limit: 10).compactMap { AuditRecord($0.bytes) }
    #expect(records.map(\.about) == ["demo bob", "demo bob", "demo bob"])
    #expect(records.allSatisfy { $0.operatorName == "ann" && $0.order == "revoke" })
    await bench.finish()
  }
}
