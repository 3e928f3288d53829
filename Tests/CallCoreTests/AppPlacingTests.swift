import CallCore
import Testing

/// The app's server places a call between bob and dave: bob's devices ring first, and dave's once bob has answered. Bob's
/// shard has the call.
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

  static func bench(limits: CallLimits = CallLimits()) -> Bench {
    var bench = Bench(owner: CallCoreTests.Bench(limits: limits), guests: CallCoreTests.Bench())
    bench.owner.shard.storedParts = .history
    bench.owner.attach("b1", "b2")
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
    bench.attach("dave", "1")
    bench.attach("dave", "2")
    bench.asBob(.answer(description: ""))
    return bench
  }

  // MARK: As it should be

  @Test("bob rings, then dave, and both talk") func bothTalk() throws {
    var bench = Self.bench()
    bench.attach("dave", "1")
    bench.attach("dave", "2")
    let placed = bench.asServer(Self.request())
    #expect(placed?.state.phase == .placed && placed?.caller == Self.nobody)
    for device in ["b1", "b2"] {
      let invite = try #require(bench.owner.allInvites(device, bench).first)
      #expect(invite.caller == Self.nobody && invite.description.isEmpty)
      #expect(invite.pushData == "ticket 7" && invite.headers.count == 1)
    }
    bench.asBob(.alerting)
    bench.pass(.seconds(5))
    #expect(bench.invites("dave", "1").isEmpty, "his turn comes later")
    #expect(bench.asBob(.answer(description: ""))?.won == true)
    let invite = try #require(bench.invites("dave", "1").first)
    #expect(invite.caller == Self.bobsPhone, "who waits")
    #expect(invite.transferredBy == nil && invite.divertedBy.isEmpty && invite.consulted == nil)
    #expect(invite.description.isEmpty && invite.headers.isEmpty && invite.pushData.isEmpty)
    #expect(bench.asked.allSatisfy { $0.1.caller == "bob" }, "dave's rules are about bob")
    bench.say(.alerting, "dave", "2")
    let second = Party(user: "dave", device: "2", deviceName: "dave's 2")
    #expect(bench.toBob() == [.transfer(TransferNews(to: "dave", number: 1, by: second))])
    #expect(bench.asBob(.signal(.candidate, body: "for nobody")) == .done)
    bench.pass(.seconds(25))
    #expect(bench.owner.ends.isEmpty, "nobody has to be connected yet")
    #expect(bench.say(.answer(description: "offer"), "dave", "1")?.won == true)
    #expect(bench.stops("dave", "2") == [Stop(reason: .answeredElsewhere, by: Self.dave)])
    #expect(
      bench.toBob().last == .moved(Moved(to: Self.dave, description: "offer", number: 1)))
    bench.asBob(.signal(.description, body: "answer"))
    #expect(bench.signals("dave", "1").map(\.body) == ["answer"])
    bench.asBob(.connected)
    bench.say(.connected, "dave", "1")
    bench.pass(.seconds(120))
    #expect(bench.asServer(.call(Bench.id))?.caller == Self.dave)
    bench.say(.hangUp, "dave", "1")
    #expect(bench.bobsStops().map(\.reason) == [.hungUp])
    #expect(bench.owner.ends.map(\.by) == [Self.dave])
    #expect(bench.effects.allSatisfy { !$0.isDelivery(to: "") })
  }

  @Test("after dave has answered, both have to be connected in time") func connectGrace() {
    var bench = Self.waiting()
    bench.pass(.seconds(20))
    bench.say(.answer(description: "offer"), "dave", "1")
    let answered = bench.owner.now
    while bench.owner.ends.isEmpty, bench.owner.now < answered + .seconds(300) {
      bench.pass(.seconds(1))
    }
    let grace = bench.owner.ends.first.map { $0.at - answered }
    #expect(grace == CallLimits().connectGrace)
    #expect(bench.owner.ends.map(\.reason) == [.failed])
  }

  @Test("the devices of each ring for the time that was asked for") func ringTimeout() {
    var bench = Self.bench()
    bench.attach("dave", "1")
    var request = PlaceRequest(call: Bench.id, ringTimeoutSeconds: 12)
    request.callerName = "Dave D."
    bench.asServer(.place(AppPlacing(request, caller: "dave")))
    bench.pass(.seconds(10))
    bench.asBob(.answer(description: ""))
    bench.pass(.seconds(11))
    #expect(bench.owner.ends.isEmpty)
    bench.pass(.seconds(1))
    #expect(bench.transferEnds.map(\.reason) == [.unanswered])
  }

  @Test("who has the sides transfers and pulls them as in any call") func goesOn() {
    var bench = Self.waiting()
    bench.attach("carol", "1")
    #expect(bench.asBob(.transfer(TransferRequest(to: "carol")))?.error == .transferring)
    #expect(bench.asBob(.cancelTransfer)?.error == .notParty)
    bench.say(.answer(description: "offer"), "dave", "1")
    #expect(bench.say(.transfer(TransferRequest(to: "carol")), "dave", "1")?.error == nil)
    #expect(bench.say(.answer(description: "offer 2"), "carol", "1")?.won == true)
    #expect(bench.stops("dave", "1").map(\.reason) == [.transferred])
  }

  // MARK: One device of bob's

  /// Whether b2 joins, in all the ways in which it might.
  private func b2IsLeftOut(_ bench: inout Bench) {
    bench.owner.say(.attach(Attach()), device: "b2", session: CallCoreTests.Bench.session("b2", 1))
    bench.pump()
    let again = CallCoreTests.Bench.session("b2", 1)
    let answer = bench.owner.say(
      .call(Bench.id, .answer(description: "")), device: "b2", session: again)
    #expect(answer?.won == false)
    #expect(bench.owner.allInvites("b2", bench).isEmpty)
    let toAgain = bench.effects.contains { if case .deliver(again, _) = $0 { true } else { false } }
    #expect(!toAgain)
  }

  @Test("only the chosen device rings, and the call goes on as ever") func oneDevice() {
    var bench = Self.bench()
    bench.attach("dave", "1")
    bench.asServer(Self.request(device: "b1"))
    #expect(bench.owner.allInvites("b1", bench).count == 1)
    b2IsLeftOut(&bench)
    #expect(bench.asBob(.answer(description: ""))?.won == true)
    #expect(bench.invites("dave", "1").count == 1)
    #expect(bench.say(.answer(description: "offer"), "dave", "1")?.won == true)
    // Then bob's side moves and transfers as in any call.
    let pull = bench.owner.say(
      .call(Bench.id, .pull(PullRequest(from: "b1", description: "offer 2"))), device: "b2",
      session: CallCoreTests.Bench.session("b2", 1))
    #expect(pull?.won == true)
  }

  @Test("the chosen device rings, however many devices the user has") func oneOfMany() {
    var limits = CallLimits()
    limits.devicesPerUser = 2
    var bench = Self.bench(limits: limits)
    // The limit is lower than it was when they attached.
    bench.attach("dave", "1")
    for device in ["b3", "b4", "b5", "b6"] {
      bench.owner.say(
        .attach(Attach(announce: true, attachedAt: bench.owner.now + .seconds(1))),
        device: device)
    }
    bench.asServer(Self.request(device: "b1"))
    #expect(bench.owner.allInvites("b1", bench).count == 1)
  }

  @Test("where the chosen device declines, or cannot be reached, nobody else rings") func noOther()
  {
    var bench = Self.bench()
    var rules = UserRules()
    (rules.onNoAnswer, rules.onBusy) = (.init(users: ["carol"]), .init(users: ["carol"]))
    (rules.onUnreachable, rules.noAnswerSeconds) = (.init(users: ["carol"]), 5)
    bench.owner.say(.rules(.write(rules)), user: "bob", device: "b1", callee: "bob")
    bench.owner.answerStores()
    bench.attach("carol", "1")
    bench.asServer(Self.request(device: "b1"))
    bench.pass(.seconds(6))
    #expect(bench.diversions.isEmpty, "it goes on to nobody")
    bench.asBob(.decline(.here))
    #expect(bench.owner.ends.map(\.reason) == [.declined])
    let gone = CallID(high: 9, low: 9)
    bench.asServer(Self.request(id: gone, device: "b3"))
    #expect(bench.owner.ends.map(\.reason) == [.declined, .unreachable])
    #expect(bench.owner.ends.last?.unreachable == .noDevice)
    #expect(bench.invites("carol", "1").isEmpty)
    #expect(bench.owner.allInvites("b2", bench).isEmpty)
  }

  @Test("the same id for another device is another call") func otherDevice() {
    var bench = Self.bench()
    bench.asServer(Self.request(device: "b1"))
    #expect(bench.asServer(Self.request(device: "b1"))?.state.phase == .placed)
    for device in [nil, "b2"] as [DeviceID?] {
      #expect(bench.owner.server(Self.request(device: device))?.error == .callIDTaken)
    }
  }

  // MARK: Bob does not answer

  @Test(
    "bob does not take it: dave never rings", arguments: [EndReason.declined, .unanswered, .busy])
  func bobDoesNot(reason: EndReason) {
    var bench = Self.placed()
    bench.attach("dave", "1")
    switch reason {
    case .declined: bench.asBob(.decline(.everywhere))
    case .busy:
      for device in ["b1", "b2"] { bench.owner.say(.call(Bench.id, .busy), device: device) }
    default: bench.pass(.seconds(30))
    }
    #expect(bench.owner.ends.map(\.reason) == [reason])
    #expect(bench.invites("dave", "1").isEmpty && bench.diversions.isEmpty)
    #expect(bench.asServer(.call(Bench.id))?.state.reason == reason)
    let entries = bench.owner.shard.historyEntries(of: Bench.id)
    #expect(entries.map(\.user.user) == ["bob"], "it never rang at dave")
    #expect(entries.first?.entry.isMissed == (reason != .declined))
    #expect(entries.first?.entry.peer == "dave" && entries.first?.entry.peerName == "Dave D.")
  }

  // MARK: Dave does not answer

  @Test(
    "dave does not take it: bob's device learns why, and the call is over",
    arguments: [EndReason.declined, .busy, .unanswered, .unreachable])
  func daveDoesNot(reason: EndReason) {
    var bench = Self.placed()
    if reason != .unreachable { bench.attach("dave", "1") }
    bench.asBob(.answer(description: ""))
    switch reason {
    case .declined: bench.say(.decline(.everywhere), "dave", "1")
    case .busy: bench.say(.busy, "dave", "1")
    default: bench.pass(.seconds(30))
    }
    let by = reason == .declined || reason == .busy ? Self.dave : nil
    #expect(
      bench.toBob() == [.transfer(TransferNews(to: "dave", number: 1, reason: reason, by: by))])
    #expect(bench.bobsStops() == [Stop(reason: .hungUp, by: by ?? Self.nobody)])
    #expect(bench.owner.ends.map(\.missed) == [false])
    let missed = reason == .unanswered ? [Stop(reason: reason, missed: true)] : []
    #expect(bench.stops("dave", "1") == missed)
    var entries: [String: HistoryEntry] = [:]
    for (user, entry) in bench.owner.shard.historyEntries(of: Bench.id) {
      entries[user.user] = entry
    }
    #expect(entries.count == 2 && entries["bob"]?.reason == .hungUp)
    #expect(entries["dave"]?.isPlaced == false && entries["dave"]?.peer == "bob")
    #expect(entries["dave"]?.reason == reason && entries["dave"]?.answeredAt == nil)
    #expect(entries["dave"]?.isMissed == (reason != .declined))
    bench.acknowledgeBob()
    #expect(bench.owner.journal.last?.change == .settled)
  }

  @Test("the reason and the stop are retransmitted, in their order") func retransmitted() {
    var bench = Self.waiting()
    bench.pass(.seconds(40))
    let session = CallCoreTests.Bench.session("b1")
    let after = bench.effects.compactMap { effect -> (news: Bool, version: UInt64, UInt64)? in
      guard case .deliver(session, let delivery) = effect else { return nil }
      switch delivery.event {
      case .transfer: return (true, delivery.version, delivery.after)
      case .stop: return (false, delivery.version, delivery.after)
      default: return nil
      }
    }
    #expect(after.count { $0.news } > 1 && after.count { !$0.news } > 1)
    let news = after.first { $0.news }?.version
    #expect(after.allSatisfy { $0.news || $0.2 == news })
  }

  @Test("bob's device hangs up, or the app's server ends it, while dave rings", arguments: [0, 1])
  func endsMeanwhile(byApp: Int) {
    var bench = Self.waiting()
    if byApp == 1 {
      #expect(bench.asServer(.end(Bench.id))?.endedByApp == true)
    } else {
      bench.asBob(.hangUp)
    }
    let by = byApp == 1 ? nil : Self.bobsPhone
    #expect(bench.stops("dave", "1") == [Stop(reason: .cancelled, by: by, missed: true)])
    #expect(bench.toBob().isEmpty, "it knows why")
    #expect(bench.owner.ends.map(\.reason) == [.hungUp])
    #expect(bench.say(.answer(description: ""), "dave", "1")?.won == false)
  }

  @Test("bob's device is gone for good while dave rings") func bobIsGone() {
    var limits = CallLimits()
    limits.resumeGraceAnswered = .seconds(5)
    var bench = Self.waiting(limits: limits)
    bench.owner.say(.sessionClosed(graceful: false), device: "b1")
    bench.pass(.seconds(6))
    #expect(bench.owner.ends.map(\.by?.device) == ["b1"])
    #expect(bench.stops("dave", "1").map(\.reason) == [.cancelled])
  }

  // MARK: Rules

  @Test("dave's rules hold, and a user to whom it goes on has it from him") func rules() {
    var bench = Self.placed()
    bench.attach("carol", "1")
    bench.hold()
    bench.asBob(.answer(description: ""))
    var sentOn = VisitAnswer()
    (sentOn.diverted, sentOn.to) = (.always, ["carol", "bob"])
    bench.release()
    bench.hear("dave", sentOn)
    #expect(bench.invites("carol", "1").map(\.divertedBy) == ["dave"])
    #expect(bench.say(.answer(description: "offer"), "carol", "1")?.won == true)
    bench.asBob(.hangUp)
    let entries = bench.owner.shard.historyEntries(of: Bench.id)
    #expect(entries.map(\.user.user) == ["bob", "carol"])
    #expect(entries.last?.entry.divertedBy == "dave" && entries.last?.entry.reason == .hungUp)
  }

  @Test("dave is a group in turn: whoever answers has it from the group") func group() {
    var bench = Self.placed()
    bench.guests.set(
      CallGroup(users: ["carol", "erin"], order: .inTurn, turnSeconds: 10), of: "dave")
    for user in ["carol", "erin"] { bench.attach(user, "1") }
    bench.asBob(.answer(description: ""))
    bench.say(.decline(.everywhere), "carol", "1")
    #expect(bench.invites("erin", "1").map(\.divertedBy) == ["dave"])
    #expect(bench.say(.answer(description: "offer"), "erin", "1")?.won == true)
    bench.asBob(.hangUp)
    let entries = bench.owner.shard.historyEntries(of: Bench.id)
    #expect(entries.map(\.user.user) == ["bob", "erin", "carol"])
    #expect(entries.map(\.entry.divertedBy) == ["", "dave", "dave"])
  }

  @Test("bob's rules hold: who answers for him waits for dave") func bobsRules() {
    var bench = Self.bench()
    bench.attach("carol", "1")
    bench.attach("dave", "1")
    bench.owner.say(
      .rules(.write(UserRules(always: UserRules.Forward(users: ["dave", "carol"])))), device: "b1")
    bench.owner.answerStores()
    bench.asServer(Self.request())
    #expect(bench.invites("carol", "1").map(\.caller) == [Self.nobody])
    #expect(bench.invites("dave", "1").isEmpty, "he is the other side")
    bench.say(.answer(description: ""), "carol", "1")
    #expect(bench.invites("dave", "1").map(\.caller.user) == ["carol"])
    bench.say(.answer(description: "offer"), "dave", "1")
    let moved = bench.deliveries("carol", "1").contains {
      if case .moved = $0.event { true } else { false }
    }
    #expect(moved)
  }
}

extension Bench {
  /// Invites to a device, also the ones that the other bench has taken.
  fileprivate func allInvites(_ device: String, _ bench: DivertingBench) -> [Invite] {
    let session = Self.session(device)
    return bench.effects.compactMap {
      guard case .deliver(session, let delivery) = $0, case .invite(let invite) = delivery.event
      else { return nil }
      return invite
    }
  }
}

extension Effect {
  fileprivate func isDelivery(to device: String) -> Bool {
    if case .deliver(Bench.session(device), _) = self { true } else { false }
  }
}
