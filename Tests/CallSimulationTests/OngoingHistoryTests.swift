import CallClient
import CallCore
import CallJudge
import CallSimulation
import CallWire
import Testing

/// Hand-made histories of users whose devices see the calls that the user is in.
@Suite struct OngoingHistoryTests {
  private static let call = CallID(high: 1, low: 2)
  private static let alice = Who("alice", "a1")
  private static let alice2 = Who("alice", "a2")
  private static let bob1 = Who("bob", "b1")
  private static let bob2 = Who("bob", "b2")
  private static let links = [bob1: 1, bob2: 2, alice: 3, alice2: 4]

  private static func party(_ who: Who) -> Party {
    Party(user: who.user, device: DeviceID(who.device))
  }

  private static func at(_ seconds: Double) -> Timestamp {
    Timestamp(microseconds: Int64(seconds * 1_000_000))
  }

  private static let received = OngoingCall(
    call: call, callee: "bob", isPlaced: false, device: "b1", peer: "alice",
    peerName: "ALICE of sim", since: at(22))
  private static let placed = OngoingCall(
    call: call, callee: "bob", isPlaced: true, device: "a1", peer: "bob", since: at(22))

  /// A history to judge: all have attached at second 1, Alice calls at 21, and Bob answers at 22.
  private struct Bench {
    var checker = HistoryChecker()
    var now = 0.0
    var found: HistoryRule?

    init() {
      checker.shardCount = 1
      journal()
      now = 1
      for who in [alice, alice2, bob1, bob2] { attach(who) }
      now = 21
      var caller = party(alice)
      caller.name = "ALICE of sim"
      journal(
        .placed(
          PlacedFacts(
            callee: UserKey(app: "sim", user: "bob"), caller: caller, placedAt: at(21),
            deadline: at(50), video: false, description: "", headers: [], legs: [],
            fingerprint: 1)))
      now = 22
      journal(
        .answered(
          AnsweredFacts(
            by: party(bob1), at: at(22), description: "", connectDeadline: at(100))))
      let won = Delivery(
        call: call, callee: "bob", version: 1, at: at(22),
        event: .answered(Answered(by: party(bob1))))
      note(.received(bob1, link: 1, .delivery(won)))
    }

    mutating func note(_ event: HistoryEvent) {
      let violation = checker.note(event, at: at(now))
      if found == nil { found = violation?.rule }
    }

    mutating func journal(_ changes: JournalEntry.Change...) {
      note(.journal(of: call, changes, at: at(now)))
    }

    mutating func attach(_ who: Who) {
      guard let link = links[who] else { return }
      note(.opened(who, link: link, edge: "e\(link)"))
      note(.sent(who, link: link, ClientFrame(id: 7, command: .attach(AttachRequest()))))
      let info = AttachedInfo(
        session: "s", user: who.user, device: DeviceID(who.device), pingSeconds: 4,
        serverTime: at(now), ongoing: OngoingCalls(version: 5))
      note(.received(who, link: link, .reply(id: 7, .attached(info))))
    }

    /// A device is sent its user's calls.
    mutating func send(_ who: Who, _ version: UInt64, _ calls: [OngoingCall]) {
      guard let link = links[who] else { return }
      note(.received(who, link: link, .ongoing(OngoingCalls(version: version, calls: calls))))
    }

    /// And its app shows them.
    mutating func show(_ who: Who, _ version: UInt64, _ calls: [OngoingCall]) {
      send(who, version, calls)
      note(.told(who, .ongoing(calls)))
    }

    mutating func showAll(_ version: UInt64, _ isOver: Bool = false) {
      for who in [bob1, bob2] { show(who, version, isOver ? [] : [received]) }
      for who in [alice, alice2] { show(who, version, isOver ? [] : [placed]) }
    }

    /// The caller's device learns of the answer.
    mutating func tellCaller() {
      let delivery = Delivery(
        call: call, callee: "bob", version: 9, at: at(22),
        event: .answered(Answered(by: party(bob1))))
      note(.received(alice, link: 3, .delivery(delivery)))
    }

    mutating func end() {
      note(
        .sent(bob1, link: 1, ClientFrame(id: 9, command: .call(CallAddress(call: call), .hangUp))))
      note(.received(bob1, link: 1, .reply(id: 9, .done)))
      journal(.ended(EndedFacts(reason: .hungUp, by: party(bob1), at: at(now), missed: false)))
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

  @Test func allSeeItAndItsEnd() {
    var bench = Bench()
    bench.tellCaller()
    bench.showAll(6)
    bench.look(at: 25)
    bench.end()
    bench.showAll(7, true)
    bench.look(at: 60)
    #expect(bench.found == nil)
    let view = HistoryChecker.LastView(who: Self.bob2, isAttached: true, calls: [CallView]())
    #expect(bench.checker.finish([view]).isEmpty)
  }

  @Test func aCallThatWasForgottenMayBeSeen() {
    let rule = judge {
      $0.checker.forget(Self.received.call)
      $0.showAll(6)
    }
    #expect(rule == nil)
  }

  @Test("a device does not see a call to its user") func aReceivedCallIsMissing() {
    let rule = judge { $0.look(at: 25) }
    #expect(rule == .ongoingSeen)
    let early = judge { $0.look(at: 23) }
    #expect(early == nil)
  }

  @Test("a device does not see a call that its user placed", arguments: [true, false])
  func aPlacedCallIsMissing(callerIsTold: Bool) {
    let rule = judge {
      for who in [Self.bob1, Self.bob2] { $0.show(who, 6, [Self.received]) }
      if callerIsTold { $0.tellCaller() }
      $0.look(at: 25)
    }
    #expect(rule == (callerIsTold ? .ongoingSeen : nil))
  }

  @Test("what was wrong on the way excuses it", arguments: ["e2", "c1", ""])
  func trouble(node: String) {
    let rule = judge {
      $0.note(
        .trouble(node: node.isEmpty ? nil : node, from: Self.at(20), until: Self.at(21)))
      $0.show(Self.bob1, 6, [Self.received])
      $0.look(at: 25)
    }
    #expect(rule == nil)
  }

  @Test func aCallThatIsOverIsStillShown() {
    let rule = judge {
      $0.tellCaller()
      $0.showAll(6)
      $0.now = 30
      $0.end()
      $0.show(Self.bob1, 7, [])
      $0.look(at: 33)
    }
    #expect(rule == .ongoingSeen)
  }

  /// Its caller may be away, and the user's shard waits for it.
  @Test(arguments: [50.0, 130.0]) func aPlacedCallIsShownForLong(time: Double) {
    let rule = judge {
      $0.tellCaller()
      $0.showAll(6)
      $0.now = 30
      $0.note(.closed(link: 3))
      $0.end()
      for who in [Self.bob1, Self.bob2] { $0.show(who, 7, []) }
      $0.look(at: time)
    }
    #expect(rule == (time > 100 ? .ongoingSeen : nil))
  }

  @Test func inTheEndNoneIsShown() {
    var bench = Bench()
    bench.showAll(6)
    bench.end()
    let view = HistoryChecker.LastView(who: Self.bob2, isAttached: true, calls: [CallView]())
    #expect(bench.checker.finish([view]).map(\.rule) == [.ongoingSeen])
  }

  @Test func whatTheJournalDoesNotSay() {
    var wrongDevice = Self.received
    wrongDevice.device = "b2"
    var unknown = Self.received
    unknown.call = CallID(high: 7, low: 7)
    var otherTime = Self.received
    otherTime.since = Self.at(23)
    for wrong in [wrongDevice, unknown, otherTime, Self.placed] {
      #expect(judge { $0.send(Self.bob1, 6, [wrong]) } == .ongoingSeen)
    }
    #expect(judge { $0.send(Self.alice, 6, [Self.received]) } == .ongoingSeen)
  }

  @Test func versionsGrow() {
    let back = judge {
      $0.send(Self.bob1, 6, [Self.received])
      $0.send(Self.bob1, 5, [])
    }
    #expect(back == .ongoingSeen)
    let twoThings = judge {
      $0.send(Self.bob1, 6, [Self.received])
      $0.send(Self.bob1, 6, [])
    }
    #expect(twoThings == .ongoingSeen)
    let again = judge {
      $0.send(Self.bob1, 6, [Self.received])
      $0.send(Self.bob1, 6, [Self.received])
    }
    #expect(again == nil)
  }
}
