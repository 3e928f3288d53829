import CallEdge
import CallWire
import NIOCore
import Testing

/// How many connections there may be, and what comes on them before a request.
@Suite(.timeLimit(.minutes(2))) struct ConnectionLimitTests {
  /// Whether the edge answers; a connection that is refused is answered before it asks.
  private func status(_ client: RawClient) async throws -> Int {
    client.send(RawClient.text("GET", "/healthz"))
    return try await client.response().status
  }

  @Test func connectionsInAll() async throws {
    try await EdgeFixture.run {
      $0.peers.connectionsMax = 3
      $0.peers.unattachedMax = 100
    } _: { edge in
      var open: [RawClient] = []
      for _ in 0..<3 {
        open.append(try await edge.client())
        #expect(try await status(open[open.count - 1]) == 200)
      }
      let refused = try await edge.client()
      let answer = try await refused.response()
      #expect(answer.status == 503 && answer.errorCode == 503)
      #expect(answer.text.contains("At most 3 connections") && answer.headers["retry-after"] == "1")
      try await refused.end()
      #expect(edge.refused(.all) == 1)
      #expect(edge.metric("callmesh_edge_connections_max") == 3)
      // One goes, and there is room again.
      try await open.removeLast().channel.close().get()
      let client = try await roomAgain(edge)
      #expect(try await status(client) == 200)
    }
  }

  /// Tries until the edge takes a connection.
  private func roomAgain(_ edge: EdgeFixture, from source: String = "127.0.0.1") async throws
    -> RawClient
  {
    let started = ContinuousClock.now
    while .now < started + patience {
      let client = try await edge.client(from: source)
      if try await status(client) == 200 { return client }
      try await client.end()
    }
    throw TestFailure("no connection is taken")
  }

  @Test func connectionsOfAnAddress() async throws {
    try await EdgeFixture.run {
      $0.peers.connectionsPerAddress = 2
      $0.unlimitedAddresses = []
    } _: { edge in
      var open: [RawClient] = []
      for _ in 0..<2 {
        open.append(try await edge.client(from: "127.0.0.2"))
        #expect(try await status(open[open.count - 1]) == 200)
      }
      let refused = try await edge.client(from: "127.0.0.2").response()
      #expect(refused.status == 429 && refused.errorCode == 107)
      #expect(refused.text.contains("At most 2 connections from one address."))
      #expect(refused.headers["retry-after"] == "5")
      #expect(edge.refused(.address) == 1)
      // Others are not concerned.
      #expect(try await status(try await edge.client(from: "127.0.0.3")) == 200)
      try await open.removeLast().channel.close().get()
      _ = try await roomAgain(edge, from: "127.0.0.2")
    }
  }

  /// Nothing of an address is left when its connections have gone.
  @Test func theTableOfAddressesEmpties() async throws {
    try await EdgeFixture.run {
      $0.unlimitedAddresses = []
    } _: { edge in
      for last in 2..<22 {
        let client = try await edge.client(from: "127.0.0.\(last)")
        #expect(try await status(client) == 200)
        try await client.channel.close().get()
      }
      try await edge.connectionsEnd()
      try await edge.until("callmesh_edge_addresses") { $0 == 0 }
    }
  }

  /// Somebody opens connections and says nothing: devices get in all the same.
  @Test func theOldestWithoutADeviceGivesWay() async throws {
    let time = StillTime()
    try await EdgeFixture.run(at: time) {
      $0.eventLoops = 1
      $0.peers.unattachedMax = 2
    } _: { edge in
      let (device, _) = try await edge.device("ann", "phone")
      let silent = try await edge.client()
      let second = try await edge.client()
      #expect(try await status(second) == 200)
      // All of them are new: nobody gives way yet.
      let refused = try await edge.client().response()
      #expect(refused.status == 503 && refused.text.contains("no device has attached"))
      time.pass(.seconds(2))
      let (late, _) = try await edge.device("bob", "phone")
      try await silent.end()
      #expect(try await status(second) == 200)
      for client in [device, late] {
        client.say(2, .ping)
        #expect(try await client.reply().id == 2)
      }
      #expect(edge.metric("callmesh_edge_connections_unattached") == 1)
      #expect(edge.refused(.unattached) == 2)
    }
  }

  /// Time stands still: else a slow machine ends the first connection, which asks only after all others.
  @Test func manyThatAttachAndGoAreForgotten() async throws {
    try await EdgeFixture.run(at: StillTime()) {
      $0.eventLoops = 1
    } _: { edge in
      let first = try await edge.client()
      for number in 0..<200 {
        let (client, _) = try await edge.device("ann", "d\(number)")
        try await client.channel.close().get()
      }
      #expect(try await status(first) == 200)
      #expect(edge.metric("callmesh_edge_connections_unattached") == 1)
    }
  }

  // MARK: The PROXY protocol

  private func behindProxy(_ body: (EdgeFixture) async throws -> Void) async throws {
    try await EdgeFixture.run(at: StillTime()) {
      $0.trustedProxies = AddressRange.list("127.0.0.2") ?? []
      $0.proxyProtocol = true
      $0.unlimitedAddresses = []
      $0.peers.connectionsPerAddress = 2
      $0.peers.requestsPerAddress = 100
    } _: {
      try await body($0)
    }
  }

  @Test func theProxySaysWhoseConnectionItIs() async throws {
    try await behindProxy { edge in
      var open: [RawClient] = []
      for pieces in [1, 28] {
        let client = try await edge.client(from: "127.0.0.2")
        let bytes = proxyHeader() + Array(RawClient.text("GET", "/healthz").utf8)
        for start in stride(from: 0, to: bytes.count, by: pieces) {
          client.send(Array(bytes[start..<min(bytes.count, start + pieces)]))
        }
        #expect(try await client.response().status == 200)
        open.append(client)
      }
      // The device has as many as it may.
      let third = try await edge.client(from: "127.0.0.2")
      third.send(proxyHeader())
      try await third.end()
      #expect(edge.refused(.address) == 1)
      // Another device, by the same proxy; and the proxy itself.
      for header in [
        proxyHeader(body: [203, 0, 113, 8, 127, 0, 0, 1, 9, 9, 1, 187]), proxyHeader(command: 0),
        proxyHeader(command: 0), proxyHeader(command: 0),
      ] {
        let client = try await edge.client(from: "127.0.0.2")
        client.send(header)
        #expect(try await status(client) == 200)
        open.append(client)
      }
    }
  }

  @Test func devicesAttachBehindAProxy() async throws {
    try await behindProxy { edge in
      let client = try await edge.client(from: "127.0.0.2")
      client.send(proxyHeader())
      try await client.attach(token: try await edge.token("ann"), device: "phone")
    }
  }

  @Test func aProxyThatSaysNothingIsCutOff() async throws {
    try await behindProxy { edge in
      let client = try await edge.client(from: "127.0.0.2")
      client.send(RawClient.text("GET", "/healthz"))
      try await client.end()
      #expect(edge.limited(.proxyHeader) == 1)
    }
  }

  /// A peer that is no proxy cannot borrow an address.
  @Test func othersHaveNoHeader() async throws {
    try await behindProxy { edge in
      #expect(try await status(try await edge.client(from: "127.0.0.3")) == 200)
      let liar = try await edge.client(from: "127.0.0.3")
      liar.send(proxyHeader() + Array(RawClient.text("GET", "/healthz").utf8))
      #expect(try await liar.response().status == 400)
      try await liar.end()
    }
  }
}
