import CallAuth
import CallCore
import CallEdge
import CallWire
import Testing

private let start = Timestamp(microseconds: 1_800_000_000_000_000)
private let ann = UserKey(app: "demo", user: "ann")
private let bob = UserKey(app: "demo", user: "bob")
private let call = CallID(high: 1, low: 2)

private func claims(_ user: String = "ann", device: String? = nil) -> DeviceClaims {
  DeviceClaims(app: "demo", user: user, device: device, expiresAtSeconds: 2_000_000_000)
}

/// A session and what it asked for.
private struct Machine {
  var session: DeviceSession
  var actions: [DeviceSession.Action] = []
  var now = start

  init(
    claims: DeviceClaims? = nil, number: UInt64 = 7,
    _ change: (inout EdgeConfiguration) -> Void = { _ in }
  ) {
    var configuration = EdgeConfiguration(
      nodeID: "e", appKeys: AppKeys.generateDevelopment(app: "demo").0)
    change(&configuration)
    session = DeviceSession(
      number: number, codec: .protobuf, claims: claims,
      rules: SessionRules(edge: 9, configuration: configuration), now: start)
  }

  /// An attached session of ann's phone.
  static func attached(
    number: UInt64 = 7, _ change: (inout EdgeConfiguration) -> Void = { _ in }
  ) -> Machine {
    var machine = Machine(claims: claims(), number: number, change)
    machine.say(1, .attach(AttachRequest(device: "phone", deviceName: "Ann's phone")))
    machine.reply(1, .attach(Attach()), .attached(forCall: nil))
    machine.actions = []
    return machine
  }

  /// What came of it, and no longer kept.
  mutating func take() -> [DeviceSession.Action] {
    defer { actions = [] }
    return actions
  }

  mutating func say(_ id: UInt64, _ command: ClientCommand) {
    session.received(ClientFrame(id: id, command: command), now: now, into: &actions)
  }

  mutating func reply(_ id: UInt64, _ body: Command.Body, _ reply: Reply) {
    session.replied(request: id, to: body, reply, now: now, into: &actions)
  }

  mutating func authenticated(_ result: Result<DeviceClaims, AuthFailure>) {
    session.authenticated(result.mapError(CallError.init), now: now, into: &actions)
  }

  mutating func bad(_ code: CallError.Code, id: UInt64 = 0) {
    session.received(
      bad: FrameError(id: id, error: CallError(code)), now: now, into: &actions)
  }

  mutating func pass(_ span: Span) {
    now = now + span
    session.tick(now: now, into: &actions)
  }
}

extension Machine {
  fileprivate mutating func place(_ index: Int, as id: UInt64) {
    let call = CallID(high: 1, low: UInt64(index))
    say(id, .place(CallAddress(callee: "bob", call: call), PlaceRequest(call: call)))
  }
}

extension Machine {
  fileprivate mutating func refuse(
    _ id: UInt64, _ body: Command.Body, _ code: CallError.Code
  ) {
    session.wasRefused(request: id, body, CallError(code), now: now, into: &actions)
  }
}

extension Command.Body {
  /// What `Machine.place` has forwarded.
  fileprivate static func placing(_ index: Int) -> Command.Body {
    .place(PlaceRequest(call: CallID(high: 1, low: UInt64(index)), deviceName: "Ann's phone"))
  }
}

extension DeviceSession.Action {
  fileprivate var isForward: Bool { if case .forward = self { true } else { false } }
}

/// By the default limits.
private let tooFast = CallError(
  .rateLimited, "Too many commands: 20 a second, 60 at once.", retryAfterMilliseconds: 50)

private func error(_ id: UInt64, _ code: CallError.Code) -> (DeviceSession.Action) -> Bool {
  { action in
    guard case .reply(id, .error(let error)) = action else { return false }
    return error.code == code
  }
}

@Suite struct AttachTests {
  @Test("commands show the token until the attach is answered, then the shard's ticket")
  func whatCommandsShow() {
    let ticket = SessionTicket(high: 1, low: 2, expires: 3, issued: 4)
    var machine = Machine()
    #expect(machine.session.credential == .none)
    machine.say(1, .attach(AttachRequest(token: "bad", device: "phone")))
    machine.authenticated(.failure(.notAccepted))
    #expect(machine.session.credential == .none)
    machine.say(2, .attach(AttachRequest(token: "t", device: "phone")))
    machine.authenticated(.success(claims()))
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
    var machine = Machine()
    machine.say(2, .attach(AttachRequest(token: "t", device: "phone")))
    machine.authenticated(.success(claims()))
    #expect(machine.session.takeEnd()?.credential == .token("t"))
  }

  @Test func tokenInTheAttachIsCheckedAndTheShardAsked() {
    var machine = Machine()
    machine.say(
      1, .attach(AttachRequest(token: "t", device: "phone", forCall: call, client: "sdk 1")))
    #expect(machine.take() == [.authenticate(token: "t")])
    machine.authenticated(.success(claims()))
    #expect(
      machine.take() == [
        .forward(
          request: 1, callee: ann,
          .attach(Attach(forCall: call, deviceName: "", client: "sdk 1", attachedAt: start)))
      ])
    #expect(!machine.session.isAttached)
    machine.reply(1, .attach(Attach()), .attached(forCall: nil))
    #expect(
      machine.take() == [
        .reply(
          1,
          .attached(
            AttachedInfo(
              session: "9-7", user: "ann", device: "phone", pingSeconds: 25, serverTime: start)))
      ])
    #expect(machine.session.isAttached)
  }

  @Test func tokenOfTheHeaderIsEnough() {
    var machine = Machine(claims: claims(device: "phone"))
    machine.say(1, .attach(AttachRequest()))
    guard case .forward(1, ann, .attach)? = machine.take().first else {
      Issue.record("not forwarded")
      return
    }
    #expect(machine.session.sender?.device == "phone")
  }

  @Test func withoutAnyTokenNobodyIsAccepted() {
    var machine = Machine()
    machine.say(1, .attach(AttachRequest(device: "phone")))
    #expect(machine.take().contains(where: error(1, .notAccepted)))
  }

  @Test(arguments: [(AuthFailure.expired, CallError.Code.expired), (.notAccepted, .notAccepted)])
  func refusedTokensAreAnsweredAndMayBeReplaced(failure: AuthFailure, code: CallError.Code) {
    var machine = Machine()
    machine.say(1, .attach(AttachRequest(token: "t", device: "phone")))
    machine.authenticated(.failure(failure))
    #expect(machine.take().contains(where: error(1, code)))
    machine.say(2, .attach(AttachRequest(token: "new", device: "phone")))
    machine.authenticated(.success(claims()))
    #expect(machine.session.sender?.user == ann)
  }

  @Test func wrongTokensWithoutEndCloseTheSession() {
    var machine = Machine()
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
    var machine = Machine(claims: claims(device: claimed))
    machine.say(1, .attach(AttachRequest(device: named)))
    #expect(machine.take().contains(where: error(1, code)))
    #expect(machine.session.sender == nil)
  }

  /// Nothing says which part of a token was wrong.
  @Test func aTokenOfAnotherDeviceIsAnsweredLikeAnyThatIsNotAccepted() {
    var other = Machine(claims: claims(device: "phone"))
    other.say(1, .attach(AttachRequest(device: "tablet")))
    var wrong = Machine()
    wrong.say(1, .attach(AttachRequest(token: "t", device: "tablet")))
    _ = wrong.take()
    wrong.authenticated(.failure(.notAccepted))
    let answer = wrong.take()
    #expect(!answer.isEmpty)
    #expect(other.take() == answer)
  }

  @Test func secondAttachIsRefused() {
    var machine = Machine.attached()
    machine.say(5, .attach(AttachRequest(device: "phone")))
    #expect(machine.take().contains(where: error(5, .alreadyAttached)))
    #expect(machine.session.isAttached)
  }

  @Test func attachRepeatedWhileUnderWayIsAnsweredOnce() {
    var machine = Machine(claims: claims())
    machine.say(1, .attach(AttachRequest(device: "phone")))
    _ = machine.take()
    machine.say(1, .attach(AttachRequest(device: "phone")))
    #expect(machine.take().isEmpty)
    machine.say(2, .attach(AttachRequest(device: "phone")))
    #expect(machine.take().contains(where: error(2, .alreadyAttached)))
    machine.reply(1, .attach(Attach()), .attached(forCall: nil))
    #expect(machine.take().count == 1)
  }

  @Test func attachThatGotNoAnswerMayBeTriedAgain() {
    var machine = Machine(claims: claims())
    machine.say(1, .attach(AttachRequest(device: "phone")))
    machine.now = start + .seconds(5)
    machine.reply(1, .attach(Attach()), .error(CallError(.tryAgain)))
    #expect(machine.take().contains(where: error(1, .tryAgain)))
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
    var machine = Machine(claims: claims())
    machine.say(1, .attach(AttachRequest(device: "phone")))
    machine.reply(1, .attach(Attach()), .error(CallError(.tryAgain)))
    machine.say(2, .attach(AttachRequest(token: "bob's", device: "phone")))
    _ = machine.take()
    machine.authenticated(.success(claims("bob")))
    #expect(machine.take().contains(where: error(2, .forbidden)))
  }

  @Test func connectionMustAttachInTime() {
    var machine = Machine()
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
    var machine = Machine(claims: claims(device: "phone"))
    for (index, command) in commands.enumerated() {
      machine.say(UInt64(index + 1), command)
      #expect(machine.take().contains(where: error(UInt64(index + 1), .notAttached)))
    }
    #expect(!machine.session.isClosing)
  }
}

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
      var machine = Machine.attached()
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
    var machine = Machine.attached()
    machine.say(3, .register(given))
    given.voipToken?.fingerprint = PushTokenFingerprint.of(provider: "apns", token: token)
    given.alertToken?.fingerprint = PushTokenFingerprint.of(provider: "fcm", token: token)
    #expect(given.voipToken?.fingerprint != given.alertToken?.fingerprint)
    #expect(machine.take() == [.forward(request: 3, callee: ann, .register(given))])
  }

  @Test func aUserWhoseNameTheDialectDoesNotTakeIsRefused() {
    let name = String(repeating: "n", count: 41)
    var machine = Machine(claims: claims(name, device: "phone"))
    machine.say(1, .attach(AttachRequest()))
    machine.reply(1, .attach(Attach()), .attached(forCall: nil))
    _ = machine.take()
    machine.say(2, .register(RegistrationRequest(dialect: "sinch")))
    #expect(machine.take().contains(where: error(2, .invalidUserForDialect)))
    machine.say(3, .register(RegistrationRequest(dialect: "twilio")))
    #expect(machine.take().count == 1)
  }

  @Test func acknowledgementsAreGroupedByCallee() {
    var machine = Machine.attached()
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
    var machine = Machine.attached()
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
  }

  @Test func aReplyThatIsNoNewsMayWait() {
    func reply(to body: Command.Body, _ reply: Reply) -> [DeviceSession.Action] {
      var machine = Machine.attached()
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
    var machine = Machine.attached()
    machine.say(0, .call(CallAddress(call: call), .query))
    #expect(machine.take().contains(where: error(0, .invalidField)))
  }

  @Test func pendingCommandsAreBounded() {
    var machine = Machine.attached {
      $0.commandsPendingPerSession = 3
      $0.commandsBurst = 1000
    }
    for id in 1...3 { machine.say(UInt64(id), .call(CallAddress(call: call), .query)) }
    _ = machine.take()
    machine.say(4, .call(CallAddress(call: call), .query))
    #expect(machine.take().contains(where: error(4, .rateLimited)))
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
    var machine = Machine.attached()
    // The attach took one of the 60.
    for id in 2...60 { machine.say(UInt64(id), .call(CallAddress(call: call), .query)) }
    for id in 2...60 { machine.reply(UInt64(id), .call(call, .query), .done) }
    #expect(!machine.take().contains { if case .reply(_, .error) = $0 { true } else { false } })
    machine.say(61, .call(CallAddress(call: call), .query))
    #expect(machine.take() == [.reply(61, .error(tooFast))])
    // The command that was refused may be retransmitted; 20 a second are taken.
    machine.now = machine.now + .milliseconds(50)
    machine.say(61, .call(CallAddress(call: call), .query))
    #expect(machine.take() == [.forward(request: 61, callee: ann, .call(call, .query))])
    #expect(!machine.session.isClosing)
  }

  @Test func refusalsNameTheLimitsInForce() {
    var machine = Machine.attached {
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
    var machine = Machine.attached()
    let item = AckItem(call: CallAddress(call: call), version: 1)
    for _ in 0..<590 { machine.say(0, .ack([item])) }
    #expect(machine.take().count { if case .acknowledge = $0 { true } else { false } } == 590)
    machine.say(0, .ack([item]))
    #expect(machine.take().contains(where: error(0, .rateLimited)))
  }

  @Test func whoNeverHeedsTheLimitIsClosed() {
    var machine = Machine.attached { $0.peers.refusalsMax = 5 }
    for id in 0..<100 { machine.say(UInt64(id + 2), .call(CallAddress(call: call), .query)) }
    #expect(machine.take().contains(.close(.tooManyCommands)))
  }
}

@Suite struct BadFrameTests {
  @Test(arguments: [
    CallError.Code.malformedFrame, .frameTooLarge, .unknownCommand, .wrongFrameType, .invalidField,
    .descriptionTooLarge, .headersTooLarge, .invalidCallee,
  ])
  func badFramesAreAnsweredAndTheSessionStays(code: CallError.Code) {
    var machine = Machine.attached()
    for id in 0..<9 { machine.bad(code, id: UInt64(id)) }
    let answers = machine.take()
    #expect(answers.count == 9)
    for (id, answer) in answers.enumerated() { #expect(error(UInt64(id), code)(answer)) }
    #expect(machine.session.isAttached)
    machine.say(20, .call(CallAddress(call: call), .query))
    #expect(machine.take() == [.forward(request: 20, callee: ann, .call(call, .query))])
  }

  @Test func theTenthClosesTheSession() {
    var machine = Machine.attached()
    for _ in 0..<10 { machine.bad(.malformedFrame) }
    #expect(machine.take().last == .close(.tooManyBadFrames))
    // From then on nothing is answered.
    machine.bad(.malformedFrame)
    machine.say(3, .call(CallAddress(call: call), .query))
    machine.reply(2, .call(call, .query), .done)
    #expect(machine.take().isEmpty)
  }

  /// A user who misdials, or an SDK that knows commands which this edge does not.
  @Test(arguments: [
    CallError.Code.unknownCommand, .invalidField, .invalidCallee, .descriptionTooLarge,
    .headersTooLarge, .unknownDialect, .unknownCapability, .invalidDevice, .invalidPushToken,
  ])
  func refusedFramesThatCouldBeReadCloseNothing(code: CallError.Code) {
    var machine = Machine.attached()
    for id in 2..<500 {
      machine.now = machine.now + .milliseconds(50)
      machine.bad(code, id: UInt64(id))
      #expect(machine.actions.count == 1)
      #expect(machine.take().contains(where: error(UInt64(id), code)))
    }
    #expect(machine.session.isAttached)
  }

  /// They count as commands do, so that nobody says nonsense as fast as it can, and for ever.
  @Test func refusedFramesCountAgainstTheRate() {
    var machine = Machine.attached()
    for id in 2...60 { machine.bad(.invalidCallee, id: UInt64(id)) }
    #expect(machine.take().allSatisfy { if case .reply = $0 { true } else { false } })
    machine.bad(.invalidCallee, id: 61)
    #expect(machine.take() == [.reply(61, .error(tooFast))])
    machine.say(62, .call(CallAddress(call: call), .query))
    #expect(machine.take().contains(where: error(62, .rateLimited)))
    for id in 63..<400 { machine.bad(.invalidCallee, id: UInt64(id)) }
    #expect(machine.take().last == .close(.tooManyCommands))
  }

  /// One that cannot be read is forgiven each minute; nine more in the same minute are not.
  @Test(arguments: [CallError.Code.malformedFrame, .frameTooLarge, .wrongFrameType])
  func unreadableFramesAreForgivenInTime(code: CallError.Code) {
    var machine = Machine.attached()
    for _ in 0..<9 { machine.bad(code) }
    for _ in 0..<100 {
      machine.now = machine.now + .seconds(60)
      machine.bad(code)
    }
    #expect(machine.take().count == 109)
    #expect(machine.session.isAttached)
    machine.now = machine.now + .seconds(59)
    // Good frames between them do not help.
    machine.say(2, .call(CallAddress(call: call), .query))
    machine.bad(code)
    #expect(machine.take().last == .close(.tooManyBadFrames))
  }

  @Test func brokenProtocolClosesAtOnce() {
    var machine = Machine.attached()
    machine.session.end(.protocolError, now: start, into: &machine.actions)
    #expect(machine.take() == [.close(.protocolError)])
  }
}

@Suite struct SessionHeartbeatTests {
  @Test func pingIsAnsweredByTheEdgeAlone() {
    var machine = Machine.attached()
    machine.say(2, .ping)
    #expect(machine.take() == [.reply(2, .done)])
  }

  @Test func notBeforeTheAttach() {
    var machine = Machine(claims: claims())
    machine.say(2, .ping)
    machine.say(3, .calls)
    #expect(
      machine.take() == [
        .reply(2, .error(CallError(.notAttached))), .reply(3, .error(CallError(.notAttached))),
      ])
  }

  @Test func pingsCountATenth() {
    var machine = Machine.attached()
    for id in 2...591 { machine.say(UInt64(id), .ping) }
    #expect(machine.take().allSatisfy { if case .reply(_, .done) = $0 { true } else { false } })
    machine.say(592, .ping)
    #expect(machine.take().allSatisfy(error(592, .rateLimited)))
  }
}

@Suite struct SessionCallsTests {
  private let live = LiveCalls(
    placed: [CallState(call: call, callee: "bob", phase: .ringing, version: 3)])

  @Test func allShardsAreAskedOnce() {
    var machine = Machine.attached()
    machine.say(2, .calls)
    machine.say(2, .calls)
    #expect(machine.take() == [.askForCalls(request: 2)])
    machine.session.callsListed(request: 2, live, now: machine.now, into: &machine.actions)
    #expect(machine.take() == [.reply(2, .calls(live))])
    // A second answer, or one to nothing, is none.
    machine.session.callsListed(request: 2, live, now: machine.now, into: &machine.actions)
    #expect(machine.take() == [])
  }

  @Test func oncePerTenSeconds() throws {
    var machine = Machine.attached()
    machine.say(2, .calls)
    machine.say(3, .calls)
    machine.session.callsListed(request: 2, live, now: machine.now, into: &machine.actions)
    machine.pass(.seconds(4))
    machine.say(4, .calls)
    let answers = machine.take().compactMap {
      if case .reply(let id, .error(let error)) = $0 { (id, error) } else { nil }
    }
    #expect(answers.map(\.0) == [3, 4])
    #expect(answers.map(\.1.code) == [.rateLimited, .rateLimited])
    #expect(answers.map(\.1.retryAfterMilliseconds) == [10_000, 6000])
    machine.pass(.seconds(6))
    machine.say(5, .calls)
    #expect(machine.take() == [.askForCalls(request: 5)])
  }

  @Test func aShardThatDoesNotAnswerMakesItTryAgain() {
    var machine = Machine.attached()
    machine.say(2, .calls)
    _ = machine.take()
    machine.pass(.seconds(5))
    machine.session.callsListed(request: 2, nil, now: machine.now, into: &machine.actions)
    #expect(
      machine.take() == [
        .reply(2, .error(CallError(.tryAgain, retryAfterMilliseconds: 5000)))
      ])
  }

  @Test func aQuestionThatWasNotAskedDoesNotCount() {
    var machine = Machine.attached()
    machine.say(2, .calls)
    _ = machine.take()
    let full = CallError(.overloaded, retryAfterMilliseconds: 1000)
    machine.session.callsRefused(request: 2, full, now: machine.now, into: &machine.actions)
    #expect(machine.take() == [.reply(2, .error(full))])
    machine.say(2, .calls)
    #expect(machine.take() == [.askForCalls(request: 2)])
  }

  @Test func answersAreCollected() {
    var question = CallsQuestion(asker: 1, request: 2, shardCount: 3)
    let state = live.placed[0]
    #expect(question.take(.calls(live)) == .waiting)
    #expect(question.take(.calls(LiveCalls(received: [state]))) == .waiting)
    #expect(
      question.take(.calls(live))
        == .complete(LiveCalls(placed: [state, state], received: [state]))
    )
    var failing = CallsQuestion(asker: 1, request: 2, shardCount: 3)
    #expect(failing.take(.error(CallError(.tryAgain))) == .failed)
    var many = CallsQuestion(asker: 1, request: 2, shardCount: 2)
    let full = LiveCalls(placed: Array(repeating: state, count: 40))
    #expect(many.take(.calls(full)) == .waiting)
    guard case .complete(let all) = many.take(.calls(full)) else {
      Issue.record("not complete")
      return
    }
    #expect(all.placed.count == LiveCalls.countMaximum)
  }
}

@Suite struct SessionEndTests {
  @Test func detachIsGraceful() throws {
    var machine = Machine.attached()
    machine.say(2, .detach)
    #expect(machine.take() == [.reply(2, .done), .close(.normal)])
    let taken = machine.session.takeEnd()
    let farewell = try #require(taken)
    #expect(farewell.isGraceful && farewell.user == ann && farewell.device == "phone")
    let another = machine.session.takeEnd()
    #expect(another == nil)
  }

  @Test(arguments: [(UInt16(1000), true), (1001, false), (nil, false)] as [(UInt16?, Bool)])
  func onlyANormalClosureIsAGoodbye(code: UInt16?, graceful: Bool) {
    var machine = Machine.attached()
    machine.session.receivedClose(code: code, now: start, into: &machine.actions)
    #expect(machine.take() == [.close(.normal), .abort])
    let farewell = machine.session.takeEnd()
    #expect(farewell?.isGraceful == graceful)
  }

  @Test func peersAnswerToOurCloseEndsTheSocket() {
    var machine = Machine.attached()
    machine.session.asked(
      toClose: Notice(kind: .goAway, message: ""), now: start, into: &machine.actions)
    _ = machine.take()
    machine.session.receivedClose(code: 4002, now: start, into: &machine.actions)
    #expect(machine.take() == [.abort])
  }

  @Test(arguments: [
    (Notice.Kind.sessionReplaced, CloseReason.sessionReplaced), (.deviceRemoved, .deviceRemoved),
    (.goAway, .goAway),
    (.tokenTaken, .deviceRemoved),
  ])
  func clusterMayCloseASession(kind: Notice.Kind, reason: CloseReason) {
    var machine = Machine.attached()
    let notice = Notice(kind: kind, message: "m")
    machine.session.asked(toClose: notice, now: start, into: &machine.actions)
    #expect(machine.take() == [.notice(notice), .close(reason)])
    let stop = Delivery(
      call: call, callee: "ann", version: 1, at: start, event: .stop(Stop(reason: .cancelled)))
    let isTaken = machine.session.willDeliver(stop)
    #expect(!isTaken)
  }

  @Test func brokenSocketIsNotGraceful() {
    var machine = Machine.attached()
    let farewell = machine.session.takeEnd()
    #expect(farewell?.isGraceful == false)
  }

  @Test func whoNeverAttachedIsNotMissed() {
    var machine = Machine(claims: claims())
    let another = machine.session.takeEnd()
    #expect(another == nil)
  }

  @Test func callsPlacedFromHereAreReported() throws {
    var machine = Machine.attached()
    let ended = CallID(high: 5, low: 5)
    let refused = CallID(high: 6, low: 6)
    let resumed = CallID(high: 7, low: 7)
    let cancelled = CallID(high: 8, low: 8)
    let lost = CallID(high: 9, low: 9)
    for id in [call, ended, refused, cancelled, lost] {
      machine.say(2, .place(CallAddress(callee: "bob", call: id), PlaceRequest(call: id)))
    }
    machine.say(2, .call(CallAddress(callee: "eve", call: resumed), .resume))
    _ = machine.session.willDeliver(
      Delivery(
        call: ended, callee: "bob", version: 1, at: start, event: .stop(Stop(reason: .busy))))
    machine.reply(
      2, .place(PlaceRequest(call: refused)), .error(CallError(.tooManyCalls)))
    machine.reply(
      2, .call(cancelled, .cancel), .call(CallState(call: cancelled, callee: "bob", phase: .ended)))
    // Whether this one is placed is not known: it is reported.
    machine.reply(2, .place(PlaceRequest(call: lost)), .error(CallError(.tryAgain)))
    let farewell = machine.session.takeEnd()
    let calls = try #require(farewell).calls
    #expect(calls == [bob: [call, lost], UserKey(app: "demo", user: "eve"): [resumed]])
  }

  @Test func rememberedCallsAreBounded() throws {
    var machine = Machine.attached { $0.commandsPendingPerSession = 1000 }
    for index in 0..<40 {
      let id = CallID(high: 1, low: UInt64(index))
      machine.say(2, .call(CallAddress(callee: "bob", call: id), .resume))
    }
    let farewell = machine.session.takeEnd()
    let calls = try #require(farewell).calls
    #expect(calls[bob]?.map(\.low) == Array(24..<40))
  }

  @Test func theSixthLiveCallIsRefused() {
    var machine = Machine.attached()
    func place(_ index: Int, as id: UInt64) {
      let call = CallID(high: 1, low: UInt64(index))
      machine.say(id, .place(CallAddress(callee: "bob", call: call), PlaceRequest(call: call)))
    }
    for index in 0..<5 { place(index, as: UInt64(index + 2)) }
    _ = machine.take()
    place(5, as: 20)
    #expect(machine.actions.count == 1)
    #expect(machine.take().contains(where: error(20, .tooManyLiveCalls)))
    place(3, as: 21)
    #expect(machine.take().count(where: { if case .forward = $0 { true } else { false } }) == 1)
    _ = machine.session.willDeliver(
      Delivery(
        call: CallID(high: 1, low: 0), callee: "bob", version: 1, at: start,
        event: .stop(Stop(reason: .declined))))
    _ = machine.take()
    place(5, as: 22)
    #expect(machine.take().count(where: { if case .forward = $0 { true } else { false } }) == 1)
  }

  /// Calls that a shard did not take, or of which nobody knows, use up nothing.
  @Test(arguments: [CallError.Code.tryAgain, .overloaded, .draining, .internalError])
  func anOutageDoesNotUseUpTheCallsOfADevice(code: CallError.Code) throws {
    var machine = Machine.attached { $0.commandsBurst = 1000 }
    for index in 0..<40 {
      machine.place(index, as: UInt64(index + 2))
      #expect(machine.take().count(where: \.isForward) == 1, "call \(index)")
      machine.reply(UInt64(index + 2), .placing(index), .error(CallError(code)))
      _ = machine.take()
    }
    #expect(!machine.session.isInCall(at: machine.now))
    // Any of them may have been placed: what is remembered of them is reported, newest first.
    let farewell = machine.session.takeEnd()
    #expect(try #require(farewell).calls[bob]?.map(\.low) == Array(24..<40))
  }

  @Test func aCallOfWhichSomethingIsHeardCounts() {
    var machine = Machine.attached { $0.commandsBurst = 1000 }
    for index in 0..<5 {
      machine.place(index, as: UInt64(index + 2))
      machine.reply(UInt64(index + 2), .placing(index), .error(CallError(.tryAgain)))
      if index < 3 {
        let rings = Delivery(
          call: CallID(high: 1, low: UInt64(index)), callee: "bob", version: 1, at: start,
          event: .ringing(by: Party(user: "bob", device: "tablet")))
        _ = machine.session.willDeliver(rings)
      } else {
        machine.place(index, as: UInt64(index + 20))
        let state = CallState(
          call: CallID(high: 1, low: UInt64(index)), callee: "bob", phase: .ringing)
        machine.reply(UInt64(index + 20), .placing(index), .call(state))
      }
    }
    _ = machine.take()
    machine.place(5, as: 40)
    #expect(machine.take().contains(where: error(40, .tooManyLiveCalls)))
    #expect(machine.session.isInCall(at: machine.now))
  }

  /// The edge's own queue is full: the command has gone nowhere.
  @Test func whatWasNotSentIsForgotten() throws {
    var machine = Machine.attached { $0.commandsBurst = 1000 }
    for index in 0..<20 {
      machine.place(index, as: UInt64(index + 2))
      #expect(machine.take().count(where: \.isForward) == 1, "call \(index)")
      machine.refuse(UInt64(index + 2), .placing(index), .overloaded)
      #expect(machine.take().contains(where: error(UInt64(index + 2), .overloaded)))
    }
    // One that is there, or may be, is not forgotten because it could not be retransmitted.
    machine.place(30, as: 40)
    machine.reply(40, .placing(30), .error(CallError(.tryAgain)))
    machine.place(31, as: 41)
    for id in [UInt64(42), 43] {
      machine.place(Int(id) - 12, as: id)
      machine.refuse(id, .placing(Int(id) - 12), .overloaded)
    }
    let farewell = machine.session.takeEnd()
    #expect(try #require(farewell).calls[bob]?.map(\.low) == [30, 31])
  }

  /// Two commands for one call, of which one is refused.
  @Test func aRefusedRepetitionTakesNothingBack() throws {
    var machine = Machine.attached()
    machine.place(0, as: 2)
    machine.place(0, as: 3)
    machine.reply(3, .placing(0), .error(CallError(.descriptionTooLarge)))
    machine.place(0, as: 2)
    machine.session.wasRepeated(.placing(0))
    #expect(machine.session.isInCall(at: machine.now))
    let state = CallState(call: CallID(high: 1, low: 0), callee: "bob", phase: .ringing)
    machine.reply(2, .placing(0), .call(state))
    #expect(machine.session.isInCall(at: machine.now))
    machine.reply(4, .call(CallID(high: 1, low: 0), .query), .error(CallError(.unknownCall)))
    #expect(!machine.session.isInCall(at: machine.now))
    let farewell = machine.session.takeEnd()
    #expect(try #require(farewell).calls.isEmpty)
  }

  /// Calls that live are not pushed out by attempts that came to nothing.
  @Test func doubtfulCallsAreForgottenFirst() throws {
    var machine = Machine.attached { $0.commandsBurst = 1000 }
    machine.place(0, as: 2)
    let state = CallState(call: CallID(high: 1, low: 0), callee: "bob", phase: .ringing)
    machine.reply(2, .placing(0), .call(state))
    for index in 1..<40 {
      machine.place(index, as: UInt64(index + 2))
      machine.reply(UInt64(index + 2), .placing(index), .error(CallError(.tryAgain)))
    }
    let farewell = machine.session.takeEnd()
    #expect(try #require(farewell).calls[bob]?.map(\.low) == [0] + Array(25..<40))
  }

  @Test func silentDeviceIsDeadAfterTwoPings() {
    var machine = Machine.attached()
    machine.pass(.milliseconds(12_499))
    #expect(machine.take().isEmpty)
    machine.pass(.milliseconds(12_501))
    #expect(machine.take() == [.ping])
    machine.pass(.seconds(25))
    #expect(machine.take() == [.ping])
    machine.pass(.seconds(25))
    #expect(machine.take() == [.close(.pingTimeout), .abort])
  }

  /// As all devices of an edge do when it ends: what came together must not be pinged together.
  @Test func sessionsThatAttachAtOnceArePingedOneAfterTheOther() {
    var machines = (1...1000).map { Machine.attached(number: $0 << 8 | 3) }
    var pings: [Int] = []
    for _ in 0..<250 {
      var count = 0
      for index in machines.indices {
        machines[index].pass(.milliseconds(100))
        count += machines[index].take().count { $0 == .ping }
      }
      pings.append(count)
    }
    #expect(pings.reduce(0, +) == 1000)
    #expect(pings[..<124].allSatisfy { $0 == 0 })
    // 1,000 in 12.5 s are eight in a tenth of a second.
    #expect(pings.allSatisfy { $0 <= 16 }, "\(pings)")
  }

  @Test func eachSessionIsLookedAtOnceInASweep() {
    var slots = TimerWheel<Int>(slotCount: 10)
    for index in 1...100 { slots.add(UInt64(index) << 8, index) }
    slots.remove(50 << 8)
    let ticks = (5..<15).map { slots.due(at: $0) }
    #expect(ticks.map(\.count).allSatisfy { 9...10 ~= $0 })
    #expect(ticks.joined().sorted() == Array(1...100).filter { $0 != 50 })
  }

  @Test func anythingHeardKeepsASessionAlive() {
    var machine = Machine.attached()
    for _ in 0..<10 {
      machine.pass(.seconds(25))
      #expect(machine.take() == [.ping])
      machine.session.receivedBytes()
    }
  }

  @Test func slowDeviceIsClosedAtOnce() {
    var machine = Machine.attached()
    machine.session.end(.slowConsumer, now: start, into: &machine.actions)
    #expect(machine.take() == [.close(.slowConsumer)])
    // What waits is kept for a while.
    machine.pass(.seconds(9))
    #expect(machine.take() == [])
    machine.pass(.seconds(1))
    #expect(machine.take() == [.abort])
  }

  @Test func aMessageThatIsFarTooLargeMayBeSentToItsEnd() {
    var machine = Machine.attached()
    machine.session.end(.messageTooLarge, now: start, into: &machine.actions)
    #expect(machine.take() == [.close(.messageTooLarge)])
    // What follows cannot be understood, and says nothing.
    machine.session.end(.protocolError, now: start, into: &machine.actions)
    machine.pass(.seconds(9))
    #expect(machine.take() == [])
    machine.pass(.seconds(1))
    #expect(machine.take() == [.abort])
  }

  @Test func announcementIsTheAttachAgain() {
    var machine = Machine.attached()
    #expect(
      machine.session.announcement
        == .attach(Attach(deviceName: "Ann's phone", announce: true, attachedAt: start)))
    machine.say(2, .detach)
    #expect(machine.session.announcement == nil)
    #expect(Machine(claims: claims()).session.announcement == nil)
  }
}
