import CallClient
import CallCore
import CallJudge
import CallSimulation
import CallWire
import Testing

/// Hand-made histories of attached devices: their invites, and the order of their signals.
@Suite struct AttachedHistoryTests {
  private static let call = CallID(high: 1, low: 2)
  private static let alice = Who("alice", "a1")
  private static let bob = Who("bob", "b1")
  private static let address = CallAddress(callee: "bob", call: call)

  private static func party(_ who: Who) -> Party {
    Party(
      user: who.user, device: DeviceID(who.device), name: "\(who.user.uppercased()) of sim")
  }

  private static func at(_ seconds: Double) -> Timestamp {
    Timestamp(microseconds: Int64(seconds * 1_000_000))
  }

  private static let invite = ServerFrame.delivery(
    Delivery(
      call: call, callee: "bob", version: 1, at: at(21),
      event: .invite(Invite(caller: party(alice), deadline: at(50)))))

  /// A history to judge: bob has attached at second 1, alice calls at second 20, and the call is
  /// placed at 21.
  private struct Bench {
    var checker = HistoryChecker()
    var now = 0.0
    var found: HistoryRule?

    init() {
      journal()
      now = 1
      attach(bob, 1)
    }

    mutating func note(_ event: HistoryEvent) {
      let violation = checker.note(event, at: at(now))
      if found == nil { found = violation?.rule }
    }

    mutating func say(_ who: Who, _ command: ClientCommand, link: Int = 1) {
      note(.sent(who, link: link, ClientFrame(id: 7, command: command)))
    }

    mutating func ask(_ who: Who, _ link: Int) {
      note(.opened(who, link: link, edge: "e\(link)"))
      say(who, .attach(AttachRequest()), link: link)
    }

    mutating func attach(_ who: Who, _ link: Int) {
      ask(who, link)
      let info = AttachedInfo(
        session: "s", user: who.user, device: DeviceID(who.device), pingSeconds: 4,
        serverTime: at(now))
      note(.received(who, link: link, .reply(id: 7, .attached(info))))
    }

    mutating func journal(_ changes: JournalEntry.Change..., epoch: UInt64 = 1) {
      note(.journal(of: call, changes, at: at(now), epoch: epoch))
    }

    mutating func place(by caller: Who = alice) {
      now = 20
      say(caller, .place(address, PlaceRequest(call: call)), link: 9)
      now = 21
      journal(
        .placed(
          PlacedFacts(
            callee: UserKey(app: "demo", user: "bob"), caller: party(caller), placedAt: at(21),
            deadline: at(50), video: false, description: "", headers: [], legs: [],
            fingerprint: 1)))
    }

    mutating func end(at time: Double, epoch: UInt64 = 1) {
      now = time
      journal(
        .ended(EndedFacts(reason: .unreachable, by: nil, at: at(time), missed: true)), epoch: epoch)
    }

    mutating func look(at time: Double) {
      now = time
      if found == nil { found = checker.lateness(at: at(time))?.rule }
    }
  }

  private func judge(_ body: (inout Bench) -> Void) -> HistoryRule? {
    var bench = Bench()
    body(&bench)
    return bench.found
  }

  // MARK: Unreachable

  @Test func unreachableAtOnce() {
    let rule = judge {
      $0.note(.trouble(node: nil, from: Self.at(10), until: Self.at(30)))
      $0.note(.trouble(node: "e1", from: Self.at(10), until: Self.at(30)))
      $0.place()
      $0.end(at: 21)
    }
    #expect(rule == .unreachableAttached)
  }

  @Test(
    arguments: [
      (HistoryEvent.broken(link: 1), true), (.closed(link: 1), true), (.disturbed(link: 1), false),
      (.sent(AttachedHistoryTests.bob, link: 1, ClientFrame(id: 8, command: .detach)), true),
      (
        .received(
          AttachedHistoryTests.bob, link: 1, .notice(Notice(kind: .sessionReplaced, message: ""))),
        true
      ),
      (.restarted(AttachedHistoryTests.bob), true),
    ] as [(HistoryEvent, Bool)])
  func onlyAnUnbrokenConnectionCounts(_ event: HistoryEvent, isExcused: Bool) {
    let rule = judge {
      $0.place()
      $0.note(event)
      $0.end(at: 21)
    }
    #expect(rule == (isExcused ? nil : .unreachableAttached))
  }

  @Test func whoAttachesBehindThePlaceMayMissIt() {
    let rule = judge {
      $0.note(.closed(link: 1))
      $0.place()
      $0.attach(Self.bob, 2)
      $0.end(at: 21)
    }
    #expect(rule == nil)
  }

  @Test func anAttachUnderWayMayReplaceTheSession() {
    #expect(
      judge {
        $0.ask(Self.bob, 2)
        $0.place()
        $0.end(at: 21)
      } == nil)
    #expect(
      judge {
        $0.attach(Self.bob, 2)
        $0.place()
        $0.end(at: 21)
      } == .unreachableAttached)
  }

  @Test func theCallersOwnDeviceIsNotRung() {
    let rule = judge {
      $0.place(by: Self.bob)
      $0.end(at: 21)
      $0.look(at: 40)
    }
    #expect(rule == nil)
  }

  @Test func howLongACallWaits() {
    func judge(_ time: Double, epoch: UInt64 = 1, isCalm: Bool) -> HistoryRule? {
      self.judge {
        if !isCalm { $0.note(.trouble(node: "e1", from: Self.at(18), until: Self.at(19))) }
        $0.place()
        $0.end(at: time, epoch: epoch)
      }
    }
    #expect(judge(24.8, isCalm: false) == .unreachableAttached)
    #expect(judge(25, isCalm: false) == nil)
    #expect(judge(25, isCalm: true) == .unreachableAttached)
    // The owner is new.
    #expect(judge(25, epoch: 2, isCalm: true) == nil)
    #expect(judge(22, epoch: 2, isCalm: true) == .unreachableAttached)
  }

  // MARK: Ringing

  @Test func anAttachedDeviceThatHearsNothing() {
    #expect(
      judge {
        $0.place()
        $0.look(at: 22)
      } == nil)
    #expect(
      judge {
        $0.place()
        $0.look(at: 23.5)
      } == .attachedRing)
    #expect(
      judge {
        $0.place()
        $0.note(.received(Self.bob, link: 1, Self.invite))
        $0.look(at: 23.5)
      } == nil)
  }

  @Test(arguments: [nil, "c1", "e1", "e2"])
  func whatIsWrongOnItsWayExcusesSilence(_ node: String?) {
    let rule = judge {
      $0.note(.trouble(node: node, from: Self.at(15), until: Self.at(16)))
      $0.place()
      $0.look(at: 30)
    }
    #expect(rule == (node == "e2" ? .attachedRing : nil))
  }

  @Test func aCallThatIsOverSoonNeedNotRing() {
    let rule = judge {
      $0.place()
      $0.say(Self.alice, .call(Self.address, .cancel), link: 9)
      $0.now = 22
      $0.journal(
        .ended(
          EndedFacts(reason: .cancelled, by: Self.party(Self.alice), at: Self.at(22), missed: true))
      )
      $0.look(at: 30)
    }
    #expect(rule == nil)
  }

  // MARK: Signals

  /// Alice's client sends the signals of the first numbers, and bob's app receives those of the second.
  private func hands(
    _ numbers: [Int], between: (Int, HistoryEvent)? = nil, sentAfter: Int? = nil
  ) -> HistoryRule? {
    judge {
      // A client gives up only during a fault.
      $0.checker.calendar.add(from: Self.at(19), until: Self.at(20))
      $0.place()
      for number in 1...5 where number != sentAfter { Self.sends(number, &$0) }
      for (index, number) in numbers.enumerated() {
        if let between, between.0 == index { $0.note(between.1) }
        if number == sentAfter { Self.sends(number, &$0) }
        let signal = Signal(
          index: UInt64(index), kind: .candidate, body: SignalText.write(Self.alice, number))
        $0.note(.told(Self.bob, .call(Self.call, .signal(signal))))
      }
    }
  }

  private static func sends(_ number: Int, _ bench: inout Bench) {
    let body = SignalText.write(alice, number)
    bench.say(alice, .call(address, .signal(.candidate, body: body)), link: 9)
  }

  @Test func signalsInOrder() {
    #expect(hands([1, 2, 3, 4, 5]) == nil)
    #expect(hands([1, 3, 5]) == nil)
    #expect(hands([1, 3, 2]) == .signalsInOrder)
    let body = SignalText.write(Self.alice, 2)
    let command = ClientCommand.call(Self.address, .signal(.candidate, body: body))
    let refused = ClientEvent.replied(request: 7, command, .error(CallError(.tryAgain)))
    for event in [ClientEvent.gaveUp(request: 7, command), refused] {
      #expect(hands([1, 3, 2], between: (1, .told(Self.alice, event))) == nil)
    }
  }

  @Test func anAppThatBeganAnewHasNoOrder() {
    #expect(hands([1, 3, 2], between: (2, .restarted(Self.bob))) == nil)
    // The former process's signals arrive after the new one's.
    #expect(hands([1, 3, 5, 4], between: (2, .restarted(Self.alice)), sentAfter: 5) == nil)
    #expect(hands([1, 3, 5, 4, 2], between: (1, .restarted(Self.alice))) == .signalsInOrder)
  }
}
