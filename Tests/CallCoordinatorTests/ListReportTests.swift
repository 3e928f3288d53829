import CallBus
import CallCoordinator
import CallCore
import CallTelemetry
import Foundation
import Testing

/// The lists of users and calls that coordinators answer with.
@Suite struct ListReportTests {
  @Test func everyCoordinatorListsItsShards() async throws {
    try await withBench { bench in
      bench.start("a")
      bench.start("b")
      try await bench.settled(["a", "b"])
      let users = try await bench.attachUsers(12)
      for (index, user) in users.enumerated() {
        try await bench.edge.place(
          ClusterBench.call(index), from: ClusterBench.callerSession(index), .user("ann"), to: user)
      }
      let calls: [ListReport<ListedCall>] = try await bench.ask(
        bench.subjects.adminCalls, list: ListQuery(live: true))
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
        bench.subjects.adminUsers, list: ListQuery(app: users[0].app))
      let entries = known.flatMap(\.entries)
      #expect(Set(entries.map(\.user)) == Set(users.map(\.user)))
      #expect(entries.allSatisfy { $0.attached == 2 && $0.registered == 0 && $0.liveCallsTo == 1 })
    }
  }

  @Test func anAnswerIsBounded() async throws {
    try await withBench { bench in
      bench.start("a")
      try await bench.settled(["a"])
      _ = try await bench.attachUsers(7)
      for (limit, count) in [(1, 1), (3, 3), (7, 7), (0, 1), (.max, 7)] {
        let answers: [ListReport<ListedUser>] = try await bench.ask(
          bench.subjects.adminUsers, list: ListQuery(limit: limit))
        #expect(answers.map(\.entries.count) == [count], "limit \(limit)")
        #expect(answers.map(\.leftOut) == [7 - count], "limit \(limit)")
      }
      // Whatever is asked, and whoever asks.
      let strange: [ListReport<ListedUser>] = try await bench.ask(
        bench.subjects.adminUsers, body: [1])
      #expect(strange.map(\.entries.count) == [7])
    }
  }

  private func withBench(_ body: (ClusterBench) async throws -> Void) async throws {
    let bench = try await ClusterBench()
    do { try await body(bench) } catch {
      await bench.finish()
      throw error
    }
    await bench.finish()
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
