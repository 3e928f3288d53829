import CallAuth
import CallCore
import CallEdge
import CallWire
import Testing

/// Users, devices and apps are equal when their bytes are: from the socket to the shard and back.
@Suite(.timeLimit(.minutes(2))) struct ByteIdentityTests {
  private static let kate = "Kate"
  private static let kelvin = "\u{212a}ate"

  @Test(arguments: DeviceCodec.allCases) func twoUsersAreTwo(codec: DeviceCodec) async throws {
    try await EdgeFixture.run { edge in
      let shards = RealShards()
      edge.shards.follow { shards.handle($0).reply }
      let (kate, _) = try await edge.device(Self.kate, "phone", codec: codec)
      let (kelvin, _) = try await edge.device(Self.kelvin, "phone", codec: codec)
      kate.say(2, .ping)
      #expect(try await kate.reply() == (2, .done), "its session was not replaced")
      // Its own twin's number is not its own.
      let call = CallID(high: 1, low: 1)
      kelvin.say(
        2, .place(CallAddress(callee: Self.kate, call: call), PlaceRequest(call: call)))
      let placed = try await edge.shards.next {
        if case .place = $0.body { true } else { false }
      }
      #expect(placed.user == UserKey(app: "demo", user: Self.kelvin))
      #expect(placed.callee == UserKey(app: "demo", user: Self.kate))
      #expect(Array(placed.callee.user.utf8) == Array(Self.kate.utf8))
      guard case .call(let state) = try await kelvin.reply().reply else {
        throw TestFailure("not placed")
      }
      #expect(state.phase == .placed && Array(state.callee.utf8) == Array(Self.kate.utf8))
      // It is no device of Kate's: it learns nothing of the call as one of hers.
      kelvin.say(3, .call(CallAddress(callee: Self.kelvin, call: call), .decline(.everywhere)))
      #expect(try await kelvin.errorReply() == (3, .unknownCall))
    }
  }

  @Test func aTokensDeviceIsThatDevice() throws {
    let composed = "d\u{e9}"
    let decomposed = "de\u{301}"
    #expect(composed == decomposed)
    #expect(throws: CallError(.notAccepted)) {
      try DeviceID.resolve(claimed: composed, named: decomposed).get()
    }
    let own = try DeviceID.resolve(claimed: composed, named: composed).get()
    #expect(own == DeviceID(composed))
  }

  @Test func aPushIsGoodForItsOwnUserAndDevice() async throws {
    try await EdgeFixture.run { edge in
      let call = CallID(high: 1, low: 2)
      let capability = PushCapability(
        app: "demo", user: Self.kate, device: "d\u{e9}", call: call.bytes,
        expires: wallSeconds + 60)
      let text = try #require(edge.pushKeys.current).mint(capability)
      func ask(_ user: String, _ device: String) async throws -> Int {
        let client = try await edge.client()
        return try await client.request(
          "GET", "/v1/calls/\(user)/\(call)?device=\(device)",
          headers: ["Authorization: CallmeshPush \(text)"]
        ).status
      }
      #expect(try await ask("Kate", "d%C3%A9") == 200)
      #expect(try await ask("Kate", "de%CC%81") == 401)
    }
  }

  @Test func idsThatCannotBeSeenAreRefused() async throws {
    try await EdgeFixture.run { edge in
      let (client, _) = try await edge.device("ann", "phone", codec: .json)
      let call = CallID(high: 1, low: 1)
      let address = CallAddress(callee: "b\u{200b}ob", call: call)
      client.say(2, .place(address, PlaceRequest(call: call)))
      #expect(try await client.errorReply() == (2, .invalidCallee))
      client.say(3, .unregister(DeviceID("d\u{202e}")))
      #expect(try await client.errorReply() == (3, .invalidDevice))
      let (other, token) = (try await edge.client(), try await edge.token("ann"))
      try await other.upgrade()
      other.say(1, .attach(AttachRequest(token: token, device: "d\u{fe0f}")))
      #expect(try await other.errorReply() == (1, .invalidDevice))
    }
  }
}
