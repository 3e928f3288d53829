import CallCore
import CallEdge
import CallWire
import NIOCore
import Testing

private let id = "11111111-2222-3333-4444-555555555555"

/// The limits of one address, however many connections and tokens it has.
@Suite(.timeLimit(.minutes(2))) struct AddressRateTests {
  private func run(
    _ change: (inout EdgeConfiguration) -> Void,
    _ body: (EdgeFixture, StillTime) async throws -> Void
  ) async throws {
    let time = StillTime()
    try await EdgeFixture.run(at: time) {
      $0.unlimitedAddresses = []
      change(&$0)
    } _: {
      try await body($0, time)
    }
  }

  @Test func requests() async throws {
    try await run {
      $0.peers.requestsPerAddress = 1
    } _: { edge, time in
      for _ in 0..<4 {
        let client = try await edge.client(from: "127.0.0.2")
        #expect(try await client.request("GET", "/healthz").status == 200)
      }
      let client = try await edge.client(from: "127.0.0.2")
      let refused = try await client.request("GET", "/healthz")
      #expect(refused.status == 429 && refused.errorCode == 107)
      #expect(refused.text.contains("At most 1 requests a second from one address."))
      #expect(refused.headers["retry-after"] == "1")
      #expect(edge.limited(.requestsPerAddress) == 1)
      // WebSocket handshakes are requests; others are not concerned.
      #expect(try await edge.client(from: "127.0.0.2").upgrade().status == 429)
      #expect(try await edge.client(from: "127.0.0.3").request("GET", "/healthz").status == 200)
      time.pass(.seconds(1))
      // It waits on the refused connection until it may go on, and is answered then.
      #expect(try await client.request("GET", "/healthz").status == 200)
      #expect(edge.metric("callmesh_edge_address_rates") >= 2)
    }
  }

  /// No client that shares an address keeps out requests with a good credential.
  @Test func credentialsDoNotCountAtTheirAddress() async throws {
    try await run {
      $0.peers.requestsPerAddress = 1
    } _: { edge, _ in
      for status in [200, 200, 200, 200, 429] {
        let probe = try await edge.client(from: "127.0.0.2")
        #expect(try await probe.request("GET", "/healthz").status == status)
      }
      let (token, path) = (try await edge.token("ann", device: "phone"), "/v1/calls/ann/\(id)")
      let push = PushRequestTests.header(try PushRequestTests.text(edge))
      let client = try await edge.client(from: "127.0.0.2")
      for _ in 0..<5 {
        #expect(try await client.request("POST", path + "/decline", token: token).status == 200)
        let busy = try await client.request("POST", "/v1/calls/bob/\(id)/busy", headers: push)
        #expect(busy.status == 200)
      }
      #expect(try await edge.client(from: "127.0.0.2").upgrade(token: token).status == 101)
      #expect(edge.limited(.requestsPerAddress) == 1)
      // A bad one is refused for what it is, and one without is refused for its address as before.
      for (token, status) in [("x.y.z", 401), (nil, 429)] as [(String?, Int)] {
        let stranger = try await edge.client(from: "127.0.0.2")
        let refused = try await stranger.request("POST", path + "/decline", token: token)
        #expect(refused.status == status)
      }
      #expect(try await edge.client(from: "127.0.0.2").upgrade().status == 429)
      #expect(edge.limited(.requestsPerAddress) == 3)
    }
  }

  /// The verifications that a good token costs have a limit, too, and no other user pays for them.
  @Test func whoFloodsWithAGoodTokenWaits() async throws {
    try await run {
      $0.peers.requestsPerAddress = 1
      $0.commandsBurst = 2
      $0.commandsPerSecond = 1
    } _: { edge, time in
      let client = try await edge.client(from: "127.0.0.2")
      let (token, path) = (try await edge.token("ann", device: "phone"), "/v1/calls/bob/\(id)")
      for status in [200, 200] + Array(repeating: 429, count: 8) {
        #expect(try await client.request("GET", path, token: token).status == status)
      }
      // The next one is not read before a second has passed, and its user has a request again by then.
      client.send(RawClient.text("GET", path, token: token))
      let eve = try await edge.token("eve", device: "phone")
      let other = try await edge.client(from: "127.0.0.2")
      #expect(try await other.request("GET", path, token: eve).status == 200)
      #expect(try await edge.client(from: "127.0.0.2").upgrade().status == 101)
      time.pass(.seconds(1))
      #expect(try await client.response().status == 200)
      #expect(edge.limited(.requestsPerAddress) == 0)
    }
  }

  @Test func whatSuspectsHaveTogether() async throws {
    try await run {
      $0.peers.failedAuthsPerAddress = 1
      $0.peers.suspectVerifications = 2
    } _: { edge, time in
      let (good, path) = (try await edge.token("ann", device: "phone"), "/v1/calls/bob/\(id)")
      func ask(_ last: Int, _ token: String) async throws -> Int {
        try await edge.client(from: "127.0.0.\(last)").request("GET", path, token: token).status
      }
      for last in [2, 3] { #expect(try await ask(last, "x.y.z") == 401) }
      #expect(try await ask(2, "x.y.z") == 429)
      #expect(try await ask(3, good) == 200)
      // Their two are used up; an address without failures does not need any.
      #expect(try await ask(3, good) == 429)
      #expect(try await edge.client(from: "127.0.0.2").upgrade(token: good).status == 429)
      #expect(try await ask(4, good) == 200)
      time.pass(.seconds(1))
      #expect(try await ask(3, good) == 200)
    }
  }

  @Test func theTableIsBounded() async throws {
    try await run {
      $0.peers.addressRatesMax = 5
    } _: { edge, _ in
      for last in 2..<40 {
        let client = try await edge.client(from: "127.0.0.\(last)")
        #expect(try await client.request("GET", "/healthz").status == 200)
        try await client.channel.close().get()
      }
      #expect(edge.metric("callmesh_edge_address_rates") <= 10)
      #expect(edge.metric("callmesh_edge_address_rates_forgotten_total") >= 25)
    }
  }

  @Test func tokensThatAreRefused() async throws {
    try await run {
      $0.peers.failedAuthsPerAddress = 2
    } _: { edge, time in
      let (good, path) = (try await edge.token("ann", device: "phone"), "/v1/calls/bob/\(id)")
      let bad = try await edge.client(from: "127.0.0.2")
      #expect(try await bad.request("GET", path, token: "x.y.z").status == 401)
      let socket = try await edge.client(from: "127.0.0.2")
      try await socket.upgrade()
      socket.say(1, .attach(AttachRequest(token: "x.y.z", device: "phone")))
      #expect(try await socket.errorReply().code == .notAccepted)
      // From now on further ones are told so, wherever the token stands.
      let refused = try await bad.request("GET", path, token: "x.y.z")
      #expect(refused.status == 429 && refused.errorCode == 107)
      #expect(refused.text.contains("At most 2 refused tokens a minute from one address."))
      #expect(refused.headers["retry-after"] == "30")
      let handshake = try await edge.client(from: "127.0.0.2").upgrade(token: "x.y.z")
      #expect(handshake.status == 429)
      // Who shares the address with them is not concerned: not even on the same connection of a proxy.
      #expect(try await bad.request("GET", path, token: good).status == 200)
      #expect(try await edge.client(from: "127.0.0.2").upgrade(token: good).status == 101)
      // A device's connection that goes on with bad ones gets none verified for a while.
      socket.say(2, .attach(AttachRequest(token: "x.y.z", device: "phone")))
      #expect(try await socket.errorReply().code == .rateLimited)
      socket.say(3, .attach(AttachRequest(token: good, device: "phone")))
      #expect(try await socket.errorReply().code == .rateLimited)
      #expect(edge.limited(.failedAuthsPerAddress) == 4)
      time.pass(.seconds(31))
      socket.say(4, .attach(AttachRequest(token: "x.y.z", device: "phone")))
      #expect(try await socket.errorReply().code == .notAccepted, "it is verified again")
    }
  }

  // MARK: X-Forwarded-For

  @Test func theDeviceBehindAProxyIsLimited() async throws {
    try await run {
      $0.trustedProxies = AddressRange.list("127.0.0.2,10.0.0.0/8") ?? []
      $0.peers.requestsPerAddress = 1
      $0.peers.connectionsPerAddress = 1
    } _: { edge, _ in
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
      // The proxy looks whether the edge is there.
      let probe = try await edge.client(from: "127.0.0.2")
      for _ in 0..<10 { #expect(try await probe.request("GET", "/healthz").status == 200) }
      #expect(edge.metric("callmesh_edge_forwarded_without_address_total") == 10)
    }
  }

  @Test func othersAreNotBelieved() async throws {
    try await run {
      $0.trustedProxies = AddressRange.list("127.0.0.2") ?? []
      $0.peers.requestsPerAddress = 1
    } _: { edge, _ in
      let client = try await edge.client(from: "127.0.0.3")
      for number in 0..<5 {
        let answer = try await client.request(
          "GET", "/healthz", headers: ["X-Forwarded-For: 203.0.113.\(number)"])
        #expect(answer.status == (number < 4 ? 200 : 429))
      }
    }
  }
}
