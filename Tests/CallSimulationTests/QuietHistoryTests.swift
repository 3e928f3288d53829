import CallClient
import CallCore
import CallJudge
import CallSimulation
import CallWire
import Testing

/// Hand-made histories in which nothing is wrong on the way to devices: who is to ring then, and what a caller is named.
@Suite struct QuietHistoryTests {
  private static let call = CallID(high: 1, low: 2)
  private static let caller = Who(SimOptions.user(2), "d0")
  private static let bob1 = Who("bob", "b1")
  private static let bob2 = Who("bob", "b2")
  private static let carol = Who("carol", "c1")

  private static func party(_ who: Who) -> Party {
    Party(user: who.user, device: DeviceID(who.device))
  }

  private static func at(_ seconds: Double) -> Timestamp {
    Timestamp(microseconds: Int64(seconds * 1_000_000))
  }

  /// All devices have attached at second 1.
  private struct Bench {
    var checker = HistoryChecker()
    var now = 0.0
    var found: HistoryRule?

    init() {
      checker.shardCount = 1
      now = -20
      journal()
      now = 1
      for (link, who) in [caller, bob1, bob2, carol].enumerated() {
        note(.opened(who, link: link, edge: "e\(link)"))
        note(.sent(who, link: link, ClientFrame(id: 7, command: .attach(AttachRequest()))))
        let info = AttachedInfo(
          session: "s", user: who.user, device: DeviceID(who.device), pingSeconds: 4,
          serverTime: at(now))
        note(.received(who, link: link, .reply(id: 7, .attached(info))))
      }
    }

    mutating func note(_ event: HistoryEvent) {
      let violation = checker.note(event, at: at(now))
      if found == nil { found = violation?.rule }
    }

    mutating func journal(_ changes: JournalEntry.Change...) {
      note(.journal(of: call, changes, at: at(now)))
    }

    mutating func look(at time: Double) {
      now = time
      if found == nil { found = checker.lateness(at: at(time))?.rule }
    }

    /// The store has rules of a user, and has confirmed them.
    mutating func decide(_ rules: UserRules, of user: String) {
      now = 5
      note(.decided(user: user, rules))
      let errand = AppErrand.rules(rules, of: user)
      note(.server(.answered(errand, .rules(rules))))
    }

    mutating func place(named name: String, legs: Who...) {
      now = 20
      let address = CallAddress(callee: "bob", call: call)
      note(
        .sent(
          caller, link: 0, ClientFrame(id: 8, command: .place(address, PlaceRequest(call: call)))))
      now = 21
      var by = party(caller)
      by.name = name
      journal(placed(by: by, legs))
      let state = CallState(call: call, callee: "bob", phase: .placed)
      note(.received(caller, link: 0, .reply(id: 8, .call(state))))
    }

    func placed(by: Party, _ legs: [Who]) -> JournalEntry.Change {
      .placed(
        PlacedFacts(
          callee: UserKey(app: "demo", user: "bob"), caller: by, placedAt: at(21), deadline: at(50),
          video: false, description: "", headers: [], legs: legs.map(party), fingerprint: 1))
    }

    mutating func invite(
      _ who: Who, by: Party, from user: String = "", isSecondSide: Bool = false
    ) {
      var invite = Invite(caller: by, deadline: at(50))
      (invite.divertedBy, invite.isSecondSide) = (user, isSecondSide)
      let delivery = Delivery(
        call: call, callee: "bob", version: 1, at: at(now), event: .invite(invite))
      note(.received(who, link: 1, .delivery(delivery)))
    }
  }

  private func judge(_ body: (inout Bench) -> Void) -> HistoryRule? {
    var bench = Bench()
    body(&bench)
    return bench.found
  }

  // MARK: First devices

  private let firstBob1 = UserRules(firstDevices: ["b1"], firstSeconds: 3)

  private func ring(_ bench: inout Bench) {
    bench.decide(firstBob1, of: "bob")
    bench.place(named: "", legs: Self.bob1)
    bench.invite(Self.bob1, by: Self.party(Self.caller))
  }

  @Test("others ring when the first devices had their time, or none of these is left")
  func stages() {
    func join(at time: Double, _ before: JournalEntry.Change...) -> HistoryRule? {
      judge {
        ring(&$0)
        $0.now = time
        for change in before { $0.journal(change) }
        $0.journal(.legJoined(Self.party(Self.bob2)))
      }
    }
    #expect(join(at: 22) == .firstRingFirst)
    #expect(join(at: 24.1) == nil)
    #expect(join(at: 22, .legEnded("b1", .declinedHere, at: Self.at(22))) == nil)
  }

  @Test("others ring then") func stagesEnd() {
    let early = judge {
      ring(&$0)
      $0.look(at: 26)
    }
    #expect(early == nil)
    let late = judge {
      ring(&$0)
      $0.look(at: 28)
    }
    #expect(late == .attachedRing)
  }

  @Test(
    "the call goes on to carol, and her first device declines for itself: the other one has to ring"
  )
  func stagesOfAGuest() {
    func end(_ rung: Bool) -> HistoryRule? {
      let first = Who("carol", "c2")
      return judge {
        $0.decide(UserRules(firstDevices: ["c2"], firstSeconds: 25), of: "carol")
        $0.place(named: "", legs: Self.bob1)
        $0.now = 22
        $0.journal(
          .diverted(
            DivertedFacts(
              from: "bob", to: ["carol"], reason: .hook, at: Self.at(22), deadline: Self.at(50))))
        $0.journal(.legJoined(Self.party(first)))
        $0.now = 24
        $0.note(
          .sent(
            first, link: 9,
            ClientFrame(id: 1, command: .call(CallAddress(call: Self.call), .decline(.here)))))
        $0.journal(.legEnded("carol\u{1f}c2", .declinedHere, at: Self.at(24)))
        if rung {
          $0.journal(.legJoined(Self.party(Self.carol)))
          $0.invite(Self.carol, by: Self.party(Self.caller), from: "bob")
        }
        $0.journal(
          .ended(
            EndedFacts(reason: .declined, by: Self.party(first), at: Self.at(24), missed: false)))
      }
    }
    #expect(end(false) == .firstRingFirst)
    #expect(end(true) == nil)
  }

  // MARK: The second user

  private func wait(_ bench: inout Bench) {
    let vacant = Party(user: "carol", device: "")
    let body = HTTPBodies.PlaceCall(call: Self.call, from: "bob", to: "carol")
    bench.now = 20
    bench.note(.server(.asked(.place(body))))
    bench.now = 21
    guard case .placed(var facts) = bench.placed(by: vacant, [Self.bob1, Self.bob2]) else { return }
    facts.callerRings = .seconds(30)
    bench.journal(.placed(facts))
    bench.now = 22
    bench.journal(
      .answered(
        AnsweredFacts(
          by: Self.party(Self.bob1), at: Self.at(22), description: "",
          connectDeadline: Self.at(37))),
      .diverted(
        DivertedFacts(
          from: "", to: ["carol"], reason: .transferred, by: vacant, at: Self.at(22),
          deadline: Self.at(52))))
    let won = Delivery(
      call: Self.call, callee: "bob", version: 1, at: Self.at(22),
      event: .answered(Answered(by: Self.party(Self.bob1))))
    bench.note(.received(Self.bob1, link: 1, .delivery(won)))
  }

  @Test("the second user's devices ring once somebody has answered") func secondRings() {
    let silent = judge {
      wait(&$0)
      $0.look(at: 26)
    }
    #expect(silent == .secondRings)
    let rung = judge {
      wait(&$0)
      $0.invite(Self.carol, by: Self.party(Self.bob1), isSecondSide: true)
      $0.look(at: 26)
    }
    #expect(rung == nil)
    let troubled = judge {
      wait(&$0)
      $0.note(.trouble(node: "e3", from: Self.at(15), until: Self.at(16)))
      $0.look(at: 26)
    }
    #expect(troubled == nil)
    let away = judge {
      $0.decide(UserRules(doNotDisturb: .init()), of: "carol")
      wait(&$0)
      $0.look(at: 26)
    }
    #expect(away == nil)
  }

  // MARK: Names

  private func name(_ bench: inout Bench, _ name: String, at time: Double) {
    bench.now = time
    var rules = UserRules()
    rules.name = name
    bench.note(.decided(user: Self.caller.user, rules))
    bench.note(.server(.answered(.name(name, of: Self.caller.user), .name(name))))
  }

  @Test("a caller without a name in its token has the newest one") func newestName() {
    let older = judge {
      name(&$0, "Ann", at: 2)
      name(&$0, "Ann Lee", at: 5)
      $0.look(at: 8)
      $0.place(named: "Ann")
    }
    #expect(older == .namesShown)
    let newest = judge {
      name(&$0, "Ann", at: 2)
      $0.look(at: 8)
      // Whatever goes wrong later.
      $0.note(.trouble(node: "e0", from: Self.at(9), until: Self.at(10)))
      $0.place(named: "Ann")
    }
    #expect(newest == nil)
    let unknown = judge {
      name(&$0, "Ann", at: 2)
      $0.note(.trouble(node: "e0", from: Self.at(1), until: Self.at(2)))
      $0.look(at: 8)
      $0.place(named: "")
    }
    #expect(unknown == nil)
  }
}
