import CallCore
import CallEdge
import CallTelemetry
import CallWire
import Testing

/// A queue of the edge that is full drops its newest or its oldest, and counts it.
@Suite struct QueueLimitTests {
  private let start = Timestamp(microseconds: 1_000_000)

  @Test func aFullInboxDropsAndCounts() {
    let registry = MetricsRegistry()
    let waiting = registry.gauge("waiting", "")
    let dropped = registry.counter("dropped", "")
    let inbox = LoopInbox(capacity: 3, waiting: waiting, dropped: dropped)
    func items(_ sessions: ClosedRange<UInt64>) -> [EdgeItem] {
      sessions.map { EdgeItem(session: $0, body: .reply(request: 1, .done)) }
    }
    #expect(inbox.add(items(1...2)), "the first items wake the loop")
    #expect(!inbox.add(items(3...5)), "it is awake")
    #expect(waiting.value == 3 && dropped.value == 2)
    #expect(inbox.takeItems().map(\.session) == [1, 2, 3])
    #expect(waiting.value == 0 && dropped.value == 2)
    #expect(inbox.add(items(6...6)))
  }

  @Test func closedSessionsAreForgottenAfterAMinute() {
    var closed = ClosedSessions()
    let end = DeviceSession.End(
      user: UserKey(app: "demo", user: "ann"), device: DeviceID("phone"), isGraceful: false,
      calls: [:])
    for session in 1...UInt64(ClosedSessions.capacity + 10) {
      closed.add(end, session: session, now: start)
    }
    #expect(closed.count == ClosedSessions.capacity && closed.forgottenEarly == 10)
    closed.add(end, session: 10_000, now: start + ClosedSessions.keptFor)
    #expect(closed.count == 1 && closed.forgottenEarly == 10)
  }

  @Test func commandsOverTheLimitAreRefusedAndCounted() async throws {
    try await EdgeFixture.run(at: StillTime()) {
      $0.eventLoops = 1
      $0.commandsPendingPerLoop = 1
    } _: { edge in
      edge.shards.follow { command in
        if case .call(_, .query) = command.body { nil } else { FakeShards.agreeing(command) }
      }
      let (client, _) = try await edge.device("ann", "phone")
      for id: UInt64 in 2...3 {
        client.say(id, .call(CallAddress(callee: "bob", call: CallID(high: 1, low: id)), .query))
      }
      #expect(try await client.errorReply() == (3, .overloaded))
      #expect(edge.metric("callmesh_edge_commands_refused_total") == 1)
    }
  }
}

/// An operator may set limits: a refusal names the one in force. (Those of sessions are in
/// `DeviceSessionTests`.)
@Suite struct ConfiguredLimitTests {
  @Test func rateOfRequests() async throws {
    try await EdgeFixture.run(at: StillTime()) {
      $0.commandsBurst = 1
      $0.commandsPerSecond = 7
    } _: { edge in
      let client = try await edge.client()
      let token = try await edge.token("ann", device: "phone")
      let path = "/v1/calls/bob/11111111-2222-3333-4444-555555555555"
      #expect(try await client.request("GET", path, token: token).status == 200)
      let refused = try await client.request("GET", path, token: token)
      #expect(refused.status == 429)
      #expect(refused.text.contains("Too many commands: 7 a second, 1 at once."))
      let declined = try await client.request("POST", path + "/decline", token: token)
      #expect(declined.status == 200, "what ends a call does not wait")
      #expect(try await client.request("POST", path + "/busy", token: token).status == 429)
    }
  }
}
