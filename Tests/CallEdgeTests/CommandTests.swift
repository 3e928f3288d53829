import CallAuth
import CallCore
import CallEdge
import CallWire
import Testing

private let ann = UserKey(app: "demo", user: "ann")
private let bob = UserKey(app: "demo", user: "bob")
private let call = CallID(high: 1, low: 2)

@Suite struct CommandTests {
  @Test func commandsGoToTheShardOfTheCallee() {
    let mine = CallAddress(call: call)
    let bobs = CallAddress(callee: "bob", call: call)
    var request = PlaceRequest(call: CallID(high: 9, low: 9), description: "sdp")
    let placed = PlaceRequest(call: call, description: "sdp", deviceName: "Ann's phone")
    request.deviceName = "what the device says of itself here does not count"
    let cases: [(ClientCommand, UserKey, Command.Body)] = [
      (.register(RegistrationRequest()), ann, .register(RegistrationRequest())),
      (.unregister(nil), ann, .unregister("phone")),
      (.unregister("tablet"), ann, .unregister("tablet")),
      (.place(bobs, request), bob, .place(placed)),
      (.call(mine, .alerting), ann, .call(call, .alerting)),
      (.call(mine, .answer(description: "sdp")), ann, .call(call, .answer(description: "sdp"))),
      (
        .call(CallAddress(callee: "ann", call: call), .decline(.here)), ann,
        .call(call, .decline(.here))
      ),
      (.call(mine, .busy), ann, .call(call, .busy)),
      (.call(bobs, .cancel), bob, .call(call, .cancel)),
      (.call(bobs, .connected), bob, .call(call, .connected)),
      (.call(bobs, .hangUp), bob, .call(call, .hangUp)),
      (
        .call(bobs, .signal(.description, body: "b")), bob,
        .call(call, .signal(.description, body: "b"))
      ),
      (.call(bobs, .resume), bob, .call(call, .resume)),
      (.call(bobs, .query), bob, .call(call, .query)),
    ]
    for (command, callee, body) in cases {
      var machine = SessionMachine.attached()
      machine.say(3, command)
      #expect(machine.take() == [.forward(request: 3, callee: callee, body)])
    }
  }

  @Test func aPlaceHasTheNameOfTheLatestToken() {
    func placed(_ machine: inout SessionMachine, as id: UInt64) -> String? {
      var request = PlaceRequest(call: CallID(high: 1, low: id))
      request.callerName = "what the device says of itself here does not count"
      machine.say(id, .place(CallAddress(callee: "bob", call: request.call), request))
      guard case .forward(_, _, .place(let sent))? = machine.take().first else { return nil }
      return sent.callerName
    }
    var claims = DeviceClaims.of()
    claims.name = "Ann Lee"
    var machine = SessionMachine(claims: claims)
    machine.say(1, .attach(AttachRequest(device: "phone")))
    machine.reply(1, .attach(Attach()), .attached(forCall: nil))
    machine.turn.actions = []
    #expect(placed(&machine, as: 2) == "Ann Lee")
    claims.name = "Ann Smith"
    machine.session.renewed(3, "token", .success(claims), &machine.turn)
    machine.turn.actions = []
    #expect(placed(&machine, as: 4) == "Ann Smith")
  }

  @Test func registrationsGetTheFingerprintsOfTheirTokens() {
    let token = String(repeating: "ab", count: 32)
    var given = RegistrationRequest(
      voipToken: PushToken(
        provider: .apns, environment: "production", topic: "a.voip", token: token,
        fingerprint: "what the device says of it does not count"),
      alertToken: PushToken(provider: .fcm, environment: "", topic: "", token: token))
    var machine = SessionMachine.attached()
    machine.say(3, .register(given))
    given.voipToken?.fingerprint = PushTokenFingerprint.of(provider: "apns", token: token)
    given.alertToken?.fingerprint = PushTokenFingerprint.of(provider: "fcm", token: token)
    #expect(given.voipToken?.fingerprint != given.alertToken?.fingerprint)
    #expect(machine.take() == [.forward(request: 3, callee: ann, .register(given))])
  }

  @Test func aUserWhoseNameTheDialectDoesNotTakeIsRefused() {
    let name = String(repeating: "n", count: 41)
    var machine = SessionMachine(claims: .of(name, device: "phone"))
    machine.say(1, .attach(AttachRequest()))
    machine.reply(1, .attach(Attach()), .attached(forCall: nil))
    _ = machine.take()
    machine.say(2, .register(RegistrationRequest(dialect: "sinch")))
    #expect(machine.take().contains(where: isError(2, .invalidUserForDialect)))
    machine.say(3, .register(RegistrationRequest(dialect: "twilio")))
    #expect(machine.take().count == 1)
  }

  @Test func acknowledgementsAreGroupedByCallee() {
    var machine = SessionMachine.attached()
    let other = CallID(high: 3, low: 4)
    machine.say(
      0,
      .ack([
        AckItem(call: CallAddress(call: call), version: 1),
        AckItem(call: CallAddress(call: other), version: 2),
        AckItem(call: CallAddress(callee: "bob", call: call), version: 3),
      ]))
    #expect(
      machine.take() == [
        .acknowledge(
          callee: ann,
          [
            Acknowledgement(call: call, version: 1), Acknowledgement(call: other, version: 2),
          ]),
        .acknowledge(callee: bob, [Acknowledgement(call: call, version: 3)]),
      ])
  }

  @Test func repliesReachTheDevice() {
    var machine = SessionMachine.attached()
    let state = CallState(call: call, callee: "bob", phase: .placed)
    let expiry = Timestamp(microseconds: 5)
    let cases: [(Reply, ServerReply)] = [
      (.done, .done), (.call(state), .call(state)),
      (.answer(won: true, state), .answer(won: true, state)),
      (.error(CallError(.notParty)), .error(CallError(.notParty))),
      (
        .registered(expiresAt: expiry, removed: ["old"], capabilities: [.missed]),
        .registered(
          RegisteredInfo(
            device: "phone", expiresAt: expiry, removed: ["old"], capabilities: [.missed]))
      ),
    ]
    for (reply, expected) in cases {
      machine.reply(4, .call(call, .alerting), reply)
      #expect(machine.take() == [.reply(4, expected)])
    }
    let named = RegistrationRequest(deviceName: "Ann's phone")
    machine.reply(4, .register(named), .registered(expiresAt: expiry, removed: []))
    let info = RegisteredInfo(device: "phone", expiresAt: expiry, deviceName: "Ann's phone")
    #expect(machine.take() == [.reply(4, .registered(info))], "as it is kept")
  }

  @Test func aReplyThatIsNoNewsMayWait() {
    func reply(to body: Command.Body, _ reply: Reply) -> [DeviceSession.Action] {
      var machine = SessionMachine.attached()
      machine.reply(4, body, reply)
      return machine.take()
    }
    func reply(to body: Command.Body, _ phase: CallPhase) -> [DeviceSession.Action] {
      reply(to: body, .call(CallState(call: call, callee: "bob", phase: phase)))
    }
    func state(_ phase: CallPhase) -> ServerReply {
      .call(CallState(call: call, callee: "bob", phase: phase))
    }
    #expect(reply(to: .call(call, .alerting), .ringing) == [.replyLazily(4, state(.ringing))])
    #expect(reply(to: .call(call, .connected), .done) == [.replyLazily(4, .done)])
    // A device that rings must learn at once that it should not.
    #expect(reply(to: .call(call, .alerting), .answered) == [.reply(4, state(.answered))])
    #expect(reply(to: .call(call, .alerting), .ended) == [.reply(4, state(.ended))])
    #expect(reply(to: .call(call, .connected), .ended) == [.reply(4, state(.ended))])
    #expect(reply(to: .call(call, .query), .ringing) == [.reply(4, state(.ringing))])
  }

  @Test func commandsNeedAnID() {
    var machine = SessionMachine.attached()
    machine.say(0, .call(CallAddress(call: call), .query))
    #expect(machine.take().contains(where: isError(0, .invalidField)))
  }

  @Test func pendingCommandsAreBounded() {
    var machine = SessionMachine.attached {
      $0.commandsPendingPerSession = 3
      $0.commandsBurst = 1000
    }
    for id in 1...3 { machine.say(UInt64(id), .call(CallAddress(call: call), .query)) }
    _ = machine.take()
    machine.say(4, .call(CallAddress(call: call), .query))
    #expect(machine.take().contains(where: isError(4, .rateLimited)))
    machine.reply(1, .call(call, .query), .done)
    _ = machine.take()
    machine.say(5, .call(CallAddress(call: call), .query))
    #expect(machine.take() == [.forward(request: 5, callee: ann, .call(call, .query))])
    // One that turned out to be under way already leaves its place.
    machine.session.wasRepeated(.call(call, .query))
    machine.say(6, .call(CallAddress(call: call), .query))
    #expect(machine.take().count == 1)
  }

  @Test func rateIsLimitedWithAHint() {
    var machine = SessionMachine.attached()
    // The attach took one of the 60.
    for id in 2...60 { machine.say(UInt64(id), .call(CallAddress(call: call), .query)) }
    for id in 2...60 { machine.reply(UInt64(id), .call(call, .query), .done) }
    #expect(!machine.take().contains { if case .reply(_, .error) = $0 { true } else { false } })
    machine.say(61, .call(CallAddress(call: call), .query))
    #expect(machine.take() == [.reply(61, .error(.tooFast))])
    // The command that was refused may be retransmitted; 20 a second are taken.
    machine.turn.now = machine.turn.now + .milliseconds(50)
    machine.say(61, .call(CallAddress(call: call), .query))
    #expect(machine.take() == [.forward(request: 61, callee: ann, .call(call, .query))])
    #expect(!machine.session.isClosing)
  }

  @Test func refusalsNameTheLimitsInForce() {
    var machine = SessionMachine.attached {
      $0.commandsPerSecond = 2
      $0.commandsBurst = 4
      $0.limits.liveCallsPerDevice = 1
    }
    // The attach took one of the four.
    machine.place(0, as: 2)
    machine.place(1, as: 3)
    machine.say(4, .call(CallAddress(call: call), .query))
    machine.say(5, .call(CallAddress(call: call), .query))
    let sentences = machine.take().compactMap { action -> String? in
      guard case .reply(_, .error(let error)) = action else { return nil }
      return error.message
    }
    #expect(
      sentences == [
        "At most 1 live call on one device.", "Too many commands: 2 a second, 4 at once.",
      ])
  }

  @Test func acknowledgementsCountATenth() {
    var machine = SessionMachine.attached()
    let item = AckItem(call: CallAddress(call: call), version: 1)
    for _ in 0..<590 { machine.say(0, .ack([item])) }
    #expect(machine.take().count { if case .acknowledge = $0 { true } else { false } } == 590)
    machine.say(0, .ack([item]))
    #expect(machine.take().contains(where: isError(0, .rateLimited)))
  }

  @Test func whoNeverHeedsTheLimitIsClosed() {
    var machine = SessionMachine.attached { $0.peers.refusalsMax = 5 }
    for id in 0..<100 { machine.say(UInt64(id + 2), .call(CallAddress(call: call), .query)) }
    #expect(machine.take().contains(.close(.tooManyCommands)))
  }
}
