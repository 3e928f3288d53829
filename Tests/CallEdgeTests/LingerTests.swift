import CallBus
import CallCore
import CallEdge
import CallWire
import NIOCore
import Testing

private let call = CallID(high: 1, low: 2)

private func isClosed(_ command: Command) -> Bool {
  if case .sessionClosed = command.body { true } else { false }
}

/// A client that is sent away reads why, also when it was about to send, or has not read for long.
@Suite(.timeLimit(.minutes(2))) struct LingerTests {
  /// The next close code, past all messages before it.
  private func closeCode(_ client: RawClient) async throws -> Int {
    while true {
      if let code = try await client.frame().closeCode { return code }
    }
  }

  /// From now on the client reads nothing, and does not close when the edge ends its output.
  private func readLater(_ client: RawClient) async throws {
    try await client.channel.setOption(.allowRemoteHalfClosure, value: true).get()
    try await client.channel.setOption(.autoRead, value: false).get()
  }

  /// It reads only when all is sent.
  @Test(arguments: [2 << 20, 8 << 20]) func aSenderOfTooMuchReadsTheReason(count: Int) async throws
  {
    try await EdgeFixture.run { edge in
      let (client, session) = try await edge.device("ann", "phone")
      try await readLater(client)
      let message = clientFrame(2, [UInt8](repeating: 65, count: count))
      try await client.channel.writeAndFlush(ByteBuffer(bytes: message)).get()
      try await client.channel.setOption(.autoRead, value: true).get()
      #expect(try await closeCode(client) == 1009)
      #expect(try await edge.shards.next(isClosed).session.number == session)
      try? await client.channel.close().get()
      try await edge.connectionsEnd()
    }
  }

  @Test func whoNeverStopsSendingIsCutOff() async throws {
    try await EdgeFixture.run {
      $0.peers.lingerBytesMax = 4 << 20
    } _: { edge in
      let (client, _) = try await edge.device("ann", "phone")
      let message = clientFrame(2, [UInt8](repeating: 65, count: 64 << 20))
      client.send(message)
      try await client.end()
    }
  }

  @Test func whoNeitherSendsNorClosesIsCutOff() async throws {
    let time = StillTime()
    try await EdgeFixture.run(at: time) { edge in
      let (client, _) = try await edge.device("ann", "phone")
      try await readLater(client)
      // The beginning of a message that is too large, and nothing more.
      let message = clientFrame(2, [UInt8](repeating: 65, count: 2 << 20))
      client.send(Array(message[..<1000]))
      _ = try await edge.shards.next(isClosed)
      #expect(edge.metric("callmesh_edge_connections") == 1)
      time.pass(.seconds(11))
      try await edge.connectionsEnd()
      try? await client.channel.close().get()
    }
  }

  // MARK: Slow readers

  private func flood(_ edge: EdgeFixture, session: UInt64) {
    let text = String(repeating: "x", count: 60_000)
    let item = EdgeItem(
      session: session,
      body: .delivery(
        Delivery(
          call: call, callee: "ann", version: 1, at: Timestamp(microseconds: 0),
          event: .invite(
            Invite(
              caller: Party(user: "bob", device: "phone"),
              deadline: Timestamp(microseconds: 0), description: text)))))
    // More than the sockets of both sides can hold.
    for _ in 0..<400 { edge.say(item) }
  }

  @Test func aSlowReaderReadsTheReasonBehindWhatWaited() async throws {
    try await EdgeFixture.run { edge in
      let (client, session) = try await edge.device("ann", "phone")
      try await readLater(client)
      flood(edge, session: session)
      #expect(try await edge.shards.next(isClosed).session.number == session)
      try await client.channel.setOption(.autoRead, value: true).get()
      #expect(try await closeCode(client) == 4005)
      try? await client.channel.close().get()
      try await edge.connectionsEnd()
    }
  }

  @Test func whoNeverReadsIsCutOff() async throws {
    let time = StillTime()
    try await EdgeFixture.run(at: time) { edge in
      let (client, session) = try await edge.device("ann", "phone")
      try await readLater(client)
      flood(edge, session: session)
      _ = try await edge.shards.next(isClosed)
      #expect(edge.metric("callmesh_edge_connections") == 1)
      time.pass(.seconds(11))
      try await edge.connectionsEnd()
      try? await client.channel.close().get()
    }
  }

  // MARK: HTTP

  @Test func aBodyThatIsTooLargeIsRefusedAlsoWhereTheClientReadsLast() async throws {
    try await EdgeFixture.run { edge in
      let client = try await edge.client()
      try await readLater(client)
      let token = try await edge.token("ann")
      let body = String(repeating: "x", count: 4 << 20)
      let text = RawClient.text("POST", "/v1/devices", token: token, body: body)
      try await client.channel.writeAndFlush(ByteBuffer(string: text)).get()
      try await client.channel.setOption(.autoRead, value: true).get()
      let response = try await client.response()
      #expect(response.status == 413 && response.errorCode == 101)
      try? await client.channel.close().get()
    }
  }
}
