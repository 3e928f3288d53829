import CallClient
import CallCore
import CallJudge
import CallSimulation
import CallWire
import Testing

/// Hand-made histories of answers that come in time, of what their devices receive, and of what the two sides say then.
@Suite struct AnswerHistoryTests {
  static let call = CallID(high: 1, low: 2)

  enum People {
    static let alice = Who("alice", "a1")
    static let bob1 = Who("bob", "b1")
    static let bob2 = Who("bob", "b2")
    static let carol = Who("carol", "c1")
  }

  static let address = CallAddress(callee: "bob", call: call)

  static func party(_ who: Who) -> Party {
    Party(
      user: who.user, device: DeviceID(who.device), name: "\(who.user.uppercased()) of sim")
  }

  static func at(_ seconds: Double) -> Timestamp {
    Timestamp(microseconds: Int64(seconds * 1_000_000))
  }

  /// A history to judge: all devices have attached at second 1, and alice's call rings at second 21.
  struct Bench {
    var checker = HistoryChecker()
    var now = 0.0
    var found: HistoryRule?
    private var version: UInt64 = 0

    init() {
      checker.shardCount = 1
      journal()
      now = 1
      for (link, who) in devices.enumerated() {
        note(.opened(who, link: link, edge: "e\(link)"))
        say(who, 7, .attach(AttachRequest()))
        let info = AttachedInfo(
          session: "s", user: who.user, device: DeviceID(who.device), pingSeconds: 4,
          serverTime: at(now))
        reply(who, 7, .attached(info))
      }
      now = 21
      say(People.alice, 8, .place(address, PlaceRequest(call: call)))
      journal(
        .placed(
          PlacedFacts(
            callee: UserKey(app: "demo", user: "bob"), caller: party(People.alice),
            placedAt: at(21), deadline: at(50), video: false, description: "", headers: [],
            legs: [party(People.bob1), party(People.bob2)], fingerprint: 1)))
      reply(People.alice, 8, .call(CallState(call: call, callee: "bob", phase: .placed)))
      for who in [People.bob1, People.bob2] {
        hear(who, .invite(Invite(caller: party(People.alice), deadline: at(50))))
      }
    }

    private var devices: [Who] {
      [People.alice, People.bob1, People.bob2, People.carol]
    }

    private func link(_ who: Who) -> Int { devices.firstIndex(of: who) ?? 9 }

    mutating func note(_ event: HistoryEvent) {
      let violation = checker.note(event, at: at(now))
      if found == nil { found = violation?.rule }
    }

    mutating func say(_ who: Who, _ id: UInt64, _ command: ClientCommand) {
      note(.sent(who, link: link(who), ClientFrame(id: id, command: command)))
    }

    mutating func reply(_ who: Who, _ id: UInt64, _ reply: ServerReply) {
      note(.received(who, link: link(who), .reply(id: id, reply)))
    }

    mutating func hear(_ who: Who, _ event: Delivery.Event, decided: Double? = nil) {
      version += 1
      note(
        .received(
          who, link: link(who),
          .delivery(
            Delivery(
              call: call, callee: "bob", version: version, at: at(decided ?? now), event: event))))
    }

    mutating func journal(_ changes: JournalEntry.Change...) {
      note(.journal(of: call, changes, at: at(now)))
    }

    mutating func look(at time: Double) {
      now = time
      if found == nil { found = checker.lateness(at: at(time))?.rule }
    }

    mutating func answer(_ who: Who, at time: Double) {
      now = time
      say(who, 9, .call(address, .answer(description: "")))
    }

    /// The shard takes the answer.
    mutating func take(_ who: Who) {
      journal(
        .answered(
          AnsweredFacts(
            by: party(who), at: at(now), description: "", connectDeadline: at(now + 15))))
      hear(People.alice, .answered(Answered(by: party(who))))
    }

    func state(_ phase: CallPhase, _ reason: EndReason? = nil, by: Who? = nil) -> CallState {
      CallState(call: call, callee: "bob", phase: phase, reason: reason, by: by.map(party))
    }

    mutating func tellWon(_ who: Who) {
      reply(who, 9, .answer(won: true, state(.answered, by: who)))
    }

    mutating func end(_ reason: EndReason, by who: Who? = nil, missed: Bool? = nil) {
      journal(
        .ended(
          EndedFacts(
            reason: reason, by: who.map(party), at: at(now), missed: missed ?? reason.isMissedCall))
      )
    }
  }

  func judge(_ body: (inout Bench) -> Void) -> HistoryRule? {
    var bench = Bench()
    body(&bench)
    return bench.found
  }

  // MARK: Answers

  @Test("an answer that wins, and one that loses") func goodAnswers() {
    var bench = Bench()
    bench.answer(bob1, at: 25)
    bench.answer(bob2, at: 25)
    bench.take(bob1)
    bench.tellWon(bob1)
    bench.reply(bob2, 9, .answer(won: false, bench.state(.ended, .answeredElsewhere, by: bob1)))
    bench.look(at: 28)
    #expect(bench.found == nil)
    #expect(bench.checker.judged[.answersCount] == 4)
    #expect(bench.checker.judged[.winnersTold] == 1)
  }

  var bob1: Who { People.bob1 }
  var bob2: Who { People.bob2 }
  var alice: Who { People.alice }
  var carol: Who { People.carol }

  @Test(
    "a call rings on behind an answer, or ends as if there were none", arguments: [true, false])
  func anAnswerIsIgnored(ends: Bool) {
    let rule = judge {
      $0.answer(bob1, at: 46)
      if ends {
        $0.now = 50
        $0.end(.unanswered)
        $0.look(at: 50.5)
      } else {
        $0.look(at: 49)
      }
    }
    #expect(rule == .answersCount)
  }

  @Test("what was wrong on the way excuses it", arguments: [nil, "c1", "e1", "e2"])
  func trouble(_ node: String?) {
    let rule = judge {
      $0.note(.trouble(node: node, from: Self.at(33), until: Self.at(34)))
      $0.answer(bob1, at: 40)
      $0.look(at: 43)
    }
    #expect(rule == (node == "e2" ? .answersCount : nil))
  }

  @Test("the device refused it as well, or the call was over, or it has another connection")
  func answersThatNeedNotCount() {
    let refused = judge {
      $0.answer(bob1, at: 40)
      $0.say(bob1, 10, .call(Self.address, .busy))
      $0.look(at: 43)
    }
    #expect(refused == nil)
    let over = judge {
      $0.answer(bob1, at: 40)
      $0.say(alice, 9, .call(Self.address, .cancel))
      $0.end(.cancelled, by: alice)
      for who in [bob1, bob2] {
        $0.hear(who, .stop(Stop(reason: .cancelled, by: Self.party(alice), missed: true)))
      }
      $0.look(at: 43)
    }
    #expect(over == nil)
    let broken = judge {
      $0.answer(bob1, at: 40)
      $0.note(.disturbed(link: 1))
      $0.look(at: 43)
    }
    #expect(broken == nil)
    let failed = judge {
      $0.answer(bob1, at: 40)
      $0.reply(bob1, 9, .error(CallError(.tryAgain)))
      $0.look(at: 43)
    }
    #expect(failed == nil)
  }

  @Test("the reply to an answer says who has the call") func repliesToAnswers() {
    for reply in [ServerReply.done, .call(Bench().state(.placed))] {
      let rule = judge {
        $0.answer(bob1, at: 25)
        $0.reply(bob1, 9, reply)
      }
      #expect(rule == .answersCount)
    }
    let lost = judge {
      $0.answer(bob1, at: 25)
      $0.reply(bob1, 9, .answer(won: false, $0.state(.ringing)))
    }
    #expect(lost == .answersCount)
  }

  @Test("who rings learns that the call is over, unless something is wrong on the way")
  func ends() {
    func judge(_ prepare: (inout Bench) -> Void) -> HistoryRule? {
      self.judge {
        prepare(&$0)
        $0.now = 40
        $0.say(alice, 9, .call(Self.address, .cancel))
        $0.end(.cancelled, by: alice)
        let stop = Stop(reason: .cancelled, by: Self.party(alice), missed: true)
        $0.hear(bob2, .stop(stop))
        $0.look(at: 41)
        $0.look(at: 43)
      }
    }
    #expect(judge { _ in } == .nobodyRingsOn)
    #expect(judge { $0.note(.trouble(node: "e1", from: Self.at(33), until: Self.at(34))) } == nil)
    #expect(judge { $0.note(.closed(link: 1)) } == nil)
    #expect(judge { $0.note(.restarted(bob1)) } == nil)
    let refused = judge {
      $0.say(bob1, 9, .call(Self.address, .busy))
      $0.reply(bob1, 9, .done)
    }
    #expect(refused == nil)
  }

  // MARK: Winners

  @Test("a winner that hears nothing", arguments: [true, false]) func untold(isCalm: Bool) {
    let rule = judge {
      if !isCalm { $0.note(.trouble(node: "e1", from: Self.at(18), until: Self.at(19))) }
      $0.answer(bob1, at: 25)
      $0.take(bob1)
      $0.look(at: 28)
    }
    #expect(rule == (isCalm ? .winnersTold : nil))
  }

  @Test("a winner that hears it by a delivery, and one that is away") func toldOtherwise() {
    let delivered = judge {
      $0.answer(bob1, at: 25)
      $0.take(bob1)
      $0.hear(bob1, .answered(Answered(by: Self.party(bob1))))
      $0.look(at: 28)
    }
    #expect(delivered == nil)
    let away = judge {
      $0.answer(bob1, at: 25)
      $0.note(.closed(link: 1))
      $0.take(bob1)
      $0.look(at: 28)
    }
    #expect(away == nil)
    let restarted = judge {
      $0.answer(bob1, at: 25)
      $0.take(bob1)
      $0.note(.restarted(bob1))
      $0.look(at: 28)
    }
    #expect(restarted == nil)
  }
}
