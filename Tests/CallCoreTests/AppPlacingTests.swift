import CallCore
import Testing

/// The app's server places a call between bob and dave: bob's devices ring first, and dave's once bob has answered.
/// Bob's shard has the call.
@Suite struct AppPlacingTests {
  typealias Bench = DivertingBench

  static let nobody = Party(user: "dave", device: "", name: "Dave D.")
  static let dave = Party(user: "dave", device: "1", deviceName: "dave's 1")
  static let bobsPhone = Party(user: "bob", device: "b1", deviceName: "Bob's b1")

  static func request(
    from: String = "dave", id: CallID = Bench.id, device: DeviceID? = nil
  ) -> AppRequest {
    var request = PlaceRequest(call: id, callerName: "Dave D.", pushData: "ticket 7")
    request.setup.headers = [CustomHeader(name: "reason", value: "callback")]
    request.subscriptions = .history
    return .place(AppPlacing(request, caller: from, device: device))
  }

  /// Bob has two devices, and those other users have one each.
  static func bench(with users: String..., limits: CallLimits = CallLimits()) -> Bench {
    var bench = Bench(owner: CallCoreTests.Bench(limits: limits), guests: CallCoreTests.Bench())
    bench.owner.shard.storedParts = .history
    bench.owner.attach("b1", "b2")
    for user in users { bench.attach(user) }
    return bench
  }

  /// Bob rings.
  static func placed(limits: CallLimits = CallLimits()) -> Bench {
    var bench = bench(limits: limits)
    _ = bench.asServer(request())
    return bench
  }

  /// Bob has answered, and dave rings.
  static func waiting(limits: CallLimits = CallLimits()) -> Bench {
    var bench = placed(limits: limits)
    for device in ["1", "2"] { bench.attach("dave", device) }
    bench.asBob(.answer())
    return bench
  }

  // MARK: As it should be

  @Test("bob rings, then dave, and both talk") func bothTalk() throws {
    var bench = Self.bench(with: "dave")
    bench.attach("dave", "2")
    let placed = bench.asServer(Self.request())
    #expect(placed?.state.phase == .placed && placed?.caller == Self.nobody)
    for device in ["b1", "b2"] {
      let invite = try #require(bench.bob.invites(device).first)
      #expect(invite.caller == Self.nobody && invite.description.isEmpty)
      #expect(invite.pushData == "ticket 7" && invite.headers.count == 1 && !invite.isSecondSide)
    }
    bench.asBob(.alerting)
    bench.pass(.seconds(5))
    #expect(bench.invites("dave").isEmpty, "his turn comes later")
    #expect(bench.asBob(.answer())?.won == true)
    let invite = try #require(bench.invites("dave").first)
    #expect(invite.caller == Self.bobsPhone, "who waits")
    #expect(
      invite.isSecondSide && invite.transferredBy == nil && invite.divertedBy.isEmpty
        && invite.consulted == nil)
    #expect(invite.description.isEmpty && invite.headers.isEmpty && invite.pushData.isEmpty)
    #expect(bench.asked.allSatisfy { $0.1.caller == "bob" }, "dave's rules are about bob")
    bench.say(.alerting, "dave", "2")
    let second = Party(user: "dave", device: "2", deviceName: "dave's 2")
    #expect(bench.toBob() == [.transfer(TransferNews(to: "dave", number: 1, by: second))])
    #expect(bench.asBob(.signal(.candidate, body: "for nobody")) == .done)
    bench.pass(.seconds(25))
    #expect(bench.owner.ends.isEmpty, "nobody has to be connected yet")
    #expect(bench.say(.answer(description: "offer"), "dave")?.won == true)
    #expect(bench.stops("dave", "2") == [Stop(reason: .answeredElsewhere, by: Self.dave)])
    #expect(bench.toBob().last == .moved(Moved(to: Self.dave, description: "offer", number: 1)))
    bench.asBob(.signal(.description, body: "answer"))
    #expect(bench.signals("dave", "1").map(\.body) == ["answer"])
    bench.asBob(.connected)
    bench.say(.connected, "dave")
    bench.pass(.seconds(120))
    #expect(bench.asServer(.call(Bench.id))?.caller == Self.dave)
    bench.say(.hangUp, "dave")
    #expect(bench.bobsStops().map(\.reason) == [.hungUp])
    #expect(bench.owner.ends.map(\.by) == [Self.dave])
    #expect(bench.bob.deliveries(to: "").isEmpty)
  }

  @Test("after dave has answered, both have to be connected in time") func connectGrace() {
    var bench = Self.waiting()
    bench.pass(.seconds(20))
    bench.say(.answer(description: "offer"), "dave")
    let answered = bench.owner.now
    while bench.owner.ends.isEmpty, bench.owner.now < answered + .seconds(300) {
      bench.pass(.seconds(1))
    }
    let grace = bench.owner.ends.first.map { $0.at - answered }
    #expect(grace == CallLimits().connectGrace)
    #expect(bench.owner.ends.map(\.reason) == [.failed])
  }

  @Test("the devices of each ring for the time that was asked for") func ringTimeout() {
    var bench = Self.bench(with: "dave")
    var request = PlaceRequest(call: Bench.id, ringTimeoutSeconds: 12)
    request.callerName = "Dave D."
    bench.asServer(.place(AppPlacing(request, caller: "dave")))
    bench.pass(.seconds(10))
    bench.asBob(.answer())
    bench.pass(.seconds(11))
    #expect(bench.owner.ends.isEmpty)
    bench.pass(.seconds(1))
    #expect(bench.transferEnds.map(\.reason) == [.unanswered])
  }

  @Test("who has the sides transfers and pulls them as in any call") func goesOn() {
    var bench = Self.waiting()
    bench.attach("carol")
    #expect(bench.asBob(.transfer(TransferRequest(to: "carol")))?.error == .transferring)
    #expect(bench.asBob(.cancelTransfer)?.error == .notParty)
    bench.say(.answer(description: "offer"), "dave")
    #expect(bench.say(.transfer(TransferRequest(to: "carol")), "dave")?.error == nil)
    #expect(bench.say(.answer(description: "offer 2"), "carol")?.won == true)
    #expect(bench.stops("dave").map(\.reason) == [.transferred])
  }

  // MARK: One device of bob's

  @Test("only the chosen device rings, and the call goes on as ever") func oneDevice() {
    var bench = Self.bench(with: "dave")
    bench.asServer(Self.request(device: "b1"))
    #expect(bench.bob.invites("b1").count == 1)
    // b2 does not join, in whatever way it tries.
    let again = CallCoreTests.Bench.session("b2", 1)
    bench.owner.say(.attach(Attach()), device: "b2", session: again)
    bench.pump()
    #expect(bench.owner.say(.answer(), "b2", session: again)?.won == false)
    #expect(bench.bob.invites("b2").isEmpty && bench.bob.deliveries(to: again).isEmpty)
    #expect(bench.asBob(.answer())?.won == true)
    #expect(bench.invites("dave").count == 1)
    #expect(bench.say(.answer(description: "offer"), "dave")?.won == true)
    // Then bob's side moves and transfers as in any call.
    let pull = CallVerb.pull(PullRequest(from: "b1", description: "offer 2"))
    #expect(bench.owner.say(pull, "b2", session: again)?.won == true)
  }

  @Test("the chosen device rings, however many devices the user has") func oneOfMany() {
    var bench = Self.bench(with: "dave", limits: .with { $0.devicesPerUser = 2 })
    // The limit is lower than it was when they attached.
    let later = Attach(announce: true, attachedAt: bench.owner.now + .seconds(1))
    for device in ["b3", "b4", "b5", "b6"] { bench.owner.say(.attach(later), device: device) }
    bench.asServer(Self.request(device: "b1"))
    #expect(bench.bob.invites("b1").count == 1)
  }

  @Test("where the chosen device declines, or cannot be reached, nobody else rings") func noOther()
  {
    var bench = Self.bench(with: "carol")
    let carol = UserRules.Forward(users: ["carol"])
    bench.owner.set(
      UserRules(onBusy: carol, onNoAnswer: carol, noAnswerSeconds: 5, onUnreachable: carol),
      of: "bob")
    bench.asServer(Self.request(device: "b1"))
    bench.pass(.seconds(6))
    #expect(bench.diversions.isEmpty, "it goes on to nobody")
    bench.asBob(.decline(.here))
    #expect(bench.owner.ends.map(\.reason) == [.declined])
    let gone = CallID(high: 9, low: 9)
    bench.asServer(Self.request(id: gone, device: "b3"))
    #expect(bench.owner.ends.map(\.reason) == [.declined, .unreachable])
    #expect(bench.owner.ends.last?.unreachable == .noDevice)
    #expect(bench.invites("carol").isEmpty)
    #expect(bench.bob.invites("b2").isEmpty)
  }

  // MARK: Bob does not answer

  @Test(
    "bob does not take it: dave never rings", arguments: [EndReason.declined, .unanswered, .busy])
  func bobDoesNot(reason: EndReason) {
    var bench = Self.placed()
    bench.attach("dave")
    switch reason {
    case .declined: bench.asBob(.decline(.everywhere))
    case .busy:
      for device in ["b1", "b2"] { bench.owner.say(.call(Bench.id, .busy), device: device) }
    default: bench.pass(.seconds(30))
    }
    #expect(bench.owner.ends.map(\.reason) == [reason])
    #expect(bench.invites("dave").isEmpty && bench.diversions.isEmpty)
    #expect(bench.asServer(.call(Bench.id))?.state.reason == reason)
    #expect(bench.entries.map(\.user.user) == ["bob"], "it never rang at dave")
    let bobs = bench.entries.first?.entry
    #expect(bobs?.isMissed == (reason != .declined))
    #expect(bobs?.peer == "dave" && bobs?.peerName == "Dave D.")
  }

  // MARK: Dave does not answer

  @Test(
    "dave does not take it: bob's device learns why, and the call is over",
    arguments: [EndReason.declined, .busy, .unanswered, .unreachable])
  func daveDoesNot(reason: EndReason) {
    var bench = Self.placed()
    if reason != .unreachable { bench.attach("dave") }
    bench.asBob(.answer())
    switch reason {
    case .declined: bench.say(.decline(.everywhere), "dave")
    case .busy: bench.say(.busy, "dave")
    default: bench.pass(.seconds(30))
    }
    let by = reason == .declined || reason == .busy ? Self.dave : nil
    #expect(
      bench.toBob() == [.transfer(TransferNews(to: "dave", number: 1, reason: reason, by: by))])
    #expect(bench.bobsStops() == [Stop(reason: .hungUp, by: by ?? Self.nobody)])
    #expect(bench.owner.ends.map(\.missed) == [false])
    let missed = reason == .unanswered ? [Stop(reason: reason, missed: true)] : []
    #expect(bench.stops("dave") == missed)
    let entries = bench.entries.sorted { $0.user.user < $1.user.user }
    #expect(entries.map(\.user.user) == ["bob", "dave"])
    #expect(entries.map(\.entry.reason) == [.hungUp, reason])
    let daves = entries.last?.entry
    #expect(daves?.isPlaced == false && daves?.peer == "bob" && daves?.answeredAt == nil)
    #expect(daves?.isMissed == (reason != .declined))
    bench.acknowledgeBob()
    #expect(bench.owner.journal.last?.change == .settled)
  }

  @Test("the reason and the stop are retransmitted, in their order") func retransmitted() {
    var bench = Self.waiting()
    bench.pass(.seconds(40))
    let news = bench.bob.deliveries(to: "b1").filter { $0.event.kind == "transfer" }
    let stops = bench.bob.deliveries(to: "b1").filter { $0.event.kind == "stop" }
    #expect(news.count > 1 && stops.count > 1)
    #expect(stops.allSatisfy { $0.after == news.first?.version })
  }

  @Test(
    "bob's device hangs up, or the app's server ends it, while dave rings",
    arguments: [true, false])
  func endsMeanwhile(byApp: Bool) {
    var bench = Self.waiting()
    if byApp {
      #expect(bench.asServer(.end(Bench.id))?.endedByApp == true)
    } else {
      bench.asBob(.hangUp)
    }
    let by = byApp ? nil : Self.bobsPhone
    #expect(bench.stops("dave") == [Stop(reason: .cancelled, by: by, missed: true)])
    #expect(bench.toBob().isEmpty, "it knows why")
    #expect(bench.owner.ends.map(\.reason) == [.hungUp])
    #expect(bench.say(.answer(), "dave")?.won == false)
  }

  @Test("bob's device is gone for good while dave rings") func bobIsGone() {
    var bench = Self.waiting(limits: .with { $0.resumeGraceAnswered = .seconds(5) })
    bench.owner.say(.sessionClosed(graceful: false), device: "b1")
    bench.pass(.seconds(6))
    #expect(bench.owner.ends.map(\.by?.device) == ["b1"])
    #expect(bench.stops("dave").map(\.reason) == [.cancelled])
  }

  // MARK: Rules

  @Test("dave's rules hold, and a user to whom it goes on has it from him") func rules() {
    var bench = Self.placed()
    bench.attach("carol")
    bench.hold()
    bench.asBob(.answer())
    bench.release()
    bench.hear("dave", VisitAnswer(diverted: .always, to: ["carol", "bob"]))
    #expect(bench.invites("carol").map(\.divertedBy) == ["dave"])
    #expect(bench.say(.answer(description: "offer"), "carol")?.won == true)
    bench.asBob(.hangUp)
    #expect(bench.entries.map(\.user.user) == ["bob", "carol"])
    let carols = bench.entries.last?.entry
    #expect(carols?.divertedBy == "dave" && carols?.reason == .hungUp)
  }

  @Test("dave is a group in turn: whoever answers has it from the group") func group() {
    var bench = Self.placed()
    bench.guests.set(
      CallGroup(users: ["carol", "erin"], order: .inTurn, turnSeconds: 10), of: "dave")
    for user in ["carol", "erin"] { bench.attach(user) }
    bench.asBob(.answer())
    bench.say(.decline(.everywhere), "carol")
    #expect(bench.invites("erin").map(\.divertedBy) == ["dave"])
    #expect(bench.say(.answer(description: "offer"), "erin")?.won == true)
    bench.asBob(.hangUp)
    #expect(bench.entries.map(\.user.user) == ["bob", "erin", "carol"])
    #expect(bench.entries.map(\.entry.divertedBy) == ["", "dave", "dave"])
  }

  @Test("bob's rules hold: who answers for him waits for dave") func bobsRules() {
    var bench = Self.bench(with: "carol", "dave")
    bench.owner.set(UserRules(always: .init(users: ["dave", "carol"])), of: "bob")
    bench.asServer(Self.request())
    #expect(bench.invites("carol").map(\.caller) == [Self.nobody])
    #expect(bench.invites("dave").isEmpty, "he is the other side")
    bench.say(.answer(), "carol")
    #expect(bench.invites("dave").map(\.caller.user) == ["carol"])
    bench.say(.answer(description: "offer"), "dave")
    #expect(bench.deliveries("carol").contains { $0.event.kind == "moved" })
  }
}
