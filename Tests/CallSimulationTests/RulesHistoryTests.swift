import CallCore
import CallJudge
import CallSimulation
import CallWire
import Testing

/// Hand-made histories of users' rules, and of calls to users who have some (R27).
extension HistoryCheckerTests {
  private func forward(_ users: String...) -> UserRules.Forward { UserRules.Forward(users: users) }

  /// Bob has rules: the store has them, and has confirmed them to his device.
  private func decide(_ bench: inout Bench, _ rules: UserRules, of who: Who? = nil, id: UInt64 = 77)
  {
    let who = who ?? bob1
    var stored = rules
    stored.changedAt = Timestamp(microseconds: 7000)
    bench.now = -20
    bench.say(who, id, .rules(.write(rules)))
    bench.note(.decided(user: who.user, stored))
    bench.hear(who, .reply(id: id, .rules(stored)))
    bench.now = 0
  }

  private func placed(legs: Who...) -> JournalEntry.Change {
    guard case .placed(var facts) = placed else { return placed }
    facts.legs = legs.map(party)
    return .placed(facts)
  }

  private func sentOn(
    _ reason: DivertReason, from user: String = "bob", to users: String..., at time: Int64 = 0
  ) -> JournalEntry.Change {
    .diverted(
      DivertedFacts(from: user, to: users, reason: reason, at: at(time), deadline: at(20)))
  }

  private func judgeRuled(_ rules: UserRules, _ body: (inout Bench) -> Void) -> HistoryRule? {
    judge {
      decide(&$0, rules)
      body(&$0)
    }
  }

  @Test("who is told that rules are stored is told the truth") func rulesTold() {
    #expect(judgeRuled(UserRules(always: forward("carol"))) { _ in } == nil)
    let unstored = judge {
      $0.say(bob1, 1, .rules(.write(UserRules(always: forward("carol")))))
      $0.hear(bob1, .reply(id: 1, .rules(UserRules(always: forward("carol")))))
    }
    #expect(unstored == .rulesKept)
    let others = judge {
      $0.say(bob1, 1, .rules(.write(UserRules(always: forward("carol")))))
      $0.note(.decided(user: "bob", UserRules(always: forward("carol"))))
      $0.hear(bob1, .reply(id: 1, .rules(UserRules(always: forward("dave")))))
    }
    #expect(others == .rulesKept)
    let lost = judge {
      $0.note(.decided(user: "bob", UserRules(onBusy: forward("dave"))))
      $0.say(bob1, 1, .rules(.write(UserRules(always: forward("carol")))))
      $0.hear(bob1, .reply(id: 1, .rules(UserRules(always: forward("carol")))))
    }
    #expect(lost == .rulesKept)
    let server = judge {
      let errand = AppErrand.rules(UserRules(always: forward("carol")), of: "bob")
      $0.note(.server(.asked(errand)))
      $0.note(.server(.answered(errand, .rules(UserRules(always: forward("carol"))))))
    }
    #expect(server == .rulesKept)
  }

  @Test(
    "a call whose callee has all calls sent on rings nobody there, and goes where the rules say")
  func always() {
    let rules = UserRules(always: forward("carol", "alice", "dave"))
    #expect(
      judgeRuled(rules) { $0.journal(call, placed(), sentOn(.always, to: "carol", "dave")) } == nil)
    #expect(judgeRuled(rules) { $0.journal(call, placed(legs: bob1)) } == .rulesFollowed)
    #expect(
      judgeRuled(rules) { $0.journal(call, placed(), sentOn(.always, to: "carol")) }
        == .rulesFollowed)
    #expect(
      judgeRuled(rules) { $0.journal(call, placed(), ended(.unreachable)) } == .rulesFollowed)
    #expect(
      judge { $0.journal(call, placed(), sentOn(.always, to: "carol")) } == .rulesFollowed,
      "nobody has set rules")
    // The hook overrules them.
    let hooked = judgeRuled(rules) {
      $0.checker.hasHook = true
      $0.journal(call, placed(legs: bob1))
    }
    #expect(hooked == nil)
  }

  @Test("rules of which nobody knows whether they hold are not judged") func unknownRules() {
    let rule = judge {
      $0.note(.decided(user: "bob", UserRules(always: forward("carol"))))
      $0.journal(call, placed(legs: bob1))
    }
    #expect(rule == nil)
  }

  @Test(
    "a call that nobody answers, that reaches nobody or a busy user ends only where no rule sends it on"
  )
  func endsByRules() {
    #expect(
      judgeRuled(UserRules(onNoAnswer: forward("carol"))) {
        $0.now = 10
        $0.journal(call, placed(legs: bob1), ended(.unanswered, at: 10))
      } == .rulesFollowed)
    #expect(
      judgeRuled(UserRules(onUnreachable: forward("carol"))) {
        $0.journal(call, placed(), ended(.unreachable))
      } == .rulesFollowed)
    #expect(
      judgeRuled(UserRules(onUnreachable: forward("alice"))) {
        $0.journal(call, placed(), ended(.unreachable))
      } == nil)
    #expect(
      judgeRuled(UserRules(onBusy: forward("carol"))) {
        $0.say(bob1, 3, .call(CallAddress(call: call), .busy))
        $0.journal(call, placed(legs: bob1), ended(.busy, by: bob1))
      } == .rulesFollowed)
    #expect(
      judgeRuled(UserRules(onNoAnswer: forward("carol"), noAnswerSeconds: 5)) {
        $0.journal(call, placed(legs: bob1), sentOn(.noAnswer, to: "carol", at: 3))
      } == .rulesFollowed)
    #expect(
      judgeRuled(UserRules(onNoAnswer: forward("carol"), noAnswerSeconds: 5)) {
        $0.journal(call, placed(legs: bob1), sentOn(.noAnswer, to: "carol", at: 5))
      } == nil)
  }

  @Test("a call rings for as long as its caller chose")
  func ringsAsChosen() {
    func judgeRing(_ chosen: UInt32...) -> HistoryRule? {
      judge {
        for (number, seconds) in chosen.enumerated() {
          let request = PlaceRequest(call: call, ringTimeoutSeconds: seconds)
          $0.say(alice, UInt64(number), .place(CallAddress(callee: "bob", call: call), request))
        }
        guard case .placed(var facts) = placed else { return }
        facts.deadline = facts.placedAt + .seconds(20)
        $0.journal(call, .placed(facts))
      }
    }
    #expect(judgeRing(20) == nil)
    #expect(judgeRing(25) == .chosenTimeHolds)
    #expect(judgeRing(25, 20) == nil, "either may have been placed")
    #expect(judgeRing(0) == nil, "its caller chose nothing")
  }

  @Test("a time that a caller chose holds wherever the call goes on")
  func chosenTime() {
    func judgeRing(_ seconds: Int64, _ forwarded: ForwardedRing = .caller) -> HistoryRule? {
      judge {
        $0.checker.forwardedRing = forwarded
        $0.checker.ringTimeout = .seconds(8)
        guard case .placed(var facts) = placed else { return }
        facts.deadline = at(seconds)
        $0.journal(call, .placed(facts), sentOn(.hook, to: "carol"))
      }
    }
    #expect(judgeRing(20) == nil)
    #expect(judgeRing(19) == .chosenTimeHolds)
    #expect(judgeRing(19, .anew) == nil)
    #expect(judgeRing(8) == nil, "its caller chose none")
  }

  @Test("who is not to be disturbed is not rung, but for some callers") func silence() {
    let silent = UserRules(doNotDisturb: .init())
    #expect(judgeRuled(silent) { $0.journal(call, placed(legs: bob1)) } == .silenceKept)
    #expect(judgeRuled(silent) { $0.journal(call, placed(), ended(.busy)) } == nil)
    #expect(judgeRuled(silent) { $0.journal(call, placed(), ended(.unreachable)) } == .silenceKept)
    let but = UserRules(doNotDisturb: .init(except: ["alice"]))
    #expect(judgeRuled(but) { $0.journal(call, placed(legs: bob1)) } == nil)
    let elsewhere = judge {
      decide(&$0, silent, of: Who("carol", "c1"))
      $0.journal(call, placed(), sentOn(.hook, to: "carol"), .legJoined(party(Who("carol", "c1"))))
    }
    #expect(elsewhere == .silenceKept)
  }

  @Test("the first devices ring first") func stages() {
    let rules = UserRules(firstDevices: ["b1"], firstSeconds: 5)
    #expect(judgeRuled(rules) { $0.journal(call, placed(legs: bob1, bob2)) } == .firstRingFirst)
    #expect(judgeRuled(rules) { $0.journal(call, placed(legs: bob2)) } == nil)
    #expect(
      judgeRuled(rules) { $0.journal(call, placed(legs: bob1), .legJoined(party(bob2))) } == nil,
      "it was not there when the call was placed")
  }

  @Test("a call goes on five times") func sixthTime() {
    func judgeHops(_ count: Int) -> HistoryRule? {
      judge {
        $0.journal(call, placed())
        for number in 0..<count {
          let from = number == 0 ? "bob" : "v\(number)"
          $0.journal(call, sentOn(.hook, from: from, to: "v\(number + 1)"))
        }
      }
    }
    #expect(judgeHops(5) == nil)
    #expect(judgeHops(6) == .rulesFollowed)
  }
}
