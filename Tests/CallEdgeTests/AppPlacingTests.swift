import CallAuth
import CallCore
import CallEdge
import CallWire
import Testing

private let id = "11111111-2222-4333-8444-555555555555"

/// `POST /v1/app/calls`: the app's server places a call between two users.
@Suite(.timeLimit(.minutes(2))) struct AppPlacingTests {
  private static let path = "/v1/app/calls"

  @Test func theBodySaysWhoIsCalled() async throws {
    var terms = AppTerms()
    terms.subscriptions = .history
    (terms.secondCalls, terms.forwardedRing) = (.busy, .anew)
    try await EdgeFixture.run(terms: terms) { edge in
      let client = try await edge.client()
      let server = try edge.serverToken()
      let body = """
        {"callId":"\(id)","from":"bob","fromDevice":"desk phone","to":"cy","video":true,"ringTimeoutSeconds":20,\
        "headers":[{"name":"reason","value":"callback"}],"pushData":"ticket 7","callerName":"Dr. Cy"}
        """
      let answer = try await client.request("POST", Self.path, token: server, body: body)
      #expect(
        answer.text == """
          {"state":{"call":{"callee":"bob","id":"\(id)"},"phase":"placed","version":0,"atMs":0},\
          "caller":{"user":"cy","device":"","name":"Dr. Cy"},"placedAtMs":0}
          """)
      let command = try await edge.shards.next { _ in true }
      let bob = UserKey(app: "demo", user: "bob")
      #expect(command.user == bob && command.callee == bob && command.device.text == "")
      #expect(command.credential == .token(server))
      var request = PlaceRequest(
        call: try #require(CallID(id)), ringTimeoutSeconds: 20,
        headers: [CustomHeader(name: "reason", value: "callback")], video: true,
        callerName: "Dr. Cy", pushData: "ticket 7", busyWhileInCall: true, subscriptions: .history)
      request.ringsAnew = true
      #expect(
        command.body == .app(.place(AppPlacing(request, caller: "cy", device: "desk phone"))))
    }
  }

  @Test func theServerChoosesAnId() async throws {
    try await EdgeFixture.run { edge in
      let client = try await edge.client()
      let server = try edge.serverToken()
      var ids: Set<CallID> = []
      for _ in 0..<3 {
        let answer = try await client.request(
          "POST", Self.path, token: server, body: #"{"from":"bob","to":"cy"}"#)
        let call = try #require(HTTPBodies.readAppCall(answer.body)?.state.call)
        #expect(ids.insert(call).inserted)
        let text = Array(call.description.utf8)
        #expect(text[14] == UInt8(ascii: "4"), "version 4: \(call)")
        #expect("89ab".utf8.contains(text[19]), "the variant of RFC 9562: \(call)")
      }
    }
  }

  @Test func whatTheEdgeRefuses() async throws {
    try await EdgeFixture.run { edge in
      let client = try await edge.client()
      let server = try edge.serverToken()
      let long = String(repeating: "x", count: 129)
      let tooMuch = String(repeating: "x", count: CallLimits().pushDataBytes + 1)
      for (body, code) in [
        ("", 100), ("[]", 100), (#"{"from":"bob","to":7}"#, 106), (#"{"from":"bob"}"#, 410),
        (#"{"to":"cy"}"#, 410), (#"{"from":"bob","to":"\#(long)"}"#, 410),
        (#"{"callId":"7","from":"bob","to":"cy"}"#, 106),
        (#"{"from":"bob","fromDevice":" ","to":"cy"}"#, 300),
        (#"{"from":"bob","to":"cy","headers":[{"name":"","value":"x"}]}"#, 106),
        (#"{"from":"bob","to":"cy","pushData":"\#(tooMuch)"}"#, 0),
      ] {
        let answer = try await client.request("POST", Self.path, token: server, body: body)
        #expect(answer.status == 400, "\(body.prefix(80)): \(answer.text)")
        if code != 0 { #expect(answer.errorCode == code, "\(body.prefix(80)): \(answer.text)") }
      }
      let other = try await client.request("PUT", Self.path, token: server)
      #expect(other.status == 405 && other.headers["allow"] == "GET, POST")
    }
  }

  @Test func theAppsRateOfCallsHolds() async throws {
    var terms = AppTerms()
    terms.limits[.callsPerSecond] = 1
    let time = StillTime()
    try await EdgeFixture.run(at: time, terms: terms) { edge in
      let client = try await edge.client()
      let server = try edge.serverToken()
      var statuses: Set<Int> = []
      for _ in 0..<10 {
        let answer = try await client.request(
          "POST", Self.path, token: server, body: #"{"from":"bob","to":"cy"}"#)
        statuses.insert(answer.status)
        if answer.status == 429 { #expect(answer.text.contains("callsPerSecond")) }
      }
      #expect(statuses == [200, 429])
    }
  }

  @Test(
    "R8 neither ringing of a call that the app's server placed crosses a call",
    arguments: [("", "ann"), ("laptop", "bob")])
  func crossesNone(device: String, callee: String) {
    let call = CallID(high: 0, low: 1)
    var machine = SessionMachine.attached()
    machine.say(2, .place(CallAddress(callee: "bob", call: call), PlaceRequest(call: call)))
    let state = CallState(call: call, callee: "bob", phase: .placed)
    machine.reply(2, .place(PlaceRequest(call: call)), .call(state))
    let rung = CallID(high: 0, low: 2)
    let invite = Invite(
      caller: Party(user: "bob", device: DeviceID(device)),
      deadline: machine.turn.now + .seconds(30))
    let delivery = Delivery(
      call: rung, callee: callee, version: 1, at: machine.turn.now, event: .invite(invite))
    let isDelivered = machine.session.willDeliver(delivery)
    #expect(isDelivered)
    machine.session.reportCrossings(of: rung, &machine.turn)
    let reports = machine.take().filter { if case .reportCrossing = $0 { true } else { false } }
    #expect(reports.isEmpty)
  }
}
