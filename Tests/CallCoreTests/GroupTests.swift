import CallCore
import Testing

/// Calls to a group: one of its members answers.
@Suite struct GroupTests {
  /// Bob is a group, and its members have a device each.
  private func bench(
    _ order: CallGroup.Order, _ members: [String] = ["carol", "dave", "erin"],
    attached: [String]? = nil, subscriptions: Subscriptions = []
  ) -> DivertingBench {
    var bench = DivertingBench()
    bench.owner.set(CallGroup(users: members, order: order, turnSeconds: 10), of: "bob")
    for member in attached ?? members { bench.attach(member) }
    bench.keep(subscriptions)
    return bench
  }

  /// As `bench`, and the group is called.
  private func ringing(
    _ order: CallGroup.Order, attached: [String]? = nil, subscriptions: Subscriptions = []
  ) -> DivertingBench {
    var bench = bench(order, attached: attached, subscriptions: subscriptions)
    bench.place()
    return bench
  }

  private func rung(_ bench: DivertingBench) -> [String] {
    ["carol", "dave", "erin"].filter { !bench.invites($0).isEmpty }
  }

  // MARK: Together

  @Test("R25 all members ring, one answers, the others learn who") func together() {
    var bench = ringing(.together)
    #expect(rung(bench) == ["carol", "dave", "erin"])
    #expect(bench.diversions.map(\.reason) == [.group])
    #expect(bench.invites("dave").map(\.divertedBy) == ["bob"])
    #expect(bench.say(.answer(), "dave")?.won == true)
    let dave = Party(user: "dave", device: "1", deviceName: "dave's 1")
    for other in ["carol", "erin"] {
      #expect(bench.stops(other) == [Stop(reason: .answeredElsewhere, by: dave)])
    }
  }

  @Test("a hundred members ring, and each device has a place") func many() {
    let members = (1...100).map { "m\($0)" }
    var bench = bench(.together, members)
    for member in members { bench.attach(member, "2") }
    bench.place()
    #expect(members.allSatisfy { bench.invites($0).count == 1 })
    #expect(members.allSatisfy { bench.invites($0, "2").count == 1 })
    let asked = bench.asked.count
    bench.pass(.seconds(10))
    #expect(bench.asked.count <= asked + 300, "no more than 20 questions a second, and a rest")
    #expect(bench.say(.answer(), "m77", "2")?.won == true)
  }

  @Test("R6 members who decline leave the call to the others; the last one ends it") func declined()
  {
    var bench = ringing(.together)
    for member in ["carol", "dave"] { bench.say(.decline(.everywhere), member) }
    #expect(bench.owner.ends.isEmpty)
    bench.say(.decline(.everywhere), "erin")
    #expect(bench.owner.ends.map(\.reason) == [.declined])
  }

  @Test("members in a call do not ring; their rules for forwarding do not hold") func members() {
    var bench = bench(.together)
    bench.guests.set(
      UserRules(always: .init(users: ["frank"]), onNoAnswer: .init(users: ["frank"])), of: "carol")
    bench.guests.set(UserRules(doNotDisturb: .init()), of: "dave")
    let call = CallID(high: 3, low: 3)
    bench.guests.say(.place(PlaceRequest(call: call)), user: "zoe", device: "z", callee: "erin")
    bench.guests.say(
      .call(call, .answer()), user: "erin", device: "1", callee: "erin",
      session: DivertingBench.session("erin"))
    bench.place()
    #expect(rung(bench) == ["carol"])
    #expect(bench.diversions.count == 1)
  }

  // MARK: One after the other

  @Test("R25 in turn: each rings for its time, and the last one until the end") func inTurn() {
    var bench = ringing(.inTurn)
    #expect(rung(bench) == ["carol"])
    bench.pass(.milliseconds(9900))
    #expect(rung(bench) == ["carol"])
    bench.pass(.milliseconds(100))
    #expect(rung(bench) == ["carol", "dave"])
    #expect(
      bench.stops("carol") == [Stop(reason: .unanswered)],
      "nobody has missed it while others may answer")
    #expect(bench.invites("dave").map(\.divertedBy) == ["bob"], "the group, not who rang before")
    bench.pass(.seconds(10))
    #expect(rung(bench) == ["carol", "dave", "erin"])
    let late = bench.say(.answer(), "carol")
    #expect(late?.won == false && late?.state?.reason == .unanswered)
    bench.pass(.seconds(10))
    #expect(bench.owner.ends.map(\.reason) == [.unanswered])
    #expect(bench.owner.ends.map(\.missed) == [true])
    #expect(bench.stops("erin") == [Stop(reason: .unanswered, missed: true)])
  }

  @Test("R19 in turn: who is not there has no turn; the last one may be the only one")
  func absent() {
    let bench = ringing(.inTurn, attached: ["erin"])
    #expect(rung(bench) == ["erin"])
    #expect(bench.owner.ends.isEmpty)
    let nobody = ringing(.inTurn, attached: [])
    #expect(nobody.owner.ends.map(\.reason) == [.unreachable])
    #expect(nobody.diversions.map(\.from) == ["bob", "carol", "dave"])
  }

  @Test(
    "R6 in turn: a decline and a busy device give the turn on at once", arguments: [true, false])
  func refused(isDecline: Bool) {
    var bench = ringing(.inTurn)
    let verb: CallVerb = isDecline ? .decline(.everywhere) : .busy
    let reply = bench.say(verb, "carol")
    #expect(reply?.error == nil && rung(bench) == ["carol", "dave"])
    #expect(bench.diversions.last?.reason == (isDecline ? .declined : .ringSlotOver))
    #expect(bench.say(.answer(), "dave")?.won == true)
  }

  @Test("R6 in turn: a decline gives the turn on although others ring, too")
  func declinedBesideOthers() {
    var bench = DivertingBench()
    bench.guests.set(CallGroup(users: ["dave", "erin"], order: .inTurn), of: "carol")
    for user in ["dave", "erin", "frank"] { bench.attach(user) }
    bench.place(to: "carol", "frank")
    #expect(rung(bench) == ["dave"] && bench.invites("frank").count == 1)
    bench.say(.decline(.everywhere), "dave")
    #expect(rung(bench) == ["dave", "erin"])
  }

  @Test("R25 in turn: a member who rings for another reason has no turn") func memberOtherwise() {
    var bench = DivertingBench()
    bench.guests.set(
      CallGroup(users: ["dave", "erin"], order: .inTurn, turnSeconds: 10), of: "carol")
    bench.guests.set(UserRules(always: .init(users: ["erin"])), of: "frank")
    for user in ["dave", "erin"] { bench.attach(user) }
    bench.place(to: "carol", "frank")
    #expect(rung(bench) == ["dave", "erin"])
    #expect(bench.invites("dave").map(\.divertedBy) == ["carol"])
    #expect(bench.invites("erin").map(\.divertedBy) == ["frank"])
    bench.pass(.seconds(11))
    #expect(bench.stops("dave").isEmpty && bench.stops("erin").isEmpty)
  }

  @Test("R1 in turn: the answer at the last moment of the turn counts") func lastMoment() {
    var bench = ringing(.inTurn)
    bench.pass(.milliseconds(9999))
    #expect(bench.say(.answer(), "carol")?.won == true)
    bench.pass(.seconds(20))
    #expect(rung(bench) == ["carol"])
  }

  @Test("R10 in turn: a new owner goes on with the turn that it finds") func takenOver() {
    var bench = ringing(.inTurn)
    bench.pass(.seconds(15))
    var next = bench.takenOver()
    next.pass(.milliseconds(100))
    #expect(next.invites("dave").count == 1 && next.invites("erin").isEmpty)
    next.pass(.milliseconds(4800))
    #expect(next.invites("erin").isEmpty)
    next.pass(.milliseconds(100))
    #expect(next.invites("erin").count == 1)
    #expect(next.diversions.map(\.to).last == ["erin"])
  }

  @Test("R25 a member whose turn is over before its shard has said all is waited for no more")
  func leftBeforeAllWasSaid() {
    var bench = bench(.inTurn)
    bench.isConnected = false
    bench.place()
    let device = VisitAnswer.Device(id: "1", name: "x", session: DivertingBench.session("carol"))
    bench.hear("carol", VisitAnswer(devices: [device], isComplete: false))
    bench.pass(.seconds(10))
    #expect(bench.stops("carol").count == 1, "not acknowledged, so carol is asked on")
    // Her shard's time to answer is over in this span. The bench notes faults.
    bench.pass(.seconds(8))
    #expect(bench.owner.shard.nextDeadline > bench.owner.now)
  }

  @Test("in turn: the missed call is told to each member once, and only at its end") func notices()
  {
    var bench = bench(.inTurn, attached: [], subscriptions: .history)
    for member in ["carol", "dave", "erin"] { bench.registerForNotices(member) }
    bench.place()
    bench.pass(.seconds(20))
    #expect(!bench.pushes.contains { $0.purpose == .missedNotice || $0.purpose == .missed })
    bench.pass(.seconds(10))
    #expect(bench.owner.ends.map(\.missed) == [true])
    for member in ["carol", "dave", "erin"] {
      let told = bench.pushes.filter {
        $0.user.user == member && ($0.purpose == .missedNotice || $0.purpose == .missed)
      }
      #expect(told.count == 1, "\(member)")
      let user = UserKey(app: Bench.app, user: member)
      let missed = PlacedCall(DivertingBench.id, placedAt: Bench().now)
      let counted = told.first.flatMap { bench.owner.shard.unreadQuestion(of: $0) }
      #expect(counted == UnreadQuestion(user: user, missed: [missed]))
      let entry = bench.entries.first { $0.user == user }?.entry
      #expect(entry?.isMissed == true && entry?.divertedBy == "bob")
    }
  }

  @Test("in turn: who had a turn has not missed what another member answered") func answeredLater()
  {
    var bench = ringing(.inTurn, subscriptions: .history)
    bench.pass(.seconds(10))
    bench.say(.answer(), "dave")
    bench.say(.hangUp, "dave")
    #expect(bench.entries.map(\.user.user) == ["bob", "alice", "dave", "carol"])
    let carols = bench.entries.last?.entry
    #expect(carols?.isMissed == false && carols?.reason == .unanswered)
    #expect(carols?.answeredBy == "dave" && carols?.answeredAt == nil && carols?.device == nil)
  }

  @Test("together: each member at whom it rang sees who answered, and has missed nothing")
  func answeredByAnother() {
    var bench = ringing(.together, subscriptions: .history)
    bench.pass(.seconds(4))
    bench.say(.decline(.everywhere), "erin")
    bench.pass(.seconds(1))
    bench.say(.answer(), "dave")
    let answered = bench.owner.now
    bench.pass(.seconds(10))
    bench.say(.hangUp, "dave")
    for var bench in [bench, bench.takenOver()] {
      bench.keep(.history)
      #expect(bench.entries.map(\.user.user) == ["bob", "alice", "dave", "carol", "erin"])
      let carols = bench.entries.first { $0.user.user == "carol" }?.entry
      #expect(carols?.divertedBy == "bob" && carols?.answeredBy == "dave")
      #expect(carols?.reason == .answeredElsewhere && carols?.endedAt == answered)
      #expect(carols?.answeredAt == nil && carols?.device == nil && carols?.isMissed == false)
      let erins = bench.entries.last?.entry
      #expect(erins?.reason == .declined && erins?.answeredBy == "dave")
    }
  }

  @Test("the caller is no member of the call, nor is a group in a group") func callerIsMember() {
    var bench = bench(.inTurn, ["alice", "desk", "dave"])
    bench.guests.set(CallGroup(users: ["frank"]), of: "desk")
    bench.attach("frank")
    bench.place()
    #expect(bench.diversions.map(\.to) == [["desk"], ["dave"]])
    #expect(bench.invites("dave").count == 1 && bench.invites("frank").isEmpty)
  }

  @Test("calls that are forwarded to a group ring it", arguments: CallGroup.Order.allCases)
  func forwarded(order: CallGroup.Order) {
    var bench = DivertingBench()
    bench.guests.set(
      CallGroup(users: ["dave", "erin"], order: order, turnSeconds: 10), of: "carol")
    for member in ["dave", "erin"] { bench.attach(member) }
    bench.place(to: "carol")
    #expect(rung(bench) == (order == .together ? ["dave", "erin"] : ["dave"]))
    bench.pass(.seconds(10))
    #expect(rung(bench) == ["dave", "erin"])
  }

  // MARK: Idleness

  @Test("longest idle: who never had a call comes first, then who talked longest ago") func idle() {
    var bench = bench(.longestIdle)
    for (number, expected) in ["carol", "dave", "erin", "carol", "dave"].enumerated() {
      let call = CallID(high: 5, low: UInt64(number))
      bench.owner.say(.place(PlaceRequest(call: call)), user: "zoe", device: "z")
      bench.pump()
      #expect(bench.diversions.last?.to == [expected], "call \(number)")
      bench.sayOf(call, .answer(), expected)
      bench.pass(.seconds(5))
      bench.sayOf(call, .hangUp, expected)
      // The first ones are forgotten meanwhile.
      bench.pass(.seconds(number == 2 ? 600 : 5))
    }
  }

  // MARK: Who makes it

  @Test("the app's server makes it; a device that writes rules leaves it as it is") func rules() {
    var bench = Bench()
    let group = CallGroup(users: ["carol"])
    #expect(bench.server(.group)?.error == .noSuchResource)
    bench.set(group, of: "bob")
    #expect(bench.server(.group) == .app(.group(group)))
    bench.set(UserRules(firstDevices: ["b1"]), of: "bob")
    #expect(bench.server(.group) == .app(.group(group)))
    bench.set(nil as CallGroup?, of: "bob")
    #expect(bench.server(.group)?.error == .noSuchResource)
    let rules = bench.say(.rules(.read), device: "b1", callee: "bob")
    guard case .rules(let kept) = rules else {
      Issue.record("no rules: \(String(describing: rules))")
      return
    }
    #expect(kept.firstDevices == ["b1"])
  }

  @Test(
    "what is no group",
    arguments: [
      CallGroup(users: []), CallGroup(users: ["bob"]), CallGroup(users: ["carol", "carol"]),
      CallGroup(users: [""]), CallGroup(users: ["carol"], turnSeconds: 4),
      CallGroup(users: ["carol"], turnSeconds: 61),
      CallGroup(users: (0...100).map { "u\($0)" }),
    ])
  func invalid(group: CallGroup) {
    var bench = Bench()
    #expect(bench.server(.setGroup(group))?.error == .invalidRules)
  }
}

extension Bench {
  /// As the app's server does.
  mutating func set(_ group: CallGroup?, of user: String) {
    say(.app(.setGroup(group)), user: user, device: "", callee: user)
    for case .storeRules(_, _, let token) in take() {
      run { $0.registrationStored(token: token, ok: true, now: $1, into: &$2) }
    }
  }
}

extension DivertingBench {
  fileprivate mutating func sayOf(_ call: CallID, _ verb: CallVerb, _ user: String) {
    owner.say(.call(call, verb), user: user, device: "1", session: Self.session(user))
    pump()
  }
}
