import CallCore
import Testing

/// Refusals of a call that the app's server places, and the handling of such a call by a new owner of its shard.
@Suite struct AppPlacingEdgeTests {
  typealias Bench = DivertingBench

  // MARK: Refused

  @Test("the same id with the same content has the same answer") func repeated() {
    var bench = AppPlacingTests.placed()
    bench.attach("dave", "1")
    #expect(bench.asServer(AppPlacingTests.request())?.state.phase == .placed)
    bench.asBob(.answer(description: ""))
    #expect(bench.asServer(AppPlacingTests.request())?.state.phase == .answered)
    let placings = bench.owner.journal.count { if case .placed = $0.change { true } else { false } }
    #expect(placings == 1 && bench.diversions.count == 1)
    let taken = bench.owner.server(AppPlacingTests.request(from: "carol"))
    #expect(taken?.error == .callIDTaken)
    #expect(bench.place()?.error == .callIDTaken, "a device has another call under it")
  }

  @Test func whatIsRefused() {
    var bench = AppPlacingTests.bench()
    #expect(bench.owner.server(AppPlacingTests.request(from: "bob"))?.error == .wrongState)
    #expect(bench.owner.server(AppPlacingTests.request(from: ""))?.error == .invalidCallee)
    #expect(bench.owner.server(AppPlacingTests.request(), "")?.error == .invalidCallee)
    let short = PlaceRequest(call: Bench.id, ringTimeoutSeconds: 1)
    let refused = bench.owner.server(.place(AppPlacing(short, caller: "dave")))
    #expect(refused?.error == .invalidRingTimeout)
    #expect(bench.owner.server(AppPlacingTests.request(), "+4930123456")?.error == .noGateway)
    bench.owner.shard.room = .short
    #expect(bench.owner.server(AppPlacingTests.request())?.error == .overloaded)
    bench.owner.shard.room = .enough
    bench.owner.shard.mayTransfer = false
    #expect(bench.owner.server(AppPlacingTests.request())?.error == .unknownCommand)
    #expect(bench.owner.journal.isEmpty)
  }

  @Test("calls from one user to another count for their rate") func rate() {
    var limits = CallLimits()
    limits.callsPerPairPerMinute = 2
    var bench = AppPlacingTests.bench(limits: limits)
    for low in 1...3 as ClosedRange<UInt64> {
      let id = CallID(high: 7, low: low)
      let reply = bench.owner.server(AppPlacingTests.request(id: id))
      #expect(reply?.error == (low == 3 ? .tooManyCalls : nil))
    }
  }

  @Test("a vacant side is nobody's: no device pulls it, and no call gives way to it") func vacant()
  {
    var bench = AppPlacingTests.waiting()
    let pull = CallVerb.pull(PullRequest(from: ""))
    #expect(bench.say(pull, "dave", "1")?.won == false)
    #expect(bench.moves.isEmpty)
    var ringing = AppPlacingTests.placed()
    let other = CallID(high: 0, low: 1)
    let crossed = CrossedCall(call: Bench.id, caller: "dave", survivor: other, by: "b1")
    #expect(ringing.owner.say(.crossed(crossed), device: "b1")?.error == .unknownCall)
    let merge = MergeRequest(call: Bench.id, merged: other, caller: "dave", deviceName: "")
    #expect(ringing.owner.say(.merge(merge), device: "b1")?.error == .unknownCall)
    #expect(ringing.owner.ends.isEmpty)
  }

  @Test("rings for bob's other devices are withdrawn when he answers") func pushes() {
    var bench = AppPlacingTests.bench()
    bench.owner.enrol("b3", voip: "t3")
    bench.attach("dave", "1")
    bench.asServer(AppPlacingTests.request())
    #expect(bench.pushes.map(\.purpose) == [.ring])
    #expect(bench.pushes.map(\.caller) == [AppPlacingTests.nobody])
    bench.asBob(.answer(description: ""))
    let withdrawn = bench.effects.compactMap { effect -> PushRinging? in
      if case .withdrawPushes(let ringing) = effect { ringing } else { nil }
    }
    #expect(withdrawn == [PushRinging(call: Bench.id, round: 0)])
  }

  @Test("lists have it as a call to bob and as one of dave") func lists() {
    var bench = AppPlacingTests.placed()
    for user in ["bob", "dave"] {
      guard case .app(.calls(let calls)) = bench.owner.server(.calls(shard: 0), user) else {
        Issue.record("no calls")
        continue
      }
      #expect(calls.calls.map(\.state.call) == [Bench.id])
    }
    bench.asServer(.end(Bench.id))
    #expect(bench.owner.ends.map(\.reason) == [.cancelled])
    guard case .app(.calls(let calls)) = bench.owner.server(.calls(shard: 0), "dave") else {
      return
    }
    #expect(calls.calls.isEmpty)
  }

  // MARK: A new owner

  /// How it learns of what was before.
  enum Way: CaseIterable { case journal, checkpoint }

  private func taken(_ bench: Bench, _ way: Way) -> Bench {
    var owner =
      way == .journal ? bench.owner.takenOver() : bench.owner.restoredFromCheckpoint()
    owner.journal = bench.owner.journal
    for device in ["b1", "b2"] { owner.say(.attach(Attach(announce: true)), device: device) }
    var next = Bench(owner: owner.begun(), guests: bench.guests)
    next.owner.shard.storedParts = .history
    next.pump()
    return next
  }

  @Test("R10 the owner dies while bob rings: nobody waits for a caller", arguments: Way.allCases)
  func whileBobRings(way: Way) {
    var bench = taken(AppPlacingTests.placed(), way)
    bench.attach("dave", "1")
    bench.pass(.seconds(20))
    #expect(bench.owner.ends.isEmpty)
    #expect(bench.asServer(AppPlacingTests.request())?.caller == AppPlacingTests.nobody)
    #expect(bench.asBob(.answer(description: ""))?.won == true)
    #expect(bench.invites("dave", "1").count == 1)
    #expect(bench.say(.answer(description: "offer"), "dave", "1")?.won == true)
  }

  @Test("R10 a new owner rings no other device than the chosen one", arguments: Way.allCases)
  func whileOneDeviceRings(way: Way) {
    var placed = AppPlacingTests.bench()
    placed.asServer(AppPlacingTests.request(device: "b1"))
    var bench = taken(placed, way)
    bench.pass(.seconds(5))
    let late = bench.owner.say(.call(Bench.id, .answer(description: "")), device: "b2")
    #expect(late?.won == false)
    #expect(bench.asBob(.answer(description: ""))?.won == true)
    let joined = bench.owner.journal.contains {
      if case .legJoined(let party) = $0.change { party.device == "b2" } else { false }
    }
    #expect(!joined)
  }

  @Test("R10 the owner dies while dave rings", arguments: Way.allCases)
  func whileDaveRings(way: Way) {
    var bench = taken(AppPlacingTests.waiting(), way)
    bench.pass(.seconds(20))
    #expect(bench.owner.ends.isEmpty)
    #expect(bench.invites("dave", "1").last?.caller.user == "bob", "asked anew")
    #expect(bench.say(.answer(description: "offer"), "dave", "1")?.won == true)
    #expect(bench.toBob().contains { if case .moved = $0 { true } else { false } })
    bench = taken(bench, way)
    bench.say(.resume, "dave", "1")
    bench.asBob(.signal(.description, body: "answer"))
    #expect(bench.signals("dave", "1").map(\.body) == ["answer"])
    bench.say(.hangUp, "dave", "1")
    #expect(bench.owner.ends.count == 1)
    let entries = bench.owner.shard.historyEntries(of: Bench.id)
    #expect(entries.map(\.user.user) == ["bob", "dave"])
    #expect(entries.allSatisfy { $0.entry.reason == .hungUp && !$0.entry.isPlaced })
  }

  /// Seed 91000277: the answer was lost with bob's session, and bob's device repeats the command to a new owner.
  @Test(
    "R10, R17 what bob's device says while dave rings is for nobody, also when it is repeated",
    arguments: Way.allCases)
  func signalsForNobody(way: Way) {
    var bench = AppPlacingTests.waiting()
    func say(_ number: UInt64) -> Reply? {
      let body = Command.Body.call(Bench.id, .signal(.candidate, body: "c\(number)"))
      defer { bench.pump() }
      return bench.owner.say(body, device: "b1", number: number)
    }
    #expect(say(31) == .done)
    #expect(bench.say(.answer(description: "offer"), "dave", "1")?.won == true)
    #expect(say(32) == .done)
    #expect(bench.signals("dave", "1").map(\.body) == ["c32"])
    bench = taken(bench, way)
    bench.say(.resume, "dave", "1")
    for number: UInt64 in 31...33 { #expect(say(number) == .done) }
    #expect(bench.signals("dave", "1").map(\.body) == ["c32", "c33"])
  }

  @Test("R10 the owner dies before dave's turn was decided", arguments: Way.allCases)
  func beforeDavesTurn(way: Way) {
    var bench = AppPlacingTests.waiting()
    bench.owner.journal.removeAll { if case .diverted = $0.change { true } else { false } }
    if way == .checkpoint { bench.owner.shard = bench.owner.takenOver().shard }
    bench = taken(bench, way)
    #expect(bench.invites("dave", "1").count == 1)
    #expect(bench.say(.answer(description: "offer"), "dave", "1")?.won == true)
  }

  @Test("R10 the owner dies before the call's end was decided", arguments: Way.allCases)
  func beforeTheEnd(way: Way) {
    var bench = AppPlacingTests.waiting()
    bench.say(.decline(.everywhere), "dave", "1")
    bench.owner.journal.removeAll { if case .ended = $0.change { true } else { false } }
    if way == .checkpoint { bench.owner.shard = bench.owner.takenOver().shard }
    bench = taken(bench, way)
    #expect(bench.owner.ends.map(\.by) == [AppPlacingTests.dave])
  }

  @Test("R10 the owner dies after dave did not take it", arguments: Way.allCases)
  func afterTheEnd(way: Way) {
    var bench = AppPlacingTests.waiting()
    bench.say(.decline(.everywhere), "dave", "1")
    bench = taken(bench, way)
    bench.pass(.seconds(1))
    let news = TransferNews(to: "dave", number: 1, reason: .declined, by: AppPlacingTests.dave)
    #expect(bench.toBob() == [.transfer(news)])
    #expect(bench.bobsStops() == [Stop(reason: .hungUp, by: AppPlacingTests.dave)])
    bench.acknowledgeBob()
    #expect(bench.owner.journal.last?.change == .settled)
  }
}
