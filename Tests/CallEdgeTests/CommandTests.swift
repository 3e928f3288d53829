import CallAuth
import CallCore
import CallEdge
import CallWire
import Testing

private let call = CallID(high: 1, low: 2)
private let query = ClientCommand.call(CallAddress(call: call), .query)

@Suite struct CommandTests {
  @Test func commandsGoToTheShardOfTheCallee() {
    var request = PlaceRequest(call: CallID(high: 9, low: 9), description: "sdp")
    let placed = PlaceRequest(call: call, description: "sdp", deviceName: "Ann's phone")
    request.deviceName = "what the device says of itself here does not count"
    var cases: [(ClientCommand, UserKey, Command.Body)] = [
      (.register(RegistrationRequest()), ann, .register(RegistrationRequest())),
      (.rules(.read), ann, .rules(.read)),
      (.rules(.write(UserRules())), ann, .rules(.write(UserRules()))),
      (.unregister(nil), ann, .unregister("phone")),
      (.unregister("tablet"), ann, .unregister("tablet")),
      (.place(CallAddress(callee: "bob", call: call), request), bob, .place(placed)),
      (.call(CallAddress(callee: "ann", call: call), .busy), ann, .call(call, .busy)),
    ]
    for verb: CallVerb in [.alerting, .answer(description: "sdp"), .decline(.here), .busy] {
      cases.append((.call(CallAddress(call: call), verb), ann, .call(call, verb)))
    }
    for verb: CallVerb in [
      .cancel, .connected, .hangUp, .signal(.description, body: "b"), .resume, .query,
    ] {
      cases.append((.call(CallAddress(callee: "bob", call: call), verb), bob, .call(call, verb)))
    }
    for (command, callee, body) in cases {
      var machine = SessionMachine.attached()
      machine.say(3, command)
      #expect(machine.take() == [.forward(request: 3, callee: callee, body)])
    }
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
    var machine = SessionMachine.attached(claims: .of(String(repeating: "n", count: 41)))
    machine.say(2, .register(RegistrationRequest(dialect: "sinch")))
    #expect(machine.take().contains(where: isError(2, .invalidUserForDialect)))
    machine.say(3, .register(RegistrationRequest(dialect: "twilio")))
    #expect(machine.take().map(\.isForward) == [true])
  }

  @Test func acknowledgementsAreGroupedByCallee() {
    var machine = SessionMachine.attached()
    let other = CallID(high: 3, low: 4)
    let items = [
      AckItem(call: CallAddress(call: call), version: 1),
      AckItem(call: CallAddress(call: other), version: 2),
      AckItem(call: CallAddress(callee: "bob", call: call), version: 3),
    ]
    machine.say(0, .ack(items))
    let own = [Acknowledgement(call: call, version: 1), Acknowledgement(call: other, version: 2)]
    #expect(
      machine.take() == [
        .acknowledge(callee: ann, own),
        .acknowledge(callee: bob, [Acknowledgement(call: call, version: 3)]),
      ])
  }

  @Test func repliesReachTheDevice() {
    var machine = SessionMachine.attached()
    let state = CallState.of(call, .placed)
    let rules = UserRules(onBusy: UserRules.Forward(users: ["cy"]))
    let expiry = Timestamp(microseconds: 5)
    let info = RegisteredInfo(
      device: "phone", expiresAt: expiry, removed: ["old"], capabilities: [.missed])
    let cases: [(Reply, ServerReply)] = [
      (.done, .done), (.call(state), .call(state)),
      (.answer(won: true, state), .answer(won: true, state)), (.rules(rules), .rules(rules)),
      (.error(CallError(.notParty)), .error(CallError(.notParty))),
      (
        .registered(expiresAt: expiry, removed: ["old"], capabilities: [.missed]),
        .registered(info)
      ),
    ]
    for (reply, expected) in cases {
      machine.reply(4, .call(call, .alerting), reply)
      #expect(machine.take() == [.reply(4, expected)])
    }
    let named = RegistrationRequest(deviceName: "Ann's phone")
    machine.reply(4, .register(named), .registered(expiresAt: expiry, removed: []))
    let kept = RegisteredInfo(device: "phone", expiresAt: expiry, deviceName: "Ann's phone")
    #expect(machine.take() == [.reply(4, .registered(kept))], "as it is kept")
  }

  /// A device that rings must learn at once that it should not.
  @Test(
    arguments: [
      (.alerting, .ringing, true), (.alerting, .answered, false), (.alerting, .ended, false),
      (.connected, nil, true), (.connected, .ended, false), (.query, .ringing, false),
    ] as [(CallVerb, CallPhase?, Bool)])
  func aReplyThatIsNoNewsMayWait(verb: CallVerb, phase: CallPhase?, mayWait: Bool) {
    var machine = SessionMachine.attached()
    let state = phase.map { CallState.of(call, $0) }
    machine.reply(4, .call(call, verb), state.map { .call($0) } ?? .done)
    let reply: ServerReply = state.map { .call($0) } ?? .done
    #expect(machine.take() == [mayWait ? .replyLazily(4, reply) : .reply(4, reply)])
  }

  @Test func commandsNeedAnID() {
    var machine = SessionMachine.attached()
    machine.say(0, query)
    #expect(machine.take().contains(where: isError(0, .invalidField)))
  }

  @Test func pendingCommandsAreBounded() {
    var machine = SessionMachine.attached {
      $0.commandsPendingPerSession = 3
      $0.commandsBurst = 1000
    }
    for id in 1...3 { machine.say(UInt64(id), query) }
    _ = machine.take()
    machine.say(4, query)
    #expect(machine.take().contains(where: isError(4, .rateLimited)))
    machine.reply(1, .call(call, .query), .done)
    _ = machine.take()
    machine.say(5, query)
    #expect(machine.take() == [.forward(request: 5, callee: ann, .call(call, .query))])
    // One that turned out to be under way already leaves its place.
    machine.session.wasRepeated(.call(call, .query))
    machine.say(6, query)
    #expect(machine.take().map(\.isForward) == [true])
  }

  @Test func rateIsLimitedWithAHint() {
    var machine = SessionMachine.attached()
    // The attach took one of the 60.
    for id in UInt64(2)...60 { machine.say(id, query) }
    for id in UInt64(2)...60 { machine.reply(id, .call(call, .query), .done) }
    #expect(!machine.take().contains { if case .reply(_, .error) = $0 { true } else { false } })
    machine.say(61, query)
    #expect(machine.take() == [.reply(61, .error(.tooFast))])
    // The command that was refused may be retransmitted; 20 a second are taken.
    machine.turn.now = machine.turn.now + .milliseconds(50)
    machine.say(61, query)
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
    machine.say(4, query)
    machine.say(5, query)
    let sentences = machine.take().compactMap { action -> String? in
      if case .reply(_, .error(let error)) = action { error.message } else { nil }
    }
    #expect(
      sentences == [
        "At most 1 live call on one device.", "Too many commands: 2 a second, 4 at once.",
      ])
  }

  @Test("acknowledgements and pings count a tenth", arguments: [true, false])
  func someCountATenth(isPing: Bool) {
    var machine = SessionMachine.attached()
    let item = AckItem(call: CallAddress(call: call), version: 1)
    for id in UInt64(2)...591 { machine.say(isPing ? id : 0, isPing ? .ping : .ack([item])) }
    let taken = machine.take().count {
      switch $0 {
      case .acknowledge: !isPing
      case .reply(_, .done): isPing
      default: false
      }
    }
    #expect(taken == 590)
    machine.say(592, isPing ? .ping : .ack([item]))
    let refused = machine.take()
    #expect(refused.count == 1 && refused.allSatisfy(isError(592, .rateLimited)))
  }

  @Test func whoNeverHeedsTheLimitIsClosed() {
    var machine = SessionMachine.attached { $0.peers.refusalsMax = 5 }
    for id in 0..<100 { machine.say(UInt64(id + 2), query) }
    #expect(machine.take().contains(.close(.tooManyCommands)))
  }
}
