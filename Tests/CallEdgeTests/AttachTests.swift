import CallAuth
import CallCore
import CallEdge
import CallWire
import Testing

private let call = CallID(high: 1, low: 2)
private let phone = AttachRequest(device: "phone")
private let tokenOfPhone = AttachRequest(token: "t", device: "phone")

@Suite struct AttachTests {
  @Test("commands show the token until the attach is answered, then the shard's ticket")
  func whatCommandsShow() {
    let ticket = SessionTicket(high: 1, low: 2, expires: 3, issued: 4)
    var machine = SessionMachine()
    #expect(machine.session.credential == .none)
    machine.say(1, .attach(AttachRequest(token: "bad", device: "phone")))
    machine.authenticated(.failure(.notAccepted))
    #expect(machine.session.credential == .none)
    machine.say(2, .attach(tokenOfPhone))
    machine.authenticated(.success(.of()))
    #expect(machine.session.credential == .token("t"))
    var early = machine
    #expect(early.session.takeEnd()?.credential == .token("t"), "the end of a session says so, too")
    machine.reply(2, .attach(Attach()), .error(CallError(.tryAgain)))
    machine.say(3, .attach(phone))
    #expect(machine.session.credential == .token("t"), "it may be tried again")
    machine.reply(3, .attach(Attach()), .attached(forCall: nil, ticket: ticket))
    #expect(machine.session.credential == .ticket(ticket))
    #expect(machine.session.takeEnd()?.credential == .ticket(ticket))
  }

  @Test func tokenInTheAttachIsCheckedAndTheShardAsked() {
    var machine = SessionMachine()
    var request = AttachRequest(
      token: "t", device: "phone", forCall: call, deviceName: "Ann's phone", client: "sdk 1")
    request.onlyPlaces = true
    machine.say(1, .attach(request))
    #expect(machine.take() == [.authenticate(token: "t")])
    machine.authenticated(.success(.of()))
    let attach = Attach(
      forCall: call, deviceName: "Ann's phone", client: "sdk 1", attachedAt: SessionMachine.start,
      onlyPlaces: true, userName: "")
    #expect(machine.take() == [.forward(request: 1, callee: ann, .attach(attach))])
    #expect(!machine.session.isAttached)
    machine.reply(1, .attach(Attach()), .attached(forCall: nil))
    let info = AttachedInfo(
      session: "9-7", user: "ann", device: "phone", pingSeconds: 25,
      serverTime: SessionMachine.start, deviceName: "Ann's phone")
    #expect(machine.take() == [.reply(1, .attached(info))])
    #expect(machine.session.isAttached)
  }

  @Test(arguments: [(AuthFailure.expired, CallError.Code.expired), (.notAccepted, .notAccepted)])
  func refusedTokensAreAnsweredAndMayBeReplaced(failure: AuthFailure, code: CallError.Code) {
    var machine = SessionMachine()
    machine.say(1, .attach(tokenOfPhone))
    machine.authenticated(.failure(failure))
    #expect(machine.take().contains(where: isError(1, code)))
    machine.say(2, .attach(AttachRequest(token: "new", device: "phone")))
    machine.authenticated(.success(.of()))
    #expect(machine.session.sender?.user == ann)
  }

  @Test func wrongTokensWithoutEndCloseTheSession() {
    var machine = SessionMachine()
    for id in 1...10 {
      machine.say(UInt64(id), .attach(tokenOfPhone))
      machine.authenticated(.failure(.notAccepted))
    }
    #expect(machine.take().last == .close(.tooManyBadFrames))
  }

  /// A token of the header is enough where it names the device.
  @Test(
    arguments: [
      (.of(device: "phone"), "", nil), (.of(), "", .invalidDevice),
      (.of(device: "phone"), "tablet", .notAccepted), (.of(), "a\nb", .invalidDevice),
      (.of(), String(repeating: "x", count: 65), .invalidDevice), (nil, "phone", .notAccepted),
    ] as [(DeviceClaims?, String, CallError.Code?)])
  func deviceComesFromTokenOrFrame(claims: DeviceClaims?, named: String, code: CallError.Code?) {
    var machine = SessionMachine(claims: claims)
    machine.say(1, .attach(AttachRequest(device: named)))
    let actions = machine.take()
    if let code {
      #expect(actions.contains(where: isError(1, code)) && machine.session.sender == nil)
    } else {
      #expect(actions.map(\.isForward) == [true] && machine.session.sender?.device == "phone")
    }
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

  @Test func onlyOneAttachCounts() {
    var machine = SessionMachine(claims: .of())
    machine.say(1, .attach(phone))
    _ = machine.take()
    // A repetition while it is under way is not answered, others are refused, then and later.
    machine.say(1, .attach(phone))
    #expect(machine.take().isEmpty)
    machine.say(2, .attach(phone))
    #expect(machine.take().contains(where: isError(2, .alreadyAttached)))
    machine.reply(1, .attach(Attach()), .attached(forCall: nil))
    #expect(machine.take().count == 1)
    machine.say(5, .attach(phone))
    #expect(machine.take().contains(where: isError(5, .alreadyAttached)))
    #expect(machine.session.isAttached)
  }

  @Test func attachThatGotNoAnswerMayBeTriedAgain() {
    var machine = SessionMachine(claims: .of())
    machine.say(1, .attach(phone))
    machine.turn.now = SessionMachine.start + .seconds(5)
    machine.reply(1, .attach(Attach()), .error(CallError(.tryAgain)))
    #expect(machine.take().contains(where: isError(1, .tryAgain)))
    // The time to attach begins anew: it was not the device's fault.
    machine.pass(.seconds(9))
    #expect(machine.take().isEmpty)
    var other = machine
    machine.attach()
    #expect(machine.session.isAttached)
    // A shard may know the session since the first attempt: its end is always reported.
    #expect(machine.session.takeEnd()?.user == ann)
    // So it does not become another user's.
    other.say(2, .attach(AttachRequest(token: "bob's", device: "phone")))
    _ = other.take()
    other.authenticated(.success(.of("bob")))
    #expect(other.take().contains(where: isError(2, .forbidden)))
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
    let verbs: [CallVerb] = [
      .alerting, .answer(description: ""), .decline(.everywhere), .busy, .cancel, .connected,
      .hangUp, .signal(.candidate, body: "c"), .resume, .query,
    ]
    let commands: [ClientCommand] = [
      .register(RegistrationRequest()), .unregister(nil), .place(call),
      .ack([AckItem(call: address, version: 1)]), .ping, .calls, .renew(token: "t"),
    ]
    var machine = SessionMachine(claims: .of(device: "phone"))
    for (id, command) in zip(UInt64(1)..., commands + verbs.map { .call(address, $0) }) {
      machine.say(id, command)
      #expect(machine.take() == [.reply(id, .error(CallError(.notAttached)))])
    }
    #expect(!machine.session.isClosing)
  }
}
