import CallCore
import CallEdge
import CallWire
import Testing

@Suite struct SessionCallsTests {
  private let live = LiveCalls(placed: [.of(CallID(high: 1, low: 2), .ringing)])

  @Test func allShardsAreAskedOnce() {
    var machine = SessionMachine.attached()
    machine.say(2, .calls)
    machine.say(2, .calls)
    #expect(machine.take() == [.askForCalls(request: 2)])
    machine.session.callsListed(request: 2, live, &machine.turn)
    #expect(machine.take() == [.reply(2, .calls(live))])
    // A second answer, or one to nothing, is none.
    machine.session.callsListed(request: 2, live, &machine.turn)
    #expect(machine.take() == [])
  }

  @Test func oncePerTenSeconds() throws {
    var machine = SessionMachine.attached()
    machine.say(2, .calls)
    machine.say(3, .calls)
    machine.session.callsListed(request: 2, live, &machine.turn)
    machine.pass(.seconds(4))
    machine.say(4, .calls)
    let answers = machine.take().compactMap {
      if case .reply(let id, .error(let error)) = $0 { (id, error) } else { nil }
    }
    #expect(answers.map(\.0) == [3, 4])
    #expect(answers.map(\.1.code) == [.rateLimited, .rateLimited])
    #expect(answers.map(\.1.retryAfterMilliseconds) == [10_000, 6000])
    machine.pass(.seconds(6))
    machine.say(5, .calls)
    #expect(machine.take() == [.askForCalls(request: 5)])
  }

  /// A shard does not answer; or the question was not asked, and does not count.
  @Test func aQuestionInVainIsRefused() {
    var machine = SessionMachine.attached()
    machine.say(2, .calls)
    _ = machine.take()
    let full = CallError(.overloaded, retryAfterMilliseconds: 1000)
    machine.session.callsRefused(request: 2, full, &machine.turn)
    #expect(machine.take() == [.reply(2, .error(full))])
    machine.say(2, .calls)
    #expect(machine.take() == [.askForCalls(request: 2)])
    machine.pass(.seconds(5))
    machine.session.callsListed(request: 2, nil, &machine.turn)
    let again = CallError(.tryAgain, retryAfterMilliseconds: 5000)
    #expect(machine.take() == [.reply(2, .error(again))])
  }

  @Test func answersAreCollected() {
    var question = CallsQuestion(asker: 1, request: 2, shardCount: 3)
    let state = live.placed[0]
    #expect(question.add(.calls(live)) == .waiting)
    #expect(question.add(.calls(LiveCalls(received: [state]))) == .waiting)
    let all = LiveCalls(placed: [state, state], received: [state])
    #expect(question.add(.calls(live)) == .complete(all))
    var failing = CallsQuestion(asker: 1, request: 2, shardCount: 3)
    #expect(failing.add(.error(CallError(.tryAgain))) == .failed)
    var many = CallsQuestion(asker: 1, request: 2, shardCount: 2)
    let full = LiveCalls(placed: Array(repeating: state, count: 40))
    #expect(many.add(.calls(full)) == .waiting)
    let most = LiveCalls(placed: Array(repeating: state, count: LiveCalls.countMaximum))
    #expect(many.add(.calls(full)) == .complete(most))
  }
}

/// A device's question for its live calls, which the edge puts to every shard.
@Suite(.timeLimit(.minutes(2))) struct LiveCallsTests {
  private static func state(_ shard: UInt32) -> CallState {
    CallState(
      call: CallID(high: 1, low: UInt64(shard)), callee: "user-\(shard)", phase: .ringing,
      version: 7)
  }

  @Test(.edge(), arguments: DeviceCodec.allCases)
  func everyShardIsAsked(codec: DeviceCodec) async throws {
    edge.shards.follow { command in
      guard case .calls(let shard) = command.body else { return FakeShards.agreeing(command) }
      return .calls(LiveCalls(placed: shard % 4 == 1 ? [Self.state(shard)] : []))
    }
    let (client, _) = try await edge.device("ann", "phone", codec: codec)
    let reply = try await client.ask(2, .calls)
    guard case .calls(let live) = reply else { throw TestFailure("\(reply)") }
    #expect(Set(live.placed.map(\.call)) == [Self.state(1).call, Self.state(5).call])
    #expect(live.received.isEmpty)
    var asked: Set<UInt32> = []
    while asked.count < 8 {
      let command = try await edge.shards.next()
      guard case .calls(let shard) = command.body else { continue }
      #expect(command.user.user == "ann" && command.device == "phone" && command.request > 0)
      asked.insert(shard)
    }
    #expect(asked == Set(0..<8))
    #expect(edge.metric("callmesh_edge_call_questions") == 0)
    #expect(edge.metric("callmesh_edge_commands_pending") == 0)
  }

  @Test(.stillEdge()) func aShardThatDoesNotAnswerIsTriedUntilTheTimeout() async throws {
    edge.shards.follow {
      $0.body == .calls(shard: 3) ? nil : FakeShards.agreeing($0)
    }
    let (client, _) = try await edge.device("ann", "phone")
    client.say(2, .calls)
    for _ in 0..<5 {
      _ = try await edge.shards.next { $0.body == .calls(shard: 3) }
      edge.pass(.seconds(1))
    }
    #expect(try await client.errorReply() == (2, .tryAgain))
    #expect(edge.metric("callmesh_edge_call_questions") == 0)
  }

  /// As a node of a former version does, that does not know the question. So does one of an app's server.
  @Test(.edge()) func aShardThatRefusesMakesItTryAgain() async throws {
    edge.shards.follow { command in
      switch command.body {
      case .calls(shard: 3), .app(.calls(shard: 3)): .error(CallError(.unknownCommand))
      default: FakeShards.agreeing(command)
      }
    }
    let (client, _) = try await edge.device("ann", "phone")
    #expect(try await client.ask(2, .calls).code == .tryAgain)
    let http = try await edge.client()
    let answer = try await http.request(
      "GET", "/v1/app/users/bob/calls", token: try edge.serverToken())
    #expect(answer.outcome == (503, 501))
    // The connection goes on.
    #expect(try await http.request("GET", "/healthz").status == 200)
  }

  @Test(.stillEdge { $0.eventLoops = 1 }) func onlySoManyAskAtOnce() async throws {
    edge.shards.follow { command in
      if case .calls = command.body { nil } else { FakeShards.agreeing(command) }
    }
    var clients: [RawClient] = []
    for index in 0..<64 {
      let (client, _) = try await edge.device("user-\(index)", "phone")
      client.say(2, .calls)
      _ = try await edge.shards.next { $0.body == .calls(shard: 7) }
      clients.append(client)
    }
    let (client, _) = try await edge.device("ann", "phone")
    #expect(try await client.ask(2, .calls).code == .overloaded)
    #expect(edge.metric("callmesh_edge_call_questions_refused_total") == 1)
  }
}
