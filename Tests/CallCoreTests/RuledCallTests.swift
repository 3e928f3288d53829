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

  @Test("always: bob's devices do not ring") func always() {
    var bench = bench(UserRules(always: to("carol")))
    bench.place()
    #expect(bench.invitesOfBob("b1").isEmpty)
    #expect(bench.invites("carol", "1").map(\.divertedBy) == ["bob"])
    #expect(bench.diversions.map(\.reason) == [.always])
  }

  @Test("the app's hook knows better than the user's rules") func hookFirst() {
    var bench = bench(UserRules(always: to("dave")))
    bench.place(to: "carol")
    #expect(bench.diversions.map(\.to) == [["carol"]])
    #expect(bench.diversions.map(\.reason) == [.hook])
  }

  @Test("on no answer: after the time that the rule gives, bob's devices stop as missed")
  func noAnswer() {
    var bench = bench(UserRules(onNoAnswer: to("carol"), noAnswerSeconds: 7))
    bench.place()
    #expect(bench.invitesOfBob("b1").count == 1)
    bench.pass(.milliseconds(6900))
    #expect(bench.diversions.isEmpty)
    bench.pass(.milliseconds(100))
    #expect(bench.diversions.map(\.reason) == [.noAnswer])
    #expect(bench.stopsOfBob("b1") == [Stop(reason: .unanswered, missed: true)])
    #expect(bench.invites("carol", "1").count == 1)
    #expect(bench.say(.answer(description: ""), "carol", "1")?.won == true)
    bench.owner.attach("b3")
    bench.pump()
    #expect(bench.invitesOfBob("b3").isEmpty)
  }

  @Test("on no answer: a rule that waits as long as a call rings holds before the end")
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
    bench.owner.say(.call(Bench.callID, .answer(description: "")), device: "b1")
    bench.pass(.seconds(10))
    #expect(bench.diversions.isEmpty)
  }

  @Test("R10 a new owner counts from the placing") func noAnswerTakenOver() {
    var bench = bench(UserRules(onNoAnswer: to("carol"), noAnswerSeconds: 7))
    bench.place()
    bench.pass(.seconds(5))
    var next = DivertingBench(owner: bench.owner.takenOver(), guests: bench.guests)
    next.owner.run { machine, _, _ in
      machine.restore(rules: [
        UserKey(app: Bench.app, user: "bob"):
          UserRules(onNoAnswer: to("carol"), noAnswerSeconds: 7)
      ])
    }
    next.owner = next.owner.begun()
    next.pump()
    next.pass(.milliseconds(1900))
    #expect(next.diversions.isEmpty)
    next.pass(.milliseconds(100))
    #expect(next.diversions.map(\.reason) == [.noAnswer])
  }

  @Test("on busy: a device that is busy, and a user in a call") func busy() {
    var bench = bench(UserRules(onBusy: to("carol")), devices: ["b1"])
    bench.place()
    bench.owner.say(.call(Bench.callID, .busy), device: "b1")
    bench.pump()
    #expect(bench.diversions.map(\.reason) == [.busy])
    #expect(bench.invites("carol", "1").count == 1)
  }

  @Test("on busy: all devices of bob are in too many calls") func allBusy() {
    var bench = bench(UserRules(onBusy: to("carol")), devices: ["b1"])
    bench.owner.place(Self.second)
    bench.owner.say(.call(Self.second, .answer(description: "")), device: "b1")
    var request = PlaceRequest(call: Bench.callID)
    request.busyWhileInCall = true
    bench.owner.say(.place(request), user: "erin", device: "e1")
    bench.pump()
    #expect(bench.diversions.map(\.reason) == [.busy])
  }

  @Test("on unreachable: bob has no device, or loses the last one") func unreachable() {
    var none = bench(UserRules(onUnreachable: to("carol")), devices: [])
    none.place()
    #expect(none.diversions.map(\.reason) == [.unreachable])
    #expect(none.invites("carol", "1").count == 1)
    var lost = bench(UserRules(onUnreachable: to("carol")), devices: ["b1"])
    lost.place()
    lost.owner.say(.sessionClosed(graceful: true), device: "b1")
    lost.pump()
    #expect(lost.diversions.map(\.reason) == [.unreachable])
  }

  @Test("a decline is the user's word: it is forwarded nowhere") func declined() {
    var bench = bench(
      UserRules(onBusy: to("carol"), onNoAnswer: to("carol"), onUnreachable: to("carol")))
    bench.place()
    bench.owner.say(.call(Bench.callID, .decline(.everywhere)), device: "b1")
    bench.pump()
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

  @Test("do not disturb: busy for the caller, missed for bob; nothing rings") func silence() {
    var bench = bench(UserRules(doNotDisturb: .init()))
    #expect(bench.place()?.state?.reason == .busy)
    #expect(bench.invitesOfBob("b1").isEmpty)
    #expect(bench.owner.ends.map(\.missed) == [true])
  }

  @Test("do not disturb: the rule for busy applies") func silenceForwarded() {
    var bench = bench(UserRules(onBusy: to("carol"), doNotDisturb: .init()))
    bench.place()
    #expect(bench.diversions.map(\.reason) == [.doNotDisturb])
    #expect(bench.invites("carol", "1").count == 1)
  }

  @Test("do not disturb: but for these users, and until that time") func exceptions() {
    var except = bench(UserRules(doNotDisturb: .init(except: ["alice"])))
    except.place()
    #expect(except.invitesOfBob("b1").count == 1)
    let now = Bench().now
    var over = bench(UserRules(doNotDisturb: .init(until: now)))
    over.place()
    #expect(over.invitesOfBob("b1").count == 1)
    var lasting = bench(UserRules(doNotDisturb: .init(until: now + .seconds(1))))
    #expect(lasting.place()?.state?.reason == .busy)
  }

  @Test("do not disturb holds where all calls go on, and there is nobody to whom this one can")
  func silenceAndAlways() {
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

  @Test("each user's own rules apply: bob to carol, carol to dave") func chain() {
    var bench = bench(UserRules(always: to("carol")))
    bench.guests.set(UserRules(always: to("dave")), of: "carol")
    bench.attach("dave", "1")
    bench.place()
    #expect(bench.invites("carol", "1").isEmpty)
    #expect(bench.invites("dave", "1").map(\.divertedBy) == ["carol"])
  }

  @Test("carol takes no calls at present: nobody is left") func silentGuest() {
    var bench = bench(UserRules(always: to("carol")))
    bench.guests.set(UserRules(doNotDisturb: .init()), of: "carol")
    bench.place()
    #expect(bench.invites("carol", "1").isEmpty)
    #expect(bench.owner.ends.map(\.reason) == [.busy])
  }
}

extension Bench {
  /// The user's rules, as the store has them.
  mutating func set(_ rules: UserRules, of user: String) {
    say(.rules(.write(rules)), user: user, device: "setter", callee: user)
    for case .storeRules(_, _, let token) in take() {
      run { $0.registrationStored(token: token, ok: true, now: $1, into: &$2) }
    }
  }
}

extension DivertingBench {
  func ofBob(_ device: String) -> [Delivery] {
    let session = Bench.session(device)
    return (effects + owner.effects).compactMap {
      if case .deliver(session, let delivery) = $0 { delivery } else { nil }
    }
  }

  func invitesOfBob(_ device: String) -> [Invite] {
    ofBob(device).compactMap { if case .invite(let invite) = $0.event { invite } else { nil } }
  }

  func stopsOfBob(_ device: String) -> [Stop] {
    ofBob(device).compactMap { if case .stop(let stop) = $0.event { stop } else { nil } }
  }
}
