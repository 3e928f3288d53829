import CallCore
import CallEdge
import CallWire
import Testing

/// A device's question for its live calls, which the edge puts to every shard.
@Suite(.timeLimit(.minutes(2))) struct LiveCallsTests {
  private static func state(_ shard: UInt32) -> CallState {
    CallState(
      call: CallID(high: 1, low: UInt64(shard)), callee: "user-\(shard)", phase: .ringing,
      version: 7)
  }

  @Test(arguments: DeviceCodec.allCases) func everyShardIsAsked(codec: DeviceCodec) async throws {
    try await EdgeFixture.run { edge in
      edge.shards.follow { command in
        guard case .calls(let shard) = command.body else { return FakeShards.agreeing(command) }
        guard shard % 4 == 1 else { return .calls(LiveCalls()) }
        return .calls(LiveCalls(placed: [Self.state(shard)]))
      }
      let (client, _) = try await edge.device("ann", "phone", codec: codec)
      client.say(2, .calls)
      let (id, reply) = try await client.reply()
      guard id == 2, case .calls(let live) = reply else { throw TestFailure("\(reply)") }
      #expect(Set(live.placed.map(\.call)) == [Self.state(1).call, Self.state(5).call])
      #expect(live.received.isEmpty)
      var asked: Set<UInt32> = []
      while asked.count < 8 {
        let command = try await edge.shards.next {
          if case .calls = $0.body { true } else { false }
        }
        #expect(command.user.user == "ann" && command.device == "phone" && command.request > 0)
        if case .calls(let shard) = command.body { asked.insert(shard) }
      }
      #expect(asked == Set(0..<8))
      #expect(edge.metric("callmesh_edge_call_questions") == 0)
      #expect(edge.metric("callmesh_edge_commands_pending") == 0)
      // The rate is the session's own.
      client.say(3, .calls)
      #expect(try await client.errorReply() == (3, .rateLimited))
      client.say(4, .ping)
      #expect(try await client.reply() == (4, .done))
    }
  }

  @Test func aShardThatDoesNotAnswerIsTriedUntilTheTimeout() async throws {
    let time = StillTime()
    try await EdgeFixture.run(at: time) { edge in
      edge.shards.follow { command in
        if case .calls(shard: 3) = command.body { return nil }
        return FakeShards.agreeing(command)
      }
      let (client, _) = try await edge.device("ann", "phone")
      client.say(2, .calls)
      func isAskedAgain() async throws {
        _ = try await edge.shards.next {
          if case .calls(shard: 3) = $0.body { true } else { false }
        }
      }
      try await isAskedAgain()
      for _ in 0..<4 {
        time.pass(.seconds(1))
        try await isAskedAgain()
      }
      time.pass(.seconds(1))
      #expect(try await client.errorReply() == (2, .tryAgain))
      #expect(edge.metric("callmesh_edge_call_questions") == 0)
    }
  }

  /// As a node of a former version does, that does not know the question.
  @Test func aShardThatRefusesMakesItTryAgain() async throws {
    try await EdgeFixture.run { edge in
      edge.shards.follow { command in
        if case .calls(shard: 3) = command.body { return .error(CallError(.unknownCommand)) }
        return FakeShards.agreeing(command)
      }
      let (client, _) = try await edge.device("ann", "phone")
      client.say(2, .calls)
      #expect(try await client.errorReply() == (2, .tryAgain))
    }
  }

  @Test func onlySoManyAskAtOnce() async throws {
    try await EdgeFixture.run(at: StillTime()) {
      $0.eventLoops = 1
    } _: { edge in
      edge.shards.follow { command in
        if case .calls = command.body { return nil }
        return FakeShards.agreeing(command)
      }
      var clients: [RawClient] = []
      for index in 0..<64 {
        let (client, _) = try await edge.device("user-\(index)", "phone")
        client.say(2, .calls)
        _ = try await edge.shards.next {
          if case .calls(shard: 7) = $0.body { true } else { false }
        }
        clients.append(client)
      }
      let (client, _) = try await edge.device("ann", "phone")
      client.say(2, .calls)
      #expect(try await client.errorReply() == (2, .overloaded))
      #expect(edge.metric("callmesh_edge_call_questions_refused_total") == 1)
    }
  }
}
