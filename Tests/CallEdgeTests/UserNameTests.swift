import CallAuth
import CallCore
import CallEdge
import CallWire
import Testing

/// The name that a session gives the calls that its device places.
@Suite(.timeLimit(.minutes(1))) struct UserNameTests {
  private func attached(tokenName: String = "") -> SessionMachine {
    var claims = DeviceClaims.of()
    claims.name = tokenName
    var machine = SessionMachine(claims: claims)
    machine.say(1, .attach(AttachRequest(device: "phone")))
    machine.reply(1, .attach(Attach()), .attached(forCall: nil))
    machine.turn.actions = []
    return machine
  }

  private func nameOfACall(by machine: inout SessionMachine) -> String? {
    let call = CallID(high: 1, low: .random(in: 1 ... .max))
    machine.say(9, .place(CallAddress(callee: "bob", call: call), PlaceRequest(call: call)))
    for case .forward(9, _, .place(let request)) in machine.take() { return request.callerName }
    return nil
  }

  private func known(_ machine: SessionMachine) -> String? {
    guard case .attach(let attach) = machine.session.announcement else { return nil }
    return attach.userName
  }

  @Test func theStoredNameStandsInForTheTokens() {
    var machine = attached()
    #expect(nameOfACall(by: &machine) == "")
    machine.session.note(userName: "Ann Lee")
    #expect(nameOfACall(by: &machine) == "Ann Lee")
    machine.session.note(userName: "")
    #expect(nameOfACall(by: &machine) == "")
  }

  @Test func theTokensNameGoesFirst() {
    var machine = attached(tokenName: "Ann at the desk")
    machine.session.note(userName: "Ann Lee")
    #expect(nameOfACall(by: &machine) == "Ann at the desk")
    // The next token has none.
    machine.session.renewed(3, "token", .success(.of()), &machine.turn)
    machine.turn.actions = []
    #expect(nameOfACall(by: &machine) == "Ann Lee")
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
    #expect(known(machine) == "")
    machine.session.note(userName: "Ann Lee")
    #expect(known(machine) == "Ann Lee")
  }

  // MARK: Over sockets

  @Test(arguments: DeviceCodec.allCases) func callsHaveWhatTheShardSays(
    codec: DeviceCodec
  ) async throws {
    try await EdgeFixture.run { edge in
      let (client, session) = try await edge.device("ann", "phone", codec: codec)
      func nameOfACall(_ number: UInt64) async throws -> String {
        let call = CallID(high: 1, low: number)
        client.say(number, .place(CallAddress(callee: "bob", call: call), PlaceRequest(call: call)))
        // The device is shown nothing of names: the next frame is the reply.
        #expect(try await client.reply() == (number, .done))
        let command = try await edge.shards.next { $0.body.call == call }
        guard case .place(let request) = command.body else { throw TestFailure("no place") }
        return request.callerName
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

  @Test func namesInRequests() async throws {
    try await EdgeFixture.run { edge in
      let client = try await edge.client()
      let server = try edge.serverToken()
      let path = "/v1/app/users/b%C3%B6b/name"
      for (method, body, said, text) in [
        ("GET", nil, .app(.name), #"{"name":"Ann Lee"}"#),
        ("PUT", #"{"name":"Bo\u202eb\u0007 S."}"#, .app(.setName("Bob S.")), #"{"name":"Bob S."}"#),
        ("PUT", #"{"name":""}"#, .app(.setName("")), "{}"),
        ("PUT", "{}", .app(.setName("")), "{}"), ("DELETE", nil, .app(.setName("")), "{}"),
      ] as [(String, String?, Command.Body, String)] {
        let answer = try await client.request(method, path, token: server, body: body)
        #expect(answer.status == 200 && answer.text == text, "\(method) \(body ?? "")")
        let command = try await edge.shards.next { _ in true }
        #expect(command.body == said, "\(method) \(body ?? "")")
        #expect(command.user.user == "böb" && command.callee == command.user)
      }
      for body in ["", "[]", #"{"name":7}"#] {
        let answer = try await client.request("PUT", path, token: server, body: body)
        #expect(answer.status == 400, "\(body)")
      }
      let other = try await client.request("POST", path, token: server, body: "{}")
      #expect(other.status == 405)
    }
  }
}
