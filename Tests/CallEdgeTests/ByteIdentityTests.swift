import CallAuth
import CallCore
import CallEdge
import CallWire
import Testing

/// Users, devices and apps are equal when their bytes are: from the socket to the shard and back.
@Suite(.timeLimit(.minutes(2))) struct ByteIdentityTests {
  private static let kate = "Kate"
  private static let kelvin = "\u{212a}ate"

  @Test(.edge(), arguments: DeviceCodec.allCases)
  func twoUsersAreTwo(codec: DeviceCodec) async throws {
    let shards = RealShards()
    edge.shards.follow { shards.handle($0).reply }
    let (kate, _) = try await edge.device(Self.kate, "phone", codec: codec)
    let (kelvin, _) = try await edge.device(Self.kelvin, "phone", codec: codec)
    #expect(try await kate.ask(2, .ping) == .done, "its session was not replaced")
    // Its own twin's number is not its own.
    let call = CallID(high: 1, low: 1)
    let reply = try await kelvin.ask(2, .place(call, to: Self.kate))
    let placed = try await edge.shards.next(\.isPlace)
    #expect(placed.user == UserKey(app: "demo", user: Self.kelvin))
    #expect(placed.callee == UserKey(app: "demo", user: Self.kate))
    #expect(Array(placed.callee.user.utf8) == Array(Self.kate.utf8))
    guard case .call(let state) = reply else { throw TestFailure("not placed") }
    #expect(state.phase == .placed && Array(state.callee.utf8) == Array(Self.kate.utf8))
    // It is no device of Kate's: it learns nothing of the call as one of hers.
    let own = CallAddress(callee: Self.kelvin, call: call)
    #expect(try await kelvin.ask(3, .call(own, .decline(.everywhere))).code == .unknownCall)
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

  @Test(.edge()) func aPushIsGoodForItsOwnUserAndDevice() async throws {
    let call = CallID(high: 1, low: 2)
    let capability = PushCapability(
      app: "demo", user: Self.kate, device: "d\u{e9}", call: call.bytes,
      expires: wallSeconds + 60)
    let text = try #require(edge.pushKeys.current).mint(capability)
    for (device, status) in [("d%C3%A9", 200), ("de%CC%81", 401)] {
      let answer = try await edge.request(
        "GET", "/v1/calls/Kate/\(call)?device=\(device)",
        headers: PushRequestTests.header(text))
      #expect(answer.status == status)
    }
  }

  @Test(.edge()) func idsThatCannotBeSeenAreRefused() async throws {
    let (client, _) = try await edge.device("ann", "phone", codec: .json)
    let hidden = ClientCommand.place(CallID(high: 1, low: 1), to: "b\u{200b}ob")
    #expect(try await client.ask(2, hidden).code == .invalidCallee)
    #expect(try await client.ask(3, .unregister(DeviceID("d\u{202e}"))).code == .invalidDevice)
    let attach = AttachRequest(token: try edge.token("ann"), device: "d\u{fe0f}")
    #expect(try await edge.socket().ask(1, .attach(attach)).code == .invalidDevice)
  }
}
