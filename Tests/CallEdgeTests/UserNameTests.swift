import CallCore
import CallEdge
import CallWire
import Testing

/// The name that a session gives the calls that its device places.
@Suite(.timeLimit(.minutes(1))) struct UserNameTests {
  private func nameOfACall(by machine: inout SessionMachine) -> String? {
    var request = PlaceRequest(call: CallID(high: 1, low: .random(in: 1 ... .max)))
    request.callerName = "what the device says of itself here does not count"
    machine.say(9, .place(CallAddress(callee: "bob", call: request.call), request))
    for case .forward(9, _, .place(let request)) in machine.take() { return request.callerName }
    return nil
  }

  @Test func theTokensNameGoesFirstAndTheStoredOneStandsInForIt() {
    var machine = SessionMachine.attached()
    for name in ["Ann Lee", "", "Ann Lee"] {
      machine.session.note(userName: name)
      #expect(nameOfACall(by: &machine) == name)
    }
    for (name, ofCalls) in [("Ann Smith", "Ann Smith"), ("", "Ann Lee")] {
      machine.session.renewed(3, "token", .success(.of(name: name)), &machine.turn)
      machine.turn.actions = []
      #expect(nameOfACall(by: &machine) == ofCalls)
    }
    var other = SessionMachine.attached(claims: .of(name: "Ann at the desk"))
    other.session.note(userName: "Ann Lee")
    #expect(nameOfACall(by: &other) == "Ann at the desk")
  }

  @Test("the shard learns which name the session has, with each attach and announcement")
  func announced() {
    var machine = SessionMachine(claims: .of())
    machine.say(1, .attach(AttachRequest(device: "phone")))
    let said = machine.take().compactMap { action -> String?? in
      if case .forward(_, _, .attach(let attach)) = action { attach.userName } else { nil }
    }
    #expect(said == [""])
    // Before the reply to the attach it is somebody else's or late.
    machine.session.note(userName: "Too early")
    machine.reply(1, .attach(Attach()), .attached(forCall: nil))
    #expect(machine.announced?.userName == "")
    machine.session.note(userName: "Ann Lee")
    #expect(machine.announced?.userName == "Ann Lee")
  }

  @Test(.edge(), arguments: DeviceCodec.allCases)
  func callsHaveWhatTheShardSays(codec: DeviceCodec) async throws {
    let (client, session) = try await edge.device("ann", "phone", codec: codec)
    func nameOfACall(_ number: UInt64) async throws -> String {
      // The device is shown nothing of names: the next frame is the reply.
      let reply = try await client.ask(number, .place(CallID(high: 1, low: number)))
      #expect(reply == .done)
      return try await edge.shards.nextPlace().callerName
    }
    #expect(try await nameOfACall(2) == "")
    for (number, name) in [(3, "Ann Lee"), (4, "Ann B. Lee"), (5, "")] as [(UInt64, String)] {
      edge.say(EdgeItem(session: session, body: .name(name)))
      // On the same loop, and behind it, so once it is counted the session has its name.
      edge.say(EdgeItem(session: session ^ (1 << 40), body: .name("Nobody's")))
      try await edge.until("callmesh_edge_deliveries_unknown_total") { $0 == Double(number - 2) }
      #expect(try await nameOfACall(number) == name)
    }
  }
}
