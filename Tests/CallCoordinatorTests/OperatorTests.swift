import CallBus
import CallCoordinator
import CallCore
import CallTelemetry
import Foundation
import Testing

/// The lists of users and calls, and the reports on users, that coordinators answer with.
@Suite struct ListReportTests {
  /// Ann calls all of them.
  private func placeCalls(_ bench: ClusterBench) async throws -> [UserKey] {
    let users = try await bench.attachUsers(12)
    for (index, user) in users.enumerated() {
      try await bench.edge.place(
        ClusterBench.call(index), from: ClusterBench.callerSession(index), .user("ann"), to: user)
    }
    return users
  }

  @Test func everyCoordinatorListsItsShards() async throws {
    try await ClusterBench.run(["a", "b"]) { bench in
      let users = try await placeCalls(bench)
      let calls: [ListReport<ListedCall>] = try await bench.ask(
        bench.subjects.adminCalls, ListQuery(live: true))
      #expect(calls.flatMap(\.shards).sorted() == Array(0..<bench.shards))
      #expect(calls.allSatisfy { $0.shardCount == bench.shards && $0.leftOut == 0 })
      #expect(
        Set(calls.flatMap(\.entries).map(\.call))
          == Set(users.indices.map { ClusterBench.call($0).description }))
      for part in calls {
        #expect(part.entries.allSatisfy { part.shards.contains($0.shard) && $0.owner == part.node })
        #expect(part.entries == part.entries.sorted { $0.precedes($1) })
      }
      let known: [ListReport<ListedUser>] = try await bench.ask(
        bench.subjects.adminUsers, ListQuery(app: users[0].app))
      let entries = known.flatMap(\.entries)
      #expect(Set(entries.map(\.user)) == Set(users.map(\.user)))
      #expect(entries.allSatisfy { $0.attached == 2 && $0.registered == 0 && $0.liveCallsTo == 1 })
    }
  }

  @Test func callsThatAUserPlacedAreFoundInEveryShard() async throws {
    try await ClusterBench.run(["a", "b"]) { bench in
      let users = try await placeCalls(bench)
      let answers: [UserReport] = try await bench.ask(
        bench.subjects.adminUser, AdminQuery(app: users[0].app, user: "ann"))
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
      let callee: [UserReport] = try await bench.ask(
        bench.subjects.adminUser, AdminQuery(app: users[3].app, user: users[3].user))
      let report = try #require(callee.first { $0.found })
      #expect(report.calls?.map(\.call) == [ClusterBench.call(3).description])
      #expect(report.calls?.first?.direction == "called")
      #expect(report.calls?.first?.with == "ann")
      #expect(callee.allSatisfy { $0.placed?.calls.isEmpty == true })
    }
  }

  @Test func anAnswerIsBounded() async throws {
    try await ClusterBench.run(["a"]) { bench in
      _ = try await bench.attachUsers(7)
      for (limit, count) in [(1, 1), (3, 3), (7, 7), (0, 1), (.max, 7)] {
        let answers: [ListReport<ListedUser>] = try await bench.ask(
          bench.subjects.adminUsers, ListQuery(limit: limit))
        #expect(answers.map(\.entries.count) == [count], "limit \(limit)")
        #expect(answers.map(\.leftOut) == [7 - count], "limit \(limit)")
      }
      // Whatever is asked, and whoever asks.
      let strange: [ListReport<ListedUser>] = try await bench.ask(
        bench.subjects.adminUsers, body: [1])
      #expect(strange.map(\.entries.count) == [7])
    }
  }
}

/// The size that one message may have.
@Suite struct ListSizeTests {
  /// Names of the greatest length, of characters that JSON writes as six.
  private static let worst = ListedCall(
    call: CallID(high: 1, low: 1).description, phase: "answered", reason: nil,
    app: String(repeating: "\u{1}", count: 64), caller: party, callee: long, winner: party,
    placedAtMilliseconds: 1, shard: 4095, owner: long)
  private static let long = String(repeating: "\u{1}", count: 128)
  private static let party = CallReport.Party(user: long, device: long, deviceName: long)

  @Test func whatIsTooLongForAMessageIsLeftOut() throws {
    let list = ListReport(
      node: "a", entries: Array(repeating: Self.worst, count: ListQuery.limitMax), leftOut: 5,
      shards: [], shardCount: 64)
    let (bytes, sent) = try list.bounded(bytesMax: 900_000)
    #expect(bytes.count <= 900_000 && !sent.entries.isEmpty)
    #expect(sent.entries.count + sent.leftOut == ListQuery.limitMax + 5)
    #expect(try JSONDecoder().decode(ListReport<ListedCall>.self, from: Data(bytes)) == sent)
    let (_, all) = try list.bounded(bytesMax: 100_000_000)
    #expect(all == list)
  }
}

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
    try await ClusterBench.run(["a"], shards: 1) { bench in
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
    }
  }
}
