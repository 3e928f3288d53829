import CallCore
import Testing

/// Refusals of a call that the app's server places, and the handling of such a call by a new owner of its shard.
@Suite struct AppPlacingEdgeTests {
  typealias Bench = DivertingBench

  // MARK: Refused

  @Test(
    "the same id with the same content has the same answer", arguments: [nil, "b1"] as [DeviceID?])
  func repeated(device: DeviceID?) {
    var bench = AppPlacingTests.bench(with: "dave")
    let request = AppPlacingTests.request(device: device)
    bench.asServer(request)
    #expect(bench.asServer(request)?.state.phase == .placed)
    bench.asBob(.answer())
    #expect(bench.asServer(request)?.state.phase == .answered)
    let placings = bench.owner.journal.count { if case .placed = $0.change { true } else { false } }
    #expect(placings == 1 && bench.diversions.count == 1)
    let devices: [DeviceID?] = [nil, "b1", "b2"]
    let others = devices.filter { $0 != device }.map { AppPlacingTests.request(device: $0) }
    for other in others + [AppPlacingTests.request(from: "carol")] {
      #expect(bench.owner.server(other)?.error == .callIDTaken)
    }
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
    var bench = AppPlacingTests.bench(limits: .with { $0.callsPerPairPerMinute = 2 })
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
    #expect(bench.say(pull, "dave")?.won == false)
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
    bench.attach("dave")
    bench.asServer(AppPlacingTests.request())
    #expect(bench.pushes.map(\.purpose) == [.ring])
    #expect(bench.pushes.map(\.caller) == [AppPlacingTests.nobody])
    bench.asBob(.answer())
    let withdrawn = bench.effects.filter { if case .withdrawPushes = $0 { true } else { false } }
    #expect(withdrawn == [.withdrawPushes(PushRinging(call: Bench.id, round: 0))])
  }

  @Test("lists have it as a call to bob and as one of dave") func lists() {
    var bench = AppPlacingTests.placed()
    for user in ["bob", "dave"] {
      #expect(bench.owner.server(.calls(shard: 0), user)?.appCalls == [Bench.id])
    }
    bench.asServer(.end(Bench.id))
    #expect(bench.owner.ends.map(\.reason) == [.cancelled])
    #expect(bench.owner.server(.calls(shard: 0), "dave")?.appCalls == [])
  }

  // MARK: A new owner

  /// How it learns of what was before.
  enum Way: CaseIterable { case journal, checkpoint }

  /// - Parameter isLost: the former owner died before these changes were decided.
  private func taken(
    _ bench: Bench, _ way: Way, without isLost: (JournalEntry.Change) -> Bool = { _ in false }
  ) -> Bench {
    var former = bench.owner
    former.journal.removeAll { isLost($0.change) }
    if former.journal != bench.owner.journal { former.shard = former.takenOver().shard }
    var owner = way == .journal ? former.takenOver() : former.restoredFromCheckpoint()
    owner.journal = former.journal
    var next = Bench(owner: owner.begun(announcing: "b1", "b2"), guests: bench.guests)
    next.owner.shard.storedParts = .history
    next.pump()
    return next
  }

  @Test("R10 the owner dies while bob rings: nobody waits for a caller", arguments: Way.allCases)
  func whileBobRings(way: Way) {
    var bench = taken(AppPlacingTests.placed(), way)
    bench.attach("dave")
    bench.pass(.seconds(20))
    #expect(bench.owner.ends.isEmpty)
    #expect(bench.asServer(AppPlacingTests.request())?.caller == AppPlacingTests.nobody)
    #expect(bench.asBob(.answer())?.won == true)
    #expect(bench.invites("dave").count == 1)
    #expect(bench.say(.answer(description: "offer"), "dave")?.won == true)
  }

  @Test("R10 a new owner rings no other device than the chosen one", arguments: Way.allCases)
  func whileOneDeviceRings(way: Way) {
    var placed = AppPlacingTests.bench()
    placed.asServer(AppPlacingTests.request(device: "b1"))
    var bench = taken(placed, way)
    bench.pass(.seconds(5))
    #expect(bench.owner.say(.answer(), "b2")?.won == false)
    #expect(bench.asBob(.answer())?.won == true)
    #expect(!bench.joined.contains { $0.device == "b2" })
  }

  @Test("R10 the owner dies while dave rings", arguments: Way.allCases)
  func whileDaveRings(way: Way) {
    var bench = taken(AppPlacingTests.waiting(), way)
    bench.pass(.seconds(20))
    #expect(bench.owner.ends.isEmpty)
    #expect(bench.invites("dave").last?.caller.user == "bob", "asked anew")
    #expect(bench.say(.answer(description: "offer"), "dave")?.won == true)
    #expect(bench.bob.deliveries(to: "b1").contains { $0.event.kind == "moved" })
    bench = taken(bench, way)
    bench.say(.resume, "dave")
    bench.asBob(.signal(.description, body: "answer"))
    #expect(bench.signals("dave", "1").map(\.body) == ["answer"])
    bench.say(.hangUp, "dave")
    #expect(bench.owner.ends.count == 1)
    #expect(bench.entries.map(\.user.user) == ["bob", "dave"])
    #expect(bench.entries.allSatisfy { $0.entry.reason == .hungUp && !$0.entry.isPlaced })
  }

  /// Seed 91000277: the answer was lost with bob's session, and bob's device repeats the command to a new owner.
  @Test(
    "R10, R17 what bob's device says while dave rings is for nobody, also when it is repeated",
    arguments: Way.allCases)
  func signalsForNobody(way: Way) {
    var bench = AppPlacingTests.waiting()
    func say(_ number: UInt64) -> Reply? {
      defer { bench.pump() }
      return bench.owner.say(.signal(.candidate, body: "c\(number)"), "b1", number: number)
    }
    #expect(say(31) == .done)
    #expect(bench.say(.answer(description: "offer"), "dave")?.won == true)
    #expect(say(32) == .done)
    #expect(bench.signals("dave", "1").map(\.body) == ["c32"])
    bench = taken(bench, way)
    bench.say(.resume, "dave")
    for number: UInt64 in 31...33 { #expect(say(number) == .done) }
    #expect(bench.signals("dave", "1").map(\.body) == ["c32", "c33"])
  }

  @Test("R10 the owner dies before dave's turn was decided", arguments: Way.allCases)
  func beforeDavesTurn(way: Way) {
    var bench = taken(AppPlacingTests.waiting(), way) {
      if case .diverted = $0 { true } else { false }
    }
    #expect(bench.invites("dave").count == 1)
    #expect(bench.say(.answer(description: "offer"), "dave")?.won == true)
  }

  @Test("R10 the owner dies before the call's end was decided", arguments: Way.allCases)
  func beforeTheEnd(way: Way) {
    var bench = AppPlacingTests.waiting()
    bench.say(.decline(.everywhere), "dave")
    bench = taken(bench, way) { if case .ended = $0 { true } else { false } }
    #expect(bench.owner.ends.map(\.by) == [AppPlacingTests.dave])
  }

  @Test("R10 the owner dies after dave did not take it", arguments: Way.allCases)
  func afterTheEnd(way: Way) {
    var bench = AppPlacingTests.waiting()
    bench.say(.decline(.everywhere), "dave")
    bench = taken(bench, way)
    bench.pass(.seconds(1))
    let news = TransferNews(to: "dave", number: 1, reason: .declined, by: AppPlacingTests.dave)
    #expect(bench.toBob() == [.transfer(news)])
    #expect(bench.bobsStops() == [Stop(reason: .hungUp, by: AppPlacingTests.dave)])
    bench.acknowledgeBob()
    #expect(bench.owner.journal.last?.change == .settled)
  }
}
