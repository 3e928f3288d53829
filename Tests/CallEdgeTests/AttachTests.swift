import CallAuth
import CallCore
import CallEdge
import CallWire
import Testing

private let ann = UserKey(app: "demo", user: "ann")
private let call = CallID(high: 1, low: 2)

@Suite struct AttachTests {
  @Test("commands show the token until the attach is answered, then the shard's ticket")
  func whatCommandsShow() {
    let ticket = SessionTicket(high: 1, low: 2, expires: 3, issued: 4)
    var machine = SessionMachine()
    #expect(machine.session.credential == .none)
    machine.say(1, .attach(AttachRequest(token: "bad", device: "phone")))
    machine.authenticated(.failure(.notAccepted))
    #expect(machine.session.credential == .none)
    machine.say(2, .attach(AttachRequest(token: "t", device: "phone")))
    machine.authenticated(.success(.of()))
    #expect(machine.session.credential == .token("t"))
    machine.reply(2, .attach(Attach()), .error(CallError(.tryAgain)))
    machine.say(3, .attach(AttachRequest(device: "phone")))
    #expect(machine.session.credential == .token("t"), "it may be tried again")
    machine.reply(3, .attach(Attach()), .attached(forCall: nil, ticket: ticket))
    #expect(machine.session.credential == .ticket(ticket))
    #expect(machine.session.takeEnd()?.credential == .ticket(ticket))
  }

  @Test("a session that ends before its attach is answered says so by its token")
  func farewellByToken() {
    var machine = SessionMachine()
    machine.say(2, .attach(AttachRequest(token: "t", device: "phone")))
    machine.authenticated(.success(.of()))
    #expect(machine.session.takeEnd()?.credential == .token("t"))
  }

  @Test func tokenInTheAttachIsCheckedAndTheShardAsked() {
    var machine = SessionMachine()
    machine.say(
      1,
      .attach(
        AttachRequest(
          token: "t", device: "phone", forCall: call, deviceName: "Ann's phone", client: "sdk 1",
          onlyPlaces: true)))
    #expect(machine.take() == [.authenticate(token: "t")])
    machine.authenticated(.success(.of()))
    #expect(
      machine.take() == [
        .forward(
          request: 1, callee: ann,
          .attach(
            Attach(
              forCall: call, deviceName: "Ann's phone", client: "sdk 1",
              attachedAt: SessionMachine.start, onlyPlaces: true, userName: "")
          ))
      ])
    #expect(!machine.session.isAttached)
    machine.reply(1, .attach(Attach()), .attached(forCall: nil))
    #expect(
      machine.take() == [
        .reply(
          1,
          .attached(
            AttachedInfo(
              session: "9-7", user: "ann", device: "phone", pingSeconds: 25,
              serverTime: SessionMachine.start, deviceName: "Ann's phone")))
      ])
    #expect(machine.session.isAttached)
  }

  @Test func tokenOfTheHeaderIsEnough() {
    var machine = SessionMachine(claims: .of(device: "phone"))
    machine.say(1, .attach(AttachRequest()))
    guard case .forward(1, ann, .attach)? = machine.take().first else {
      Issue.record("not forwarded")
      return
    }
    #expect(machine.session.sender?.device == "phone")
  }

  @Test func withoutAnyTokenNobodyIsAccepted() {
    var machine = SessionMachine()
    machine.say(1, .attach(AttachRequest(device: "phone")))
    #expect(machine.take().contains(where: isError(1, .notAccepted)))
  }

  @Test(arguments: [(AuthFailure.expired, CallError.Code.expired), (.notAccepted, .notAccepted)])
  func refusedTokensAreAnsweredAndMayBeReplaced(failure: AuthFailure, code: CallError.Code) {
    var machine = SessionMachine()
    machine.say(1, .attach(AttachRequest(token: "t", device: "phone")))
    machine.authenticated(.failure(failure))
    #expect(machine.take().contains(where: isError(1, code)))
    machine.say(2, .attach(AttachRequest(token: "new", device: "phone")))
    machine.authenticated(.success(.of()))
    #expect(machine.session.sender?.user == ann)
  }

  @Test func wrongTokensWithoutEndCloseTheSession() {
    var machine = SessionMachine()
    for id in 1...10 {
      machine.say(UInt64(id), .attach(AttachRequest(token: "t", device: "phone")))
      machine.authenticated(.failure(.notAccepted))
    }
    #expect(machine.take().last == .close(.tooManyBadFrames))
  }

  @Test(arguments: [
    (String?.none, "", CallError.Code.invalidDevice), ("phone", "tablet", .notAccepted),
    (nil, String(repeating: "x", count: 65), .invalidDevice), (nil, "a\nb", .invalidDevice),
  ])
  func deviceComesFromTokenOrFrame(claimed: String?, named: String, code: CallError.Code) {
    var machine = SessionMachine(claims: .of(device: claimed))
    machine.say(1, .attach(AttachRequest(device: named)))
    #expect(machine.take().contains(where: isError(1, code)))
    #expect(machine.session.sender == nil)
  }

  /// Nothing says which part of a token was wrong.
  @Test func aTokenOfAnotherDeviceIsAnsweredLikeAnyThatIsNotAccepted() {
    var other = SessionMachine(claims: .of(device: "phone"))
    other.say(1, .attach(AttachRequest(device: "tablet")))
    var wrong = SessionMachine()
    wrong.say(1, .attach(AttachRequest(token: "t", device: "tablet")))
    _ = wrong.take()
    wrong.authenticated(.failure(.notAccepted))
    let answer = wrong.take()
    #expect(!answer.isEmpty)
    #expect(other.take() == answer)
  }

  @Test func secondAttachIsRefused() {
    var machine = SessionMachine.attached()
    machine.say(5, .attach(AttachRequest(device: "phone")))
    #expect(machine.take().contains(where: isError(5, .alreadyAttached)))
    #expect(machine.session.isAttached)
  }

  @Test func attachRepeatedWhileUnderWayIsAnsweredOnce() {
    var machine = SessionMachine(claims: .of())
    machine.say(1, .attach(AttachRequest(device: "phone")))
    _ = machine.take()
    machine.say(1, .attach(AttachRequest(device: "phone")))
    #expect(machine.take().isEmpty)
    machine.say(2, .attach(AttachRequest(device: "phone")))
    #expect(machine.take().contains(where: isError(2, .alreadyAttached)))
    machine.reply(1, .attach(Attach()), .attached(forCall: nil))
    #expect(machine.take().count == 1)
  }

  @Test func attachThatGotNoAnswerMayBeTriedAgain() {
    var machine = SessionMachine(claims: .of())
    machine.say(1, .attach(AttachRequest(device: "phone")))
    machine.turn.now = SessionMachine.start + .seconds(5)
    machine.reply(1, .attach(Attach()), .error(CallError(.tryAgain)))
    #expect(machine.take().contains(where: isError(1, .tryAgain)))
    // The time to attach begins anew: it was not the device's fault.
    machine.pass(.seconds(9))
    #expect(machine.take().isEmpty)
    machine.say(2, .attach(AttachRequest(device: "phone")))
    machine.reply(2, .attach(Attach()), .attached(forCall: nil))
    #expect(machine.session.isAttached)
    // A shard may know the session since the first attempt: its end is always reported.
    let farewell = machine.session.takeEnd()
    #expect(farewell?.user == ann)
  }

  @Test func sessionDoesNotBecomeAnotherUsers() {
    var machine = SessionMachine(claims: .of())
    machine.say(1, .attach(AttachRequest(device: "phone")))
    machine.reply(1, .attach(Attach()), .error(CallError(.tryAgain)))
    machine.say(2, .attach(AttachRequest(token: "bob's", device: "phone")))
    _ = machine.take()
    machine.authenticated(.success(.of("bob")))
    #expect(machine.take().contains(where: isError(2, .forbidden)))
  }

  @Test func connectionMustAttachInTime() {
    var machine = SessionMachine()
    machine.pass(.milliseconds(9_999))
    #expect(machine.take().isEmpty)
    machine.pass(.milliseconds(1))
    #expect(machine.take() == [.close(.attachTimeout)])
    machine.pass(.seconds(1))
    #expect(machine.take().isEmpty)
    machine.pass(.seconds(1))
    #expect(machine.take() == [.abort])
  }

  @Test func everyOtherCommandNeedsAnAttach() {
    let address = CallAddress(callee: "bob", call: call)
    let commands: [ClientCommand] = [
      .register(RegistrationRequest()), .unregister(nil), .place(address, PlaceRequest(call: call)),
      .ack([AckItem(call: address, version: 1)]), .call(address, .alerting),
      .call(address, .answer(description: "")), .call(address, .decline(.everywhere)),
      .call(address, .busy),
      .call(address, .cancel), .call(address, .connected), .call(address, .hangUp),
      .call(address, .signal(.candidate, body: "c")), .call(address, .resume),
      .call(address, .query),
    ]
    var machine = SessionMachine(claims: .of(device: "phone"))
    for (index, command) in commands.enumerated() {
      machine.say(UInt64(index + 1), command)
      #expect(machine.take().contains(where: isError(UInt64(index + 1), .notAttached)))
    }
    #expect(!machine.session.isClosing)
  }
}
