import CallCore
import Testing

/// The effect of users' rules on calls to them.
@Suite struct RuledCallTests {
  private static let second = CallID(high: 0, low: 77)

  private func to(_ users: String...) -> UserRules.Forward { UserRules.Forward(users: users) }

  /// Bob has rules and two devices, carol one.
  private func bench(_ rules: UserRules, devices: [String] = ["b1", "b2"]) -> DivertingBench {
    var bench = DivertingBench()
    bench.owner.set(rules, of: "bob")
    for device in devices { bench.owner.attach(device) }
    bench.attach("carol", "1")
    _ = bench.owner.take()
    return bench
  }

  // MARK: Forwarding

  /// The course of alice's call to bob, whose devices are b1 and b2 where he has any.
  enum Story { case placed, busy, noDevice, left }

  @Test(
    "the rule that fits sends the call on to carol",
    arguments: [
      (DivertReason.always, Story.placed), (.busy, .busy), (.unreachable, .noDevice),
      (.unreachable, .left), (.doNotDisturb, .placed),
    ])
  func goesOn(reason: DivertReason, story: Story) {
    let rules: UserRules =
      switch reason {
      case .always: UserRules(always: to("carol"))
      case .busy: UserRules(onBusy: to("carol"))
      case .doNotDisturb: UserRules(onBusy: to("carol"), doNotDisturb: .init())
      default: UserRules(onUnreachable: to("carol"))
      }
    var bench = bench(rules, devices: story == .noDevice ? [] : ["b1"])
    bench.place()
    if story == .busy { bench.asBob(.busy) }
    if story == .left { bench.owner.close("b1", graceful: true) }
    bench.pump()
    #expect(bench.diversions.map(\.reason) == [reason])
    #expect(bench.invites("carol", "1").map(\.divertedBy) == ["bob"])
    if story == .placed { #expect(bench.invitesOfBob("b1").isEmpty) }
  }

  @Test("the app's hook knows better than the user's rules") func hookFirst() {
    var bench = bench(UserRules(always: to("dave")))
    bench.place(to: "carol")
    #expect(bench.diversions.map(\.to) == [["carol"]])
    #expect(bench.diversions.map(\.reason) == [.hook])
  }

  @Test("on no answer: after the rule's time bob's devices stop as missed") func noAnswer() {
    var bench = bench(UserRules(onNoAnswer: to("carol"), noAnswerSeconds: 7))
    bench.place()
    #expect(bench.invitesOfBob("b1").count == 1)
    bench.countsOne(after: .seconds(7)) { $0.diversions.count }
    #expect(bench.diversions.map(\.reason) == [.noAnswer])
    #expect(bench.stopsOfBob("b1") == [Stop(reason: .unanswered, missed: true)])
    #expect(bench.invites("carol", "1").count == 1)
    #expect(bench.say(.answer(description: ""), "carol", "1")?.won == true)
    bench.owner.attach("b3")
    bench.pump()
    #expect(bench.invitesOfBob("b3").isEmpty)
  }

  @Test("on no answer: a rule as long as the ring holds before the end")
  func noAnswerAtTheDeadline() {
    var bench = bench(UserRules(onNoAnswer: to("carol"), noAnswerSeconds: 120))
    bench.guests.set(UserRules(onNoAnswer: to("dave"), noAnswerSeconds: 120), of: "carol")
    bench.attach("dave", "1")
    bench.place()
    for hop in 1...2 {
      #expect(bench.diversions.count == hop - 1)
      bench.pass(.seconds(30))
      #expect(bench.owner.ends.isEmpty)
    }
    #expect(bench.diversions.map(\.to) == [["carol"], ["dave"]])
    #expect(bench.stops("carol", "1") == [Stop(reason: .unanswered, missed: true)])
    bench.pass(.seconds(30))
    #expect(bench.owner.ends.map(\.reason) == [.unanswered])
  }

  @Test("R1 bob answers in time: the call goes nowhere") func answered() {
    var bench = bench(UserRules(onNoAnswer: to("carol"), noAnswerSeconds: 7))
    bench.place()
    bench.asBob(.answer(description: ""))
    bench.pass(.seconds(10))
    #expect(bench.diversions.isEmpty)
  }

  @Test("R10 a new owner counts from the placing") func noAnswerTakenOver() {
    let rules = UserRules(onNoAnswer: to("carol"), noAnswerSeconds: 7)
    var bench = bench(rules)
    bench.place()
    bench.pass(.seconds(5))
    var owner = bench.owner.takenOver()
    owner.restore(rules, of: "bob")
    var next = DivertingBench(owner: owner.begun(), guests: bench.guests)
    next.pump()
    next.countsOne(after: .seconds(2)) { $0.diversions.count }
    #expect(next.diversions.map(\.reason) == [.noAnswer])
  }

  @Test("on busy: all devices of bob are in too many calls") func allBusy() {
    var bench = bench(UserRules(onBusy: to("carol")), devices: ["b1"])
    bench.owner.place(Self.second)
    bench.owner.say(.call(Self.second, .answer(description: "")), device: "b1")
    bench.owner.say(
      .place(PlaceRequest(call: Bench.callID, busyWhileInCall: true)), user: "erin", device: "e1")
    bench.pump()
    #expect(bench.diversions.map(\.reason) == [.busy])
  }

  @Test("a decline is the user's word: it is forwarded nowhere") func declined() {
    var bench = bench(
      UserRules(onBusy: to("carol"), onNoAnswer: to("carol"), onUnreachable: to("carol")))
    bench.place()
    bench.asBob(.decline(.everywhere))
    #expect(bench.diversions.isEmpty)
    #expect(bench.owner.ends.map(\.reason) == [.declined])
  }

  @Test("a rule that names only the caller is none") func toTheCaller() {
    var bench = bench(UserRules(always: to("alice")))
    bench.place()
    #expect(bench.diversions.isEmpty)
    #expect(bench.invitesOfBob("b1").count == 1, "bob is called as ever")
  }

  // MARK: Do not disturb

  @Test("do not disturb: busy, but for these users, and until that time") func exceptions() {
    let now = Bench().now
    for (silence, rings) in [
      (UserRules.DoNotDisturb(), false), (.init(except: ["alice"]), true),
      (.init(until: now), true), (.init(until: now + .seconds(1)), false),
    ] {
      var bench = bench(UserRules(doNotDisturb: silence))
      #expect(bench.place()?.state?.reason == (rings ? nil : .busy))
      #expect(bench.invitesOfBob("b1").count == (rings ? 1 : 0))
      #expect(bench.owner.ends.map(\.missed) == (rings ? [] : [true]))
    }
  }

  @Test("do not disturb holds where a call can go on to nobody") func silenceAndAlways() {
    var bench = bench(UserRules(always: to("alice"), doNotDisturb: .init()))
    #expect(bench.place()?.state?.reason == .busy)
    #expect(bench.invitesOfBob("b1").isEmpty)
    var sentOn = self.bench(UserRules(always: to("carol"), doNotDisturb: .init()))
    sentOn.guests.set(UserRules(always: to("bob", "alice"), doNotDisturb: .init()), of: "carol")
    sentOn.place()
    #expect(sentOn.diversions.map(\.reason) == [.always])
    #expect(sentOn.invites("carol", "1").isEmpty)
    #expect(sentOn.owner.ends.map(\.reason) == [.busy])
  }

  // MARK: Chains of rules

  @Test("each user's own rules apply: bob to carol, carol to dave or to nobody") func chain() {
    for isSilent in [false, true] {
      var bench = bench(UserRules(always: to("carol")))
      let carols = isSilent ? UserRules(doNotDisturb: .init()) : UserRules(always: to("dave"))
      bench.guests.set(carols, of: "carol")
      bench.attach("dave", "1")
      bench.place()
      #expect(bench.invites("carol", "1").isEmpty)
      #expect(bench.invites("dave", "1").map(\.divertedBy) == (isSilent ? [] : ["carol"]))
      #expect(bench.owner.ends.map(\.reason) == (isSilent ? [.busy] : []))
    }
  }
}

extension Bench {
  /// A new owner reads the user's rules from the store.
  mutating func restore(_ rules: UserRules, of user: String) {
    run { machine, _, _ in machine.restore(rules: [UserKey(app: Self.app, user: user): rules]) }
  }

  /// The user's rules, as the store has them.
  mutating func set(_ rules: UserRules, of user: String) {
    say(.rules(.write(rules)), user: user, device: "setter", callee: user)
    for case .storeRules(_, _, let token) in take() {
      run { $0.registrationStored(token: token, ok: true, now: $1, into: &$2) }
    }
  }
}

extension DivertingBench {
  func invitesOfBob(_ device: String) -> [Invite] {
    events(to: Bench.session(device)).compactMap {
      if case .invite(let invite) = $0 { invite } else { nil }
    }
  }

  /// Without retransmissions.
  func stopsOfBob(_ device: String) -> [Stop] {
    events(to: Bench.session(device)).compactMap {
      if case .stop(let stop) = $0 { stop } else { nil }
    }
  }
}
