import CallEdge
import CallWire
import Glibc
import NIOCore
import NIOEmbedded
import Testing

extension Trait where Self == EdgeTrait {
  fileprivate static var edgeBehindProxy: EdgeTrait {
    .stillEdge {
      $0.trustedProxies = AddressRange.list("127.0.0.2") ?? []
      $0.proxyProtocol = true
      $0.unlimitedAddresses = []
      $0.peers.connectionsPerAddress = 2
      $0.peers.requestsPerAddress = 100
    }
  }
}

/// How many connections there may be, and what comes on them before a request.
@Suite(.timeLimit(.minutes(2))) struct ConnectionLimitTests {
  /// Whether the edge answers; a connection that is refused is answered before it asks.
  private func status(_ client: RawClient) async throws -> Int {
    try await client.request("GET", "/healthz").status
  }

  /// Opens as many connections as there may be, of which one goes, and there is room again.
  private func fill(
    _ count: Int, from source: String = "127.0.0.1",
    refused: (RawClient.Response) async throws -> Void
  ) async throws {
    var open: [RawClient] = []
    for _ in 0..<count {
      open.append(try await edge.client(from: source))
      #expect(try await status(open[open.count - 1]) == 200)
    }
    let further = try await edge.client(from: source)
    try await refused(try await further.response())
    try await further.end()
    try await open.removeLast().channel.close().get()
    let started = ContinuousClock.now
    while .now < started + patience {
      let client = try await edge.client(from: source)
      if try await status(client) == 200 { return }
      try await client.end()
    }
    throw TestFailure("no connection is taken")
  }

  @Test(
    .edge {
      $0.peers.connectionsMax = 3
      $0.peers.unattachedMax = 100
    })
  func connectionsInAll() async throws {
    try await fill(3) { answer in
      #expect(answer.outcome == (503, 503) && answer.headers["retry-after"] == "1")
      #expect(answer.text.contains("At most 3 connections"))
      #expect(edge.refused(.all) == 1)
      #expect(edge.metric("callmesh_edge_connections_max") == 3)
    }
  }

  @Test(
    .edge {
      $0.peers.connectionsPerAddress = 2
      $0.unlimitedAddresses = []
    })
  func connectionsOfAnAddress() async throws {
    try await fill(2, from: "127.0.0.2") { answer in
      #expect(answer.outcome == (429, 107) && answer.headers["retry-after"] == "5")
      #expect(answer.text.contains("At most 2 connections from one address."))
      #expect(edge.refused(.address) == 1)
      // Others are not concerned.
      let other = try await edge.request("GET", "/healthz", from: "127.0.0.3")
      #expect(other.status == 200)
    }
  }

  /// Nothing of an address is left when its connections have gone.
  @Test(.edge { $0.unlimitedAddresses = [] }) func theTableOfAddressesEmpties() async throws {
    for last in 2..<22 {
      let client = try await edge.client(from: "127.0.0.\(last)")
      #expect(try await status(client) == 200)
      try await client.channel.close().get()
    }
    try await edge.connectionsEnd()
    try await edge.until("callmesh_edge_addresses") { $0 == 0 }
  }

  /// Somebody opens connections and says nothing: devices get in all the same.
  @Test(
    .stillEdge {
      $0.eventLoops = 1
      $0.peers.unattachedMax = 2
    })
  func theOldestWithoutADeviceGivesWay() async throws {
    let (device, _) = try await edge.device("ann", "phone")
    let silent = try await edge.client()
    let second = try await edge.client()
    #expect(try await status(second) == 200)
    // All of them are new: nobody gives way yet.
    let refused = try await edge.client().response()
    #expect(refused.status == 503 && refused.text.contains("no device has attached"))
    edge.pass(.seconds(2))
    let (late, _) = try await edge.device("bob", "phone")
    try await silent.end()
    #expect(try await status(second) == 200)
    for client in [device, late] { try await client.ask(2, .ping) }
    #expect(edge.metric("callmesh_edge_connections_unattached") == 1)
    #expect(edge.refused(.unattached) == 2)
  }

  /// Time stands still: else a slow machine ends the first connection, which asks only after all others.
  @Test(.stillEdge { $0.eventLoops = 1 }) func manyThatAttachAndGoAreForgotten() async throws {
    let first = try await edge.client()
    for number in 0..<200 {
      let (client, _) = try await edge.device("ann", "d\(number)")
      try await client.channel.close().get()
    }
    #expect(try await status(first) == 200)
    #expect(edge.metric("callmesh_edge_connections_unattached") == 1)
  }

  private static let request = Array(RawClient.text("GET", "/healthz").utf8)

  @Test(.edgeBehindProxy) func theProxySaysWhoseConnectionItIs() async throws {
    var open: [RawClient] = []
    for pieces in [1, 28] {
      let client = try await edge.client(from: "127.0.0.2")
      let bytes = proxyHeader() + Self.request
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
    let other = proxyHeader(body: [203, 0, 113, 8, 127, 0, 0, 1, 9, 9, 1, 187])
    for header in [other] + Array(repeating: proxyHeader(command: 0), count: 3) {
      let client = try await edge.client(from: "127.0.0.2")
      client.send(header)
      #expect(try await status(client) == 200)
      open.append(client)
    }
    let device = try await edge.client(from: "127.0.0.2")
    device.send(other)
    try await device.attach(token: try edge.token("ann"), device: "phone")
  }

  @Test(.edgeBehindProxy) func aProxyThatSaysNothingIsCutOff() async throws {
    let client = try await edge.client(from: "127.0.0.2")
    client.send(Self.request)
    try await client.end()
    #expect(edge.limited(.proxyHeader) == 1)
  }

  /// A peer that is no proxy cannot borrow an address.
  @Test(.edgeBehindProxy) func othersHaveNoHeader() async throws {
    #expect(try await edge.request("GET", "/healthz", from: "127.0.0.3").status == 200)
    let liar = try await edge.client(from: "127.0.0.3")
    liar.send(proxyHeader() + Self.request)
    #expect(try await liar.response().status == 400)
    try await liar.end()
  }
}

/// A listening socket that cannot accept.
@Suite struct AcceptErrorTests {
  /// The channel keeps the last value of each option.
  private static func autoReads(of channel: EmbeddedChannel) -> [Bool] {
    channel.options.compactMap { option, value in
      option is ChannelOptions.Types.AutoReadOption ? value as? Bool : nil
    }
  }

  @Test(arguments: [EMFILE, ENFILE, ENOBUFS, ENOMEM])
  func itReadsNothingForASecond(errno: CInt) throws {
    var count = 0
    let channel = EmbeddedChannel(handler: AcceptErrorHandler { count += 1 })
    channel.pipeline.fireErrorCaught(IOError(errnoCode: errno, reason: "accept"))
    #expect(count == 1)
    #expect(Self.autoReads(of: channel) == [false])
    channel.embeddedEventLoop.advanceTime(by: .milliseconds(999))
    #expect(Self.autoReads(of: channel) == [false])
    channel.embeddedEventLoop.advanceTime(by: .milliseconds(1))
    #expect(Self.autoReads(of: channel) == [true])
    _ = try channel.finish()
  }

  @Test func otherErrorsPass() throws {
    let channel = EmbeddedChannel(
      handler: AcceptErrorHandler { Issue.record("nothing is exhausted") })
    channel.pipeline.fireErrorCaught(IOError(errnoCode: ECONNABORTED, reason: "accept"))
    #expect(throws: IOError.self) { try channel.throwIfErrorCaught() }
    #expect(Self.autoReads(of: channel).isEmpty)
  }
}
