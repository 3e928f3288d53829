import CallCore
import Testing

/// R26 with a new owner of the call's shard, and what a transfer leaves in histories; and transfers after consultation.
@Suite struct TransferRecoveryTests {
  typealias Bench = DivertingBench

  /// How a new owner learns of what was before.
  enum Way: CaseIterable { case journal, checkpoint }

  private func taken(_ bench: Bench, _ way: Way, epoch: UInt64 = 2) -> Bench {
    var owner = bench.owner.successor(byCheckpoint: way == .checkpoint, epoch: epoch)
    for device in ["b1", "b2"] { owner.announce(device) }
    owner.say(.resume, "alice1", of: "alice", number: 0)
    var next = Bench(owner: owner.begun(), guests: bench.guests)
    next.pump()
    return next
  }

  @Test("R26 R10 the owner dies while it rings", arguments: Way.allCases)
  func whileItRings(way: Way) {
    var bench = TransferTests.handingOver("1", "2")
    bench.say(.decline(.here), "dave", "2")
    bench.say(.signal(.candidate, body: "early"), "dave", "1")
    bench = taken(bench, way)
    bench.pass(.milliseconds(10))
    #expect(bench.invites("dave", "1").map(\.transferredBy?.user) == ["bob"], "asked anew")
    #expect(bench.invites("dave", "2").isEmpty, "it declined")
    #expect(bench.owner.ends.isEmpty && bench.bobsStops().isEmpty)
    #expect(bench.say(.answer(description: "offer 2"), "dave", "1")?.won == true)
    #expect(bench.bobsStops().map(\.reason) == [.transferred])
    #expect(bench.toAliceSince().contains(Self.moved))
    #expect(bench.toAliceSince().signals.map(\.body) == ["early"])
  }

  private static let moved = Delivery.Event.moved(
    Moved(to: TransferTests.dave, description: "offer 2", number: 1))

  @Test(
    "R26 R10 the owner dies after the answer: the next one tells all",
    arguments: [true, false], Way.allCases)
  func afterTheAnswer(ofCaller: Bool, way: Way) {
    var bench = TransferTests.talking()
    for device in ["1", "2"] { bench.attach("dave", device) }
    let verb = CallVerb.handOver(to: "dave")
    _ = ofCaller ? bench.asAlice(verb) : bench.asBob(verb)
    bench.say(.alerting, "dave", "2")
    bench.say(.answer(description: "offer 2"), "dave", "1")
    bench = taken(bench, way)
    bench.pass(.milliseconds(10))
    #expect(bench.stops("dave", "2") == [Stop(reason: .answeredElsewhere, by: TransferTests.dave)])
    let stop = Stop(reason: .transferred, by: TransferTests.dave)
    if ofCaller {
      #expect(bench.toAliceSince().contains(.stop(stop)))
      #expect(bench.toBob().contains(Self.moved))
      bench.say(.resume, "dave", "1")
    } else {
      #expect(bench.bobsStops() == [stop])
      #expect(bench.toAliceSince().contains(Self.moved))
    }
    #expect(bench.state("dave", "1")?.phase == .answered)
    bench.say(.signal(.information, body: "hello"), "dave", "1")
    let other = ofCaller ? bench.toBob() : bench.toAliceSince()
    #expect(other.signals.map(\.body) == ["hello"])
    bench.say(.hangUp, "dave", "1")
    #expect(bench.owner.ends.map(\.by?.user) == ["dave"])
  }

  @Test("R26 R10 the owner dies after it failed: who rang is stopped", arguments: Way.allCases)
  func afterTheEnd(way: Way) {
    var bench = TransferTests.handingOver("1")
    bench.pass(.seconds(30))
    bench = taken(bench, way)
    bench.pass(.seconds(1))
    #expect(bench.stops("dave", "1") == [Stop(reason: .unanswered, missed: true)])
    let news = TransferNews(to: "dave", number: 1, reason: .unanswered)
    #expect(bench.toBob().contains(.transfer(news)))
    #expect(bench.owner.ends.isEmpty)
  }

  @Test("R9 R26 R10 repeated to a new owner it begins no second one", arguments: Way.allCases)
  func repeatedInVain(way: Way) {
    var bench = TransferTests.talking("dave")
    bench.owner.say(.handOver(to: "dave"), "b1", number: 77)
    bench.pump()
    bench.say(.decline(.everywhere), "dave", "1")
    bench = taken(bench, way)
    let reply = bench.owner.say(.handOver(to: "dave"), "b1", number: 77)
    bench.pump()
    #expect(reply?.state?.phase == .answered)
    #expect(bench.diversions.count == 1)
    #expect(bench.invites("dave", "1").isEmpty)
  }

  @Test("R17 R10 what the taker sent reaches the other side", arguments: Way.allCases)
  func signalsSurvive(way: Way) {
    var bench = TransferTests.handingOver("1")
    bench.say(.signal(.candidate, body: "early"), "dave", "1")
    bench.say(.answer(description: "offer 2"), "dave", "1")
    bench.say(.signal(.candidate, body: "late"), "dave", "1")
    #expect(bench.toAliceSince().signals.map(\.body) == ["early", "late"])
    bench = taken(bench, way, epoch: 7)
    #expect(bench.toAliceSince().signals.map(\.body) == ["early", "late"])
  }

  @Test("R9 R26 what a device repeats of a former ringing is not taken", arguments: Way.allCases)
  func repeatedOfTheFormerRinging(way: Way) {
    var bench = TransferTests.talking("dave")
    func ringAndSayCandidate() {
      bench.asBob(.handOver(to: "dave"))
      bench.owner.say(
        .signal(.candidate, body: "early"), "1", of: "dave", session: Bench.session("dave", "1"),
        number: 900)
      bench.pump()
    }
    ringAndSayCandidate()
    bench.say(.decline(.here), "dave", "1")
    bench = taken(bench, way)
    ringAndSayCandidate()
    #expect(bench.say(.answer(description: "offer 2"), "dave", "1")?.won == true)
    #expect(bench.toAliceSince().signals.isEmpty)
  }

  @Test("R26 R10 the caller's side goes back and forth between owners", arguments: Way.allCases)
  func backAndForth(way: Way) {
    var bench = TransferTests.talking("dave")
    bench.attach("alice", "2")
    bench.asAlice(.handOver(to: "dave"))
    #expect(bench.say(.answer(description: "1"), "dave", "1")?.won == true)
    bench = taken(bench, way)
    bench.say(.resume, "dave", "1")
    #expect(bench.say(.handOver(to: "alice"), "dave", "1")?.error == nil)
    #expect(bench.invites("alice", "2").count == 1)
    #expect(bench.say(.answer(description: "2"), "alice", "2")?.won == true)
    #expect(bench.stops("dave", "1").map(\.reason) == [.transferred])
    bench = taken(bench, way, epoch: 3)
    bench.say(.resume, "alice", "2")
    #expect(bench.say(.handOver(to: "dave"), "alice", "2")?.error == nil)
    #expect(bench.say(.answer(description: "3"), "dave", "1")?.won == true)
    bench.asBob(.signal(.information, body: "who are you now?"))
    #expect(bench.signals("dave", "1").map(\.body) == ["who are you now?"])
    #expect(bench.state("alice", "2")?.reason == .transferred)
    bench.say(.hangUp, "dave", "1")
    #expect(bench.owner.ends.count == 1)
  }

  // MARK: After consultation

  private static let consulted = ConsultedCall(call: CallID(high: 5, low: 6), callee: "dave")

  /// Bob has called dave, and speaks with him.
  private func consult(_ bench: inout Bench, _ call: CallID = Self.consulted.call) {
    bench.attach("dave", "1")
    bench.guests.say(.place(PlaceRequest(call: call)), user: "bob", device: "b1", callee: "dave")
    bench.guests.say(
      .call(call, .answer(description: "")), user: "dave", device: "1", callee: "dave",
      session: Bench.session("dave", "1"))
  }

  @Test("R26 who was asked answers, and the call in which it was ends") func consulted() throws {
    var bench = TransferTests.talking()
    bench.attach("dave", "2")
    consult(&bench)
    let request = TransferRequest(to: "dave", device: "1", consulted: Self.consulted)
    #expect(bench.asBob(.transfer(request))?.error == nil)
    #expect(bench.invites("dave", "1").map(\.consulted) == [Self.consulted])
    #expect(bench.invites("dave", "2").isEmpty)
    #expect(bench.say(.answer(description: "offer 2"), "dave", "1")?.won == true)
    let tells = bench.effects.compactMap { effect -> (UserKey, DeviceID, ReplacedCall)? in
      guard case .tell(let user, let device, .replaced(let request), _) = effect else { return nil }
      return (user, device, request)
    }
    let tell = try #require(tells.first)
    #expect(tells.count == 1 && tell.0.user == "dave" && tell.1 == "b1")
    // It may be repeated (R9).
    for _ in 1...2 {
      bench.guests.say(.replaced(tell.2), user: "dave", device: "b1", callee: "dave")
      #expect(bench.guests.ends.map(\.reason) == [.transferred])
      #expect(bench.guests.ends.map(\.survivor) == [Bench.id])
    }
    // A new owner asks again for a while.
    let next = taken(bench, .journal)
    #expect(
      next.effects.contains { if case .tell(_, _, .replaced, _) = $0 { true } else { false } })
  }

  @Test("only who has a side of a call may end it as replaced") func replacedByAStranger() {
    var bench = TransferTests.talking()
    for (user, device) in [("mallory", "m1"), ("bob", "b2")] {
      let request = ReplacedCall(call: Bench.id, survivor: Self.consulted.call, user: user)
      #expect(bench.owner.say(.replaced(request), device: device)?.error == nil)
    }
    #expect(bench.owner.ends.isEmpty)
  }

  @Test("only who was asked is not busy for the transfer", arguments: [true, false])
  func busy(isAsked: Bool) {
    let guests = CallCoreTests.Bench(limits: .with { $0.busyWhileInCall = true })
    var bench = DivertingBench(owner: CallCoreTests.Bench(), guests: guests)
    consult(&bench, isAsked ? Self.consulted.call : CallID(high: 8, low: 8))
    var request = VisitRequest(call: Bench.id, callee: "bob", caller: "bob")
    request.consulted = Self.consulted.call
    let user = UserKey(app: CallCoreTests.Bench.app, user: "dave")
    #expect(bench.visit(user, request)?.isBusy == !isAsked)
  }

  // MARK: Histories

  @Test("each user has an entry: who handed over, took it or missed it") func histories() {
    var bench = TransferTests.talking("dave", "erin", subscriptions: .history)
    bench.asBob(.handOver(to: "erin"))
    bench.pass(.seconds(30))
    bench.asBob(.handOver(to: "dave"))
    bench.say(.answer(description: ""), "dave", "1")
    let moved = bench.owner.now
    bench.pass(.seconds(5))
    bench.asAlice(.hangUp)
    var entries: [String: HistoryEntry] = [:]
    for (user, entry) in bench.owner.shard.historyEntries(of: Bench.id) {
      entries[user.user] = entry
    }
    #expect(entries.count == 4)
    #expect(entries["alice"]?.reason == .hungUp && entries["alice"]?.peer == "bob")
    #expect(entries["bob"]?.reason == .transferred && entries["bob"]?.endedAt == moved)
    #expect(entries["dave"]?.peer == "alice" && entries["dave"]?.divertedBy == "bob")
    #expect(entries["dave"]?.answeredAt == moved && entries["dave"]?.reason == .hungUp)
    #expect(entries["dave"]?.isMissed == false)
    #expect(entries["erin"]?.isMissed == true && entries["erin"]?.reason == .unanswered)
    #expect(entries["erin"]?.answeredAt == nil)
  }
}
