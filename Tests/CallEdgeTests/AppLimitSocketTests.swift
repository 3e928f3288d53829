import CallCore
import CallEdge
import CallTelemetry
import CallWire
import NIOCore
import Testing

/// The same limits through the sockets.
extension AppLimitTests {
  @Test(arguments: DeviceCodec.allCases) func aSessionHearsItsLimit(codec: DeviceCodec) async throws
  {
    var terms = AppTerms(pushTopics: ["org.example.app"])
    terms.limits[.callsPerUser] = 1
    try await EdgeFixture.run(at: StillTime(), terms: terms) { edge in
      let (client, _) = try await edge.device("ann", "phone", codec: codec)
      func place(_ id: UInt64) -> ClientCommand {
        let call = CallID(high: 1, low: id)
        return .place(CallAddress(callee: "bob", call: call), PlaceRequest(call: call))
      }
      for id in UInt64(2)..<12 {
        client.say(id, place(id))
        // Only so many may live at a time.
        #expect(try await client.reply() == (id, .done))
        client.say(
          id + 100, .call(CallAddress(callee: "bob", call: CallID(high: 1, low: id)), .cancel))
        #expect(try await client.reply() == (id + 100, .done))
      }
      client.say(12, place(12))
      guard case (12, .error(let error)) = try await client.reply() else {
        throw TestFailure("not refused")
      }
      #expect(error.code == .rateLimited && error.retryAfterMilliseconds == 1000)
      #expect(error.message.hasPrefix("callsPerUser: at most 1 calls and transfers a second"))
      // The client does not retransmit the place: nothing was placed.
      client.say(13, .ping)
      #expect(try await client.reply() == (13, .done))
      let name = "callmesh_app_limited_total{app=\"demo\",limit=\"callsPerUser\"}"
      #expect(edge.metric(name) == 1)
      #expect(edge.metric("callmesh_app_rates{app=\"demo\"}") == 1)
    }
  }

  @Test func liveCallsAreThoseOfItsSessions() async throws {
    var terms = AppTerms()
    terms.limits[.liveCalls] = 2
    try await EdgeFixture.run(at: StillTime(), terms: terms) { edge in
      func place(_ client: RawClient, _ id: UInt64) async throws -> CallError.Code? {
        let call = CallID(high: 1, low: id)
        client.say(id, .place(CallAddress(callee: "bob", call: call), PlaceRequest(call: call)))
        if case .error(let error) = try await client.reply().reply { return error.code }
        return nil
      }
      let (ann, _) = try await edge.device("ann", "phone")
      let (carl, _) = try await edge.device("carl", "phone")
      #expect(try await place(ann, 2) == nil)
      #expect(try await place(carl, 3) == nil)
      #expect(try await place(carl, 4) == .tooManyLiveCalls)
      ann.say(5, .call(CallAddress(callee: "bob", call: CallID(high: 1, low: 2)), .cancel))
      #expect(try await ann.reply() == (5, .done))
      #expect(try await place(carl, 6) == nil)
      #expect(try await place(ann, 7) == .tooManyLiveCalls)
      // Who is gone has none.
      try await carl.channel.close().get()
      _ = try await edge.shards.next {
        if case .sessionClosed = $0.body { true } else { false }
      }
      #expect(try await place(ann, 8) == nil)
      #expect(try await place(ann, 9) == nil)
      #expect(try await place(ann, 10) == .tooManyLiveCalls)
    }
  }

  /// The command carries how many devices the app allows.
  @Test func theShardHearsOfTheDevices() async throws {
    var terms = AppTerms()
    terms.limits[.devicesOfUser] = 3
    try await EdgeFixture.run(terms: terms) { edge in
      let client = try await edge.client()
      try await client.attach(token: try await edge.token("ann"), device: "phone")
      let attach = try await edge.shards.next {
        if case .attach = $0.body { true } else { false }
      }
      #expect(attach.devicesPerUser == 3)
      client.say(2, .register(RegistrationRequest()))
      let register = try await edge.shards.next {
        if case .register = $0.body { true } else { false }
      }
      #expect(register.devicesPerUser == 3 && !register.hasWebhooks)
    }
  }

  /// A registration carries whether the app is to learn of its end.
  @Test func theShardHearsOfWebhooks() async throws {
    try await EdgeFixture.run(terms: AppTerms(subscriptions: .webhooks)) { edge in
      let client = try await edge.client()
      try await client.attach(token: try await edge.token("ann"), device: "phone")
      client.say(2, .register(RegistrationRequest()))
      let register = try await edge.shards.next {
        if case .register = $0.body { true } else { false }
      }
      #expect(register.hasWebhooks)
    }
  }

  /// So does a place with what the app has chosen for second calls.
  @Test(arguments: [SecondCalls.busy, .allow, nil])
  func theShardHearsOfSecondCalls(choice: SecondCalls?) async throws {
    let request = try await placed(AppTerms(secondCalls: choice))
    #expect(request.busyWhileInCall == choice.map { $0 == .busy })
  }

  @Test(arguments: ForwardedRing.allCases)
  func theShardHearsHowLongCallsRingThatGoOn(choice: ForwardedRing) async throws {
    var terms = AppTerms()
    terms.forwardedRing = choice
    let request = try await placed(terms)
    #expect(request.ringsAnew == (choice == .anew))
  }

  /// The place as the shard of an app's callee gets it.
  private func placed(_ terms: AppTerms) async throws -> PlaceRequest {
    var placed: PlaceRequest?
    try await EdgeFixture.run(terms: terms) { edge in
      let (client, _) = try await edge.device("ann", "phone", codec: .json)
      let call = CallID(high: 1, low: 2)
      client.say(2, .place(CallAddress(callee: "bob", call: call), PlaceRequest(call: call)))
      let command = try await edge.shards.next {
        if case .place = $0.body { true } else { false }
      }
      if case .place(let request) = command.body { placed = request }
    }
    return try #require(placed)
  }

  @Test func byHTTPTheAnswerSaysWhen() async throws {
    var terms = AppTerms(pushTopics: ["org.example.app"])
    terms.limits[.registrationsPerSecond] = 1
    try await EdgeFixture.run(at: StillTime(), terms: terms) { edge in
      let token = try await edge.token("ann", device: "phone")
      let client = try await edge.client()
      for _ in 0..<10 {
        #expect(
          try await client.request("POST", "/v1/devices", token: token, body: "{}").status == 200)
      }
      let refused = try await client.request("POST", "/v1/devices", token: token, body: "{}")
      #expect(refused.status == 429 && refused.headers["retry-after"] == "1")
      #expect(refused.text.contains("registrationsPerSecond: at most 1 registrations a second"))
      let digits = String(repeating: "ab", count: 32)
      let body =
        #"{"alertToken":{"provider":"apns","topic":"org.other.app","token":"\#(digits)"}}"#
      let foreign = try await client.request("POST", "/v1/devices", token: token, body: body)
      #expect(foreign.status == 403 && foreign.text.contains("foreignPushTopic"))
      #expect(!foreign.text.contains(digits))
      #expect(edge.metric("callmesh_app_foreign_topics_total{app=\"demo\"}") == 1)
    }
  }

  /// Bytes count as they come over the socket, whatever they hold.
  @Test func bytesOfASession() async throws {
    var terms = AppTerms()
    terms.limits[.bytesPerSession] = 8192
    terms.limits[.signalBytesPerUser] = AppLimit.signalBytesPerUser.facts.range.upperBound
    try await EdgeFixture.run(at: StillTime(), terms: terms) { edge in
      let (client, _) = try await edge.device("ann", "phone")
      let address = CallAddress(callee: "bob", call: CallID(high: 1, low: 1))
      let body = String(repeating: "d", count: 60_000)
      var id: UInt64 = 1
      // The bucket holds the largest frame of all in any case.
      for _ in 0..<17 {
        id += 1
        client.say(id, .call(address, .signal(.description, body: body)))
        #expect(try await client.reply() == (id, .done))
      }
      client.say(99, .call(address, .signal(.description, body: body)))
      guard case (99, .error(let error)) = try await client.reply() else {
        throw TestFailure("not refused")
      }
      #expect(error.code == .rateLimited && error.retryAfterMilliseconds > 0)
      #expect(
        error.message == "bytesPerSession: at most 8192 bytes a second, 1048576 at once.")
      #expect(
        edge.metric("callmesh_app_limited_total{app=\"demo\",limit=\"bytesPerSession\"}") == 1)
    }
  }

  @Test func commandsOfASession() async throws {
    var terms = AppTerms()
    terms.limits[.commandsPerSession] = 2
    try await EdgeFixture.run(at: StillTime(), terms: terms) { edge in
      let (client, _) = try await edge.device("ann", "phone")
      func query(_ id: UInt64) {
        client.say(id, .call(CallAddress(callee: "bob", call: CallID(high: 1, low: id)), .query))
      }
      var refused: CallError?
      for id in UInt64(2)..<70 where refused == nil {
        query(id)
        if case (_, .error(let error)) = try await client.reply() { refused = error }
      }
      #expect(refused?.message == "Too many commands: 2 a second, 6 at once.")
      #expect(
        edge.metric("callmesh_app_limited_total{app=\"demo\",limit=\"commandsPerSession\"}") == 1)
    }
  }
}
