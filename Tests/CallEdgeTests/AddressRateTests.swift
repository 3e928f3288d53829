import CallCore
import CallEdge
import CallWire
import Testing

private let path = "/v1/calls/bob/11111111-2222-3333-4444-555555555555"

extension Trait where Self == EdgeTrait {
  /// An edge that limits all addresses, and whose time stands still.
  fileprivate static func edgeOfFew(
    _ change: @escaping @Sendable (inout EdgeConfiguration) -> Void
  ) -> EdgeTrait {
    .stillEdge {
      $0.unlimitedAddresses = []
      change(&$0)
    }
  }
}

/// The limits of one address, however many connections and tokens it has.
@Suite(.timeLimit(.minutes(2))) struct AddressRateTests {
  /// The status of a request, on a connection of its own from 127.0.0.2 or another.
  private func ask(
    _ path: String = "/healthz", _ token: String? = nil, from last: Int = 2
  ) async throws -> Int {
    try await edge.request("GET", path, token: token, from: "127.0.0.\(last)").status
  }

  private func upgrade(_ token: String? = nil) async throws -> Int {
    try await edge.client(from: "127.0.0.2").upgrade(token: token).status
  }

  @Test(.edgeOfFew { $0.peers.requestsPerAddress = 1 }) func requests() async throws {
    for _ in 0..<4 { #expect(try await ask() == 200) }
    let client = try await edge.client(from: "127.0.0.2")
    let refused = try await client.request("GET", "/healthz")
    #expect(refused.outcome == (429, 107) && refused.headers["retry-after"] == "1")
    #expect(refused.text.contains("At most 1 requests a second from one address."))
    #expect(edge.limited(.requestsPerAddress) == 1)
    // WebSocket handshakes are requests; others are not concerned.
    #expect(try await upgrade() == 429)
    #expect(try await ask(from: 3) == 200)
    edge.pass(.seconds(1))
    // It waits on the refused connection until it may go on, and is answered then.
    #expect(try await client.request("GET", "/healthz").status == 200)
    #expect(edge.metric("callmesh_edge_address_rates") >= 2)
  }

  /// No client that shares an address keeps out requests with a good credential.
  @Test(.edgeOfFew { $0.peers.requestsPerAddress = 1 })
  func credentialsDoNotCountAtTheirAddress() async throws {
    for status in [200, 200, 200, 200, 429] { #expect(try await ask() == status) }
    let token = try edge.token("ann", device: "phone")
    let push = PushRequestTests.header(try PushRequestTests.text(edge))
    let client = try await edge.client(from: "127.0.0.2")
    for _ in 0..<5 {
      let declined = try await client.request("POST", path + "/decline", token: token)
      #expect(declined.status == 200)
      let busy = try await client.request("POST", path + "/busy", headers: push)
      #expect(busy.status == 200)
    }
    #expect(try await upgrade(token) == 101)
    #expect(edge.limited(.requestsPerAddress) == 1)
    // A bad one is refused for what it is, and one without is refused for its address as before.
    #expect(try await ask(path, "x.y.z") == 401)
    #expect(try await ask(path) == 429)
    #expect(try await upgrade() == 429)
    #expect(edge.limited(.requestsPerAddress) == 3)
  }

  /// The verifications that a good token costs have a limit, too, and no other user pays for them.
  @Test(
    .edgeOfFew {
      $0.peers.requestsPerAddress = 1
      $0.commandsBurst = 2
      $0.commandsPerSecond = 1
    })
  func whoFloodsWithAGoodTokenWaits() async throws {
    let client = try await edge.client(from: "127.0.0.2")
    let token = try edge.token("ann", device: "phone")
    for status in [200, 200] + Array(repeating: 429, count: 8) {
      #expect(try await client.request("GET", path, token: token).status == status)
    }
    // The next one is not read before a second has passed, and its user has a request again by then.
    client.send(RawClient.text("GET", path, token: token))
    #expect(try await ask(path, try edge.token("eve", device: "phone")) == 200)
    #expect(try await upgrade() == 101)
    edge.pass(.seconds(1))
    #expect(try await client.response().status == 200)
    #expect(edge.limited(.requestsPerAddress) == 0)
  }

  @Test(
    .edgeOfFew {
      $0.peers.failedAuthsPerAddress = 1
      $0.peers.suspectVerifications = 2
    })
  func whatSuspectsHaveTogether() async throws {
    let good = try edge.token("ann", device: "phone")
    for last in [2, 3] { #expect(try await ask(path, "x.y.z", from: last) == 401) }
    #expect(try await ask(path, "x.y.z") == 429)
    #expect(try await ask(path, good, from: 3) == 200)
    // Their two are used up; an address without failures does not need any.
    #expect(try await ask(path, good, from: 3) == 429)
    #expect(try await upgrade(good) == 429)
    #expect(try await ask(path, good, from: 4) == 200)
    edge.pass(.seconds(1))
    #expect(try await ask(path, good, from: 3) == 200)
  }

  @Test(.edgeOfFew { $0.peers.addressRatesMax = 5 }) func theTableIsBounded() async throws {
    for last in 2..<40 { #expect(try await ask(from: last) == 200) }
    #expect(edge.metric("callmesh_edge_address_rates") <= 10)
    #expect(edge.metric("callmesh_edge_address_rates_forgotten_total") >= 25)
  }

  @Test(.edgeOfFew { $0.peers.failedAuthsPerAddress = 2 })
  func tokensThatAreRefused() async throws {
    let good = try edge.token("ann", device: "phone")
    let bad = try await edge.client(from: "127.0.0.2")
    #expect(try await bad.request("GET", path, token: "x.y.z").status == 401)
    let socket = try await edge.client(from: "127.0.0.2")
    try await socket.upgrade()
    let attach = ClientCommand.attach(AttachRequest(token: "x.y.z", device: "phone"))
    #expect(try await socket.ask(1, attach).code == .notAccepted)
    // From now on further ones are told so, wherever the token stands.
    let refused = try await bad.request("GET", path, token: "x.y.z")
    #expect(refused.outcome == (429, 107) && refused.headers["retry-after"] == "30")
    #expect(refused.text.contains("At most 2 refused tokens a minute from one address."))
    #expect(try await upgrade("x.y.z") == 429)
    // Who shares the address with them is not concerned: not even on the same connection of a proxy.
    #expect(try await bad.request("GET", path, token: good).status == 200)
    #expect(try await upgrade(good) == 101)
    // A device's connection that goes on with bad ones gets none verified for a while.
    #expect(try await socket.ask(2, attach).code == .rateLimited)
    let late = ClientCommand.attach(AttachRequest(token: good, device: "phone"))
    #expect(try await socket.ask(3, late).code == .rateLimited)
    #expect(edge.limited(.failedAuthsPerAddress) == 4)
    edge.pass(.seconds(31))
    #expect(try await socket.ask(4, attach).code == .notAccepted, "it is verified again")
  }

  @Test(
    .edgeOfFew {
      $0.trustedProxies = AddressRange.list("127.0.0.2,10.0.0.0/8") ?? []
      $0.peers.requestsPerAddress = 1
      $0.peers.connectionsPerAddress = 1
    })
  func theDeviceBehindAProxyIsLimited() async throws {
    let client = try await edge.client(from: "127.0.0.2")
    func ask(_ said: String, _ client: RawClient) async throws -> Int {
      try await client.request("GET", "/healthz", headers: ["X-Forwarded-For: \(said)"]).status
    }
    for number in 0..<4 {
      // An address that the device itself claims does not count.
      #expect(try await ask("192.0.2.\(number), 203.0.113.7, 10.0.0.1", client) == 200)
    }
    // A proxy's connection serves many devices.
    #expect(try await ask("203.0.113.8", client) == 200)
    // A device has as many connections as it may, by whatever proxy.
    let second = try await edge.client(from: "127.0.0.2")
    #expect(try await ask("203.0.113.8", second) == 429)
    try await second.end()
    #expect(try await ask("203.0.113.7", client) == 429)
    #expect(edge.limited(.requestsPerAddress) == 1)
    #expect(try await ask("203.0.113.9", client) == 200, "another device on this connection")
    // The proxy looks whether the edge is there.
    let probe = try await edge.client(from: "127.0.0.2")
    for _ in 0..<10 { #expect(try await probe.request("GET", "/healthz").status == 200) }
    #expect(edge.metric("callmesh_edge_forwarded_without_address_total") == 10)
  }

  @Test(
    .edgeOfFew {
      $0.trustedProxies = AddressRange.list("127.0.0.2") ?? []
      $0.peers.requestsPerAddress = 1
    })
  func othersAreNotBelieved() async throws {
    let client = try await edge.client(from: "127.0.0.3")
    for number in 0..<5 {
      let answer = try await client.request(
        "GET", "/healthz", headers: ["X-Forwarded-For: 203.0.113.\(number)"])
      #expect(answer.status == (number < 4 ? 200 : 429))
    }
  }
}
