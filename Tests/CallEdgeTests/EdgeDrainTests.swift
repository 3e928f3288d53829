import CallBus
import CallCore
import CallEdge
import CallTelemetry
import CallWire
import Foundation
import NIOCore
import Testing

private let call = CallID(high: 1, low: 2)
private let begin = Timestamp(microseconds: 1_000_000_000)

/// When sessions are notified, and when they are closed.
@Suite struct DrainScheduleTests {
  @Test func manyAreToldEvenlyAndThoseThatStayClosedEvenly() {
    var schedule = DrainSchedule(begins: begin, span: .seconds(15), count: 10_000)
    #expect(schedule.notified(at: begin) == 1)
    #expect((4990...5010).contains(schedule.notified(at: begin + .seconds(5))))
    #expect(schedule.notified(at: begin + .seconds(10)) == 10_000)
    let times: [(Int, Int64)] = [(10_000, 9999), (1000, 10_000), (700, 12_500), (300, 15_000)]
    let stay = times.map { schedule.mayStay(of: $0.0, at: begin + .milliseconds($0.1)) }
    #expect(stay == [.max, 1000, 500, 0])
  }

  @Test func fewAreToldSoonAndWithoutTimeAllAreClosedAtOnce() {
    let few = DrainSchedule(begins: begin, span: .seconds(600), count: 100)
    #expect(few.notified(at: begin + .milliseconds(400)) == 100)
    var hasty = DrainSchedule(begins: begin, span: .seconds(0), count: 100)
    #expect(hasty.notified(at: begin) == 100)
    let stay = hasty.mayStay(of: 100, at: begin)
    #expect(stay == 0)
  }
}

/// R20: how an edge gives its devices up, and takes them again.
@Suite(.timeLimit(.minutes(1))) struct EdgeDrainTests {
  private func order(
    _ edge: EdgeFixture, _ action: DrainRequest.Action, seconds: Int? = nil
  ) async throws {
    let answer = try await edge.order(
      action.rawValue, DrainRequest(node: "edge-1", action: action, seconds: seconds))
    #expect(
      try JSONDecoder().decode(OrderAnswer.self, from: Data(answer))
        == OrderAnswer(node: "edge-1", role: "edge"))
    let record = try await edge.bus.openAudit(AuditOptions(role: "")).records(limit: 1).last
    let text = String(decoding: try #require(record).bytes, as: UTF8.self)
    #expect(text.contains(#""operator":"ann""#) && text.contains(#""order":"\#(action.rawValue)""#))
  }

  /// Asks again and again, as an operator does.
  private func until(_ state: String, _ edge: EdgeFixture) async throws {
    while try await edge.status().state != state { try Task.checkCancellation() }
  }

  @Test(.edge()) func nothingNewEntersAndWhatIsThereGoesOn() async throws {
    let (client, session) = try await edge.device("ann", "phone")
    let late = try await edge.socket()
    try await order(edge, .drain, seconds: 600)
    #expect(try await client.notice().kind == .goAway)
    #expect(try await edge.status().state == "draining")
    #expect(try await client.ask(2, .place(call)).code == .draining)
    // Calls that are there go on.
    try await client.ask(3, .call(CallAddress(call: call), .query))
    late.say(1, .attach(AttachRequest(token: try edge.token("bob"), device: "phone")))
    #expect(try await late.notice().kind == .goAway)
    #expect(try await late.errorReply() == (1, .draining))
    #expect(try await late.frame().closeCode == 4002)
    #expect(edge.node.readiness.missing.contains("the edge drains"))
    let answer = try await edge.client().upgrade()
    #expect(answer.outcome == (503, 502) && answer.headers["retry-after"] == "1")
    // It goes by itself: the drain need not wait for its time.
    try await client.channel.close().get()
    _ = try await edge.shards.next { $0.session.number == session && $0.request == 0 }
    try await until("drained", edge)
  }

  @Test(.edge()) func itServesAgain() async throws {
    // An order for another node is not its own.
    let other = Array(try JSONEncoder().encode(DrainRequest(node: "edge-2", action: .drain)))
    edge.bus.publish(edge.shards.subjects.order("drain", by: "ann"), other)
    #expect(try await edge.status().state == "serving")
    try await order(edge, .drain)
    try await until("drained", edge)
    try await order(edge, .resume)
    try await until("serving", edge)
    let (client, _) = try await edge.device("ann", "phone")
    try await client.ask(2, .place(call))
    try await client.channel.close().get()
  }

  @Test func whoIsInACallIsClosedLast() async throws {
    // All users are of one shard: items for several shards in one turn of the loop have no order between them.
    let users = Array(
      (0...).lazy.map { "user-\($0)" }
        .filter { ShardHash.shard(of: UserKey(app: "demo", user: $0), count: 8) == 0 }.prefix(8))
    var clients: [RawClient] = []
    let closed = Inbox<String>(capacity: 100)
    try await EdgeFixture.run {
      $0.eventLoops = 1
      $0.drainSeconds = 1
    } _: { edge in
      let subjects = edge.shards.subjects
      for shard in 0..<8 {
        _ = try edge.bus.subscribe(subjects.commands(shard: shard)) { message in
          for command in (try? ClusterCodec.commandBatch(message.bytes))?.commands ?? []
          where command.isEnd { closed.offer(command.user.user) }
        }
      }
      let invite = Invite(caller: Party(user: "x", device: "y"), deadline: .distantFuture)
      for (index, user) in users.enumerated() {
        let (client, session) = try await edge.device(user, "phone")
        clients.append(client)
        guard index < 2 else { continue }
        edge.say(.delivery(.invite(invite), to: session, of: user))
        _ = try await client.message()
      }
    }
    let order = await closed.next(until: .now)
    #expect(order.count == 8)
    #expect(Set(order.suffix(2)) == Set(users.prefix(2)))
  }
}
