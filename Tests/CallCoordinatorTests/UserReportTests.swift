import CallBus
import CallCore
import CallTelemetry
import Testing

/// The report on a user for operators.
@Suite struct UserReportTests {
  @Test func callsThatAUserPlacedAreFoundInEveryShard() async throws {
    let bench = try await ClusterBench()
    do { try await placeAndLook(bench) } catch {
      await bench.finish()
      throw error
    }
    await bench.finish()
  }

  private func placeAndLook(_ bench: ClusterBench) async throws {
    bench.start("a")
    bench.start("b")
    try await bench.settled(["a", "b"])
    let users = try await bench.attachUsers(12)
    let ann = UserKey.user("ann")
    for (index, user) in users.enumerated() {
      try await bench.edge.place(
        ClusterBench.call(index), from: ClusterBench.callerSession(index), ann, to: user)
    }
    let answers: [UserReport] = try await bench.ask(
      bench.subjects.adminUser, AdminQuery(app: ann.app, user: ann.user))
    // She has no device there, and nobody calls her.
    #expect(answers.count == 2 && answers.allSatisfy { !$0.found })
    let placed = answers.compactMap(\.placed)
    #expect(placed.flatMap(\.shards).sorted() == Array(0..<bench.shards))
    #expect(placed.flatMap(\.calls).count == users.count)
    for part in placed {
      let expected = users.indices.filter {
        part.shards.contains(ShardHash.shard(of: users[$0], count: bench.shards))
      }
      #expect(
        Set(part.calls.map(\.call)) == Set(expected.map { ClusterBench.call($0).description }))
      #expect(part.calls.allSatisfy { $0.direction == "placed" && $0.phase == "placed" })
      #expect(part.leftOut == 0 && part.shardCount == bench.shards)
    }
    let known: [UserReport] = try await bench.ask(
      bench.subjects.adminUser, AdminQuery(app: users[3].app, user: users[3].user))
    let report = try #require(known.first { $0.found })
    #expect(report.calls?.map(\.call) == [ClusterBench.call(3).description])
    #expect(report.calls?.first?.direction == "called")
    #expect(report.calls?.first?.with == "ann")
    #expect(known.allSatisfy { $0.placed?.calls.isEmpty == true })
  }
}
