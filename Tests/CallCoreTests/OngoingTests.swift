import CallCore
import Testing

/// A user's devices see the calls that the user is in.
@Suite struct OngoingTests {
  private static let other = CallID("00000000-0000-4000-8000-000000000002")!

  /// Bob's devices attach, and ask to see his calls.
  private func bench(_ devices: String...) -> Bench {
    var bench = Bench()
    for device in devices { bench.watch(device) }
    return bench
  }

  /// Alice has called bob, whose b1 has answered.
  private func inCall(_ devices: String...) -> Bench {
    var bench = Bench()
    for device in devices { bench.watch(device) }
    answer(&bench)
    return bench
  }

  private func answer(_ bench: inout Bench, on device: String = "b1") {
    bench.place()
    bench.answer(device)
  }

  /// The call that `answer` makes, as bob's devices see it.
  private func received(_ bench: Bench) -> OngoingCall {
    OngoingCall(
      call: Bench.callID, callee: "bob", isPlaced: false, device: "b1", deviceName: "Bob's b1",
      peer: "alice", since: bench.now)
  }

  @Test("R21: all devices of a user that asked see an answered call, and its end")
  func allDevicesSeeIt() {
    var bench = bench("b1", "b2")
    bench.attach("b3")
    bench.place()
    #expect(bench.shown("b2").isEmpty)
    bench.answer("b1")
    let call = received(bench)
    bench.pass(.seconds(5))
    for device in ["b1", "b2"] { #expect(bench.shown(device).first?.calls == [call]) }
    for device in ["b3", "alice1"] { #expect(bench.shown(device).isEmpty) }
    bench.effects = []
    bench.caller(.hangUp)
    for device in ["b1", "b2"] { #expect(bench.shown(device).map(\.calls) == [[]]) }
  }

  /// A call to bob goes on to carol, whose tablet sees her calls.
  private func wentOn() -> (DivertingBench, tablet: SessionRef) {
    var bench = DivertingBench()
    bench.attach("carol", "1")
    let tablet = DivertingBench.session("carol", "2")
    bench.guests.watch("2", user: "carol", session: tablet)
    bench.place(to: "carol")
    return (bench, tablet)
  }

  @Test("R21 R25: a user to whom a call went on sees it once it is answered")
  func aCallThatWentOn() {
    var (bench, tablet) = wentOn()
    #expect(bench.guests.shown(tablet).isEmpty)
    bench.say(.answer(description: ""), "carol", "1")
    let call = OngoingCall(
      call: Bench.callID, callee: "bob", isPlaced: false, device: "1", deviceName: "carol's 1",
      peer: "alice", since: bench.owner.now)
    #expect(bench.guests.shown(tablet).map(\.calls) == [[call]])
    bench.owner.caller(.hangUp)
    bench.pump()
    #expect(bench.guests.shown(tablet).last?.calls == [])
  }

  @Test("R21 R26: so does one to whom it is transferred, until it goes on")
  func aTransferredCall() {
    var bench = TransferTests.talking("dave", "erin")
    let tablet = DivertingBench.session("dave", "2")
    bench.guests.watch("2", user: "dave", session: tablet)
    bench.asBob(.handOver(to: "dave"))
    bench.say(.answer(description: ""), "dave", "1")
    #expect(bench.guests.shown(tablet).last?.calls.map(\.device) == ["1"])
    bench.say(.handOver(to: "erin"), "dave", "1")
    #expect(bench.guests.shown(tablet).last?.calls.count == 1)
    bench.say(.answer(description: ""), "erin", "1")
    #expect(bench.guests.shown(tablet).last?.calls == [])
  }

  @Test("R21 R26: a call that is handed back to its callee is listed once") func handedBack() {
    var bench = TransferTests.talking()
    bench.owner.watch("b2")
    bench.attach("dave", "1")
    bench.asBob(.handOver(to: "dave"))
    bench.say(.answer(description: ""), "dave", "1")
    bench.say(.handOver(to: "bob"), "dave", "1")
    bench.asBob(.answer(description: ""))
    let calls = bench.owner.watch("b3")?.calls
    #expect(calls?.map(\.device) == ["b1"])
  }

  @Test("R21 R26: who has the other side is seen when that is handed over") func otherSide() {
    var (bench, tablet) = wentOn()
    bench.attach("erin", "1")
    bench.say(.answer(description: ""), "carol", "1")
    bench.asAlice(.handOver(to: "erin"))
    bench.say(.answer(description: ""), "erin", "1")
    #expect(bench.guests.shown(tablet).last?.calls.map(\.peer) == ["erin"])
  }

  @Test("R21: a question that was retransmitted undoes nothing") func olderQuestion() throws {
    var (bench, tablet) = wentOn()
    bench.say(.answer(description: ""), "carol", "1")
    let older = try #require(bench.asked.last?.1)
    #expect(older.answeredBy == "1")
    bench.say(.hangUp, "carol", "1")
    _ = bench.visit(UserKey(app: Bench.app, user: "carol"), older)
    #expect(bench.guests.shown(tablet).last?.calls == [])
  }

  @Test("R21: where the call's shard falls silent, the user is free after a while") func silence() {
    var (bench, tablet) = wentOn()
    bench.talk("carol")
    bench.pass(.seconds(30))
    #expect(bench.guests.shown(tablet).last?.calls.count == 1)
    bench.isConnected = false
    bench.pass(.seconds(21))
    #expect(bench.guests.shown(tablet).last?.calls == [])
  }

  @Test("R9: who attaches is told in the reply; a repeated attach is followed by the state")
  func whoAttachesIsToldInTheReply() {
    var bench = inCall("b1")
    #expect(bench.watch("b2")?.calls == [received(bench)])
    let call = received(bench)
    bench.pass(.seconds(10))
    #expect(bench.shown("b2").isEmpty)
    // The reply that reaches the device may be that to the first one.
    bench.watch("b2")
    #expect(bench.shown("b2").map(\.calls) == [[call]])
    // Also that there are none; who did not ask is told nothing.
    #expect(bench.watch("c1", user: "carol")?.calls == [])
    #expect(bench.say(.attach(Attach()), device: "b3") == .attached(forCall: nil))
  }

  // MARK: Retransmission

  @Test("R9: it is retransmitted until acknowledged") func itIsRetransmitted() {
    var bench = inCall("b1", "b2", "b3")
    let version = bench.shown("b2")[0].version
    bench.seen("b1", version)
    bench.pass(.milliseconds(1500))
    #expect(bench.shown("b1").count == 1)
    #expect(bench.shown("b2").map(\.version) == [version, version, version])
    bench.seen("b2", version)
    bench.pass(.seconds(6))
    #expect(bench.shown("b2").count == 3)
    #expect(bench.shown("b3").count == 1 + CallLimits().deliveryRepeats.count)
    #expect(bench.shard.counts.deliveryRepeatsTotal >= 4)
  }

  @Test func onlyTheNewestIsRetransmitted() {
    var bench = inCall("b1")
    let first = bench.shown("b1")[0].version
    bench.caller(.hangUp)
    bench.effects = []
    // It is late, and says nothing of the newest.
    bench.seen("b1", first)
    bench.pass(.seconds(10))
    #expect(bench.shown("b1").allSatisfy { $0.calls.isEmpty && $0.version > first })
    #expect(bench.shown("b1").count == CallLimits().deliveryRepeats.count)
  }

  @Test("R11: a session that ended, or lost its edge, gets nothing")
  func aSessionThatEndedGetsNothing() {
    var bench = bench("b1", "b2")
    var lost = bench
    bench.close("b2")
    answer(&bench)
    bench.pass(.seconds(10))
    #expect(bench.shown("b2").isEmpty)
    // Nor one that another has replaced.
    bench.watch("b1", session: Bench.session("b1", 5))
    bench.effects = []
    bench.caller(.hangUp)
    #expect(bench.shown("b1").isEmpty)
    #expect(bench.shown(Bench.session("b1", 5)).map(\.calls) == [[]])
    lost.run { $0.edgeLost(1, now: $1, into: &$2) }
    answer(&lost)
    lost.pass(.seconds(10))
    #expect(lost.shown("b1").isEmpty)
  }

  /// A state that was on its way to a former session must not count as the new state.
  @Test func versionsAreNotUsedAgain() {
    var bench = inCall("b1")
    let before = bench.shown("b1")[0].version
    bench.close("b1")
    bench.pass(.seconds(10))
    let told = bench.watch("b1", session: Bench.session("b1", 2))
    #expect(told?.version ?? 0 >= before)
    // And after that nothing is kept.
    bench.close("b1", graceful: true, session: Bench.session("b1", 2))
    bench.pass(.seconds(80))
    #expect(bench.shard.nextDeadline > bench.now + .seconds(60))
  }

  /// A device that has seen the first version of a board that is gone is notified of the next one. Its edge, which
  /// passes that on late, does not know of it when the session begins anew.
  @Test func aVersionThatWasOnlyToldIsNotUsedAgain() throws {
    var bench = bench()
    let first = bench.watch("b1")
    let seen = try #require(first)
    bench.close("b1")
    let mark = OngoingMark(version: seen.version, showsCalls: false)
    let second = bench.watch("b1", session: Bench.session("b1", 2), shown: mark)
    let told = try #require(second)
    #expect(told.version > seen.version)
    bench.close("b1", session: Bench.session("b1", 2))
    bench.watch("b2")
    answer(&bench, on: "b2")
    #expect(bench.shown("b2")[0].version > told.version)
  }

  // MARK: A new owner

  private func announce(_ bench: inout Bench, _ device: String, _ mark: OngoingMark) {
    let attach = Attach(deviceName: "Bob's \(device)", announce: true, ongoing: mark)
    bench.say(.attach(attach), device: device)
  }

  @Test("R10: a new owner shows it anew, as a later version") func aNewOwnerShowsItAnew() {
    let bench = inCall("b1", "b2")
    let shown = bench.shown("b1")[0]
    var next = bench.takenOver()
    announce(&next, "b1", shown.mark)
    announce(&next, "b2", OngoingMark())
    #expect(next.shown("b1").isEmpty)
    next = next.begun()
    for device in ["b1", "b2"] {
      #expect(next.shown(device).map(\.calls) == [shown.calls])
      #expect(next.shown(device)[0].version > max(shown.version, 2 << 20))
    }
  }

  @Test("R10: a new owner says that the call is over, which the former one may not have said")
  func aNewOwnerTellsTheEnd() {
    var bench = inCall("b1", "b2")
    let mark = bench.shown("b1")[0].mark
    bench.caller(.hangUp)
    var next = bench.takenOver()
    announce(&next, "b1", mark)
    announce(&next, "b2", OngoingMark(version: mark.version + 1, showsCalls: false))
    next = next.begun()
    #expect(next.shown("b1").map(\.calls) == [[]])
    // It has that already.
    #expect(next.shown("b2").isEmpty)
  }

  @Test("R10: who attaches to a new owner is shown what it learns later")
  func attachedBeforeItBegins() {
    let bench = inCall("b1")
    var next = bench.takenOver()
    let told = next.watch("b2")
    #expect(told?.calls.count == 1)
    let talking = Talking(
      number: 1, calls: [Self.other],
      details: [Talking.Detail(callee: "carol", since: next.now + .seconds(1))])
    next.say(.attach(Attach(announce: true, talking: talking)), device: "b3")
    next = next.begun()
    #expect(next.shown("b2").map { $0.calls.map(\.call) } == [[Bench.callID, Self.other]])
  }

  @Test func aSessionThatIsAnnouncedAgainIsShownWhatItMissed() {
    var bench = inCall("b1")
    bench.pass(.seconds(10))
    let version = bench.shown("b1")[0].version
    bench.effects = []
    announce(&bench, "b1", OngoingMark())
    #expect(bench.shown("b1").map(\.version) == [version])
    bench.effects = []
    announce(&bench, "b1", OngoingMark(version: version, showsCalls: true))
    bench.pass(.seconds(3))
    #expect(bench.shown("b1").isEmpty)
  }

  /// The shard forgot the user in between, and counts from the beginning.
  @Test func versionsGrowThoughTheUserWasForgotten() {
    var bench = inCall("b1")
    let shown = bench.shown("b1")[0]
    bench.caller(.hangUp)
    bench.run { $0.edgeLost(1, now: $1, into: &$2) }
    bench.effects = []
    announce(&bench, "b1", OngoingMark(version: shown.version + 7, showsCalls: true))
    #expect(bench.shown("b1").map(\.calls) == [[]])
    #expect(bench.shown("b1")[0].version > shown.version + 7)
  }

  @Test("an attacker's device has seen the last version there can be") func marksOfAnAttacker() {
    var bench = bench("b2")
    announce(&bench, "b1", OngoingMark(version: .max, showsCalls: true))
    answer(&bench)
    #expect(bench.shown("b2").map(\.calls.count) == [1])
    #expect(bench.shown("b2")[0].version < 3 << 20)
  }

  // MARK: Calls that the user placed

  private func talk(_ bench: inout Bench, _ calls: [CallID], number: UInt64 = 1) {
    let details = calls.map { _ in Talking.Detail(callee: "carol", since: bench.now) }
    bench.say(.talking(Talking(number: number, calls: calls, details: details)), device: "b1")
  }

  @Test("R21: devices see the calls that the user placed") func placedCalls() {
    var bench = bench("b1", "b2")
    talk(&bench, [Self.other])
    let call = OngoingCall(
      call: Self.other, callee: "carol", isPlaced: true, device: "b1", deviceName: "Bob's b1",
      peer: "carol", since: bench.now)
    #expect(bench.shown("b2").map(\.calls) == [[call]])
    talk(&bench, [], number: 2)
    #expect(bench.shown("b2").map(\.calls) == [[call], []])
    // A report that is late, and one of a version that names no callees.
    talk(&bench, [Self.other])
    bench.say(.talking(Talking(number: 3, calls: [Self.other])), device: "b1")
    #expect(bench.shown("b2").count == 2)
  }

  @Test("R22: a placed call is shown while its caller may stay away") func theCallerIsAway() {
    var bench = bench("b1", "b2")
    bench.enrol("b1")
    talk(&bench, [Self.other])
    var signedOut = bench
    bench.close("b1")
    bench.seen("b2", bench.shown("b2")[0].version)
    bench.pass(.seconds(59))
    #expect(bench.shown("b2").count == 1)
    bench.pass(.seconds(2))
    #expect(bench.shown("b2").last?.calls == [])
    signedOut.close("b1", graceful: true)
    #expect(signedOut.shown("b2").map(\.calls.count) == [1, 0])
  }

  @Test func aCallToOneselfHasTwoSides() {
    var bench = bench("b1", "b2", "b3")
    bench.place(user: "bob", device: "b1")
    bench.answer("b2")
    talk(&bench, [Bench.callID])
    let last = bench.shown("b3").last?.calls ?? []
    #expect(last.map(\.device) == ["b2", "b1"] && last.map(\.isPlaced) == [false, true])
  }

  @Test("those that go on for longest are listed") func limited() {
    var bench = bench("b2")
    for index in 0..<3 {
      let calls = (0..<10).map { CallID(high: 7, low: UInt64(10 * index + $0)) }
      let details = calls.map {
        Talking.Detail(callee: "carol", since: Timestamp(microseconds: 100 - Int64($0.low)))
      }
      bench.say(.attach(Attach()), device: "p\(index)")
      bench.say(.talking(Talking(number: 1, calls: calls, details: details)), device: "p\(index)")
    }
    let calls = bench.shown("b2").last?.calls ?? []
    #expect(calls.map(\.call.low) == (14..<30).reversed())
  }
}

/// A user's own devices never ring for a call that the user placed, unless it is to the user.
@Suite struct OwnCallTests {
  private static let second = CallID(high: 1, low: 2)

  @Test("R21: the caller's other devices are not rung") func otherDevicesOfTheCaller() {
    var bench = Bench()
    bench.attach("b1")
    func attach(_ device: String, forCall call: CallID? = nil) {
      bench.say(.attach(Attach(forCall: call)), user: "alice", device: device, callee: "alice")
    }
    attach("alice2")
    bench.place()
    attach("alice3")
    attach("alice2", forCall: Bench.callID)
    bench.pass(.seconds(5))
    #expect(bench.invites("alice2").isEmpty && bench.invites("alice3").isEmpty)
    #expect(bench.invites("b1").count > 1)
  }

  @Test("R21: a call to oneself does not ring where it was placed") func toOneself() {
    var bench = ringingOneself()
    var answered = bench
    let again = Bench.session("b1", 2)
    bench.attach("b1", session: again)
    bench.pass(.seconds(5))
    #expect(bench.invites("b1").isEmpty && bench.deliveries(to: again).isEmpty)
    #expect(!bench.invites("b2").isEmpty)
    #expect(answered.answer("b2")?.won == true)
    #expect(answered.answers("b1").count == 1)
  }

  /// Bob's b1 calls bob, whose b2 rings.
  private func ringingOneself() -> Bench {
    var bench = Bench()
    bench.attach("b1", "b2")
    bench.place(user: "bob", device: "b1")
    return bench
  }

  @Test("R21: nor does a new owner") func aNewOwner() {
    var next = ringingOneself().nextOwner("b1", "b2")
    next.pass(.seconds(5))
    #expect(next.invites("b1").isEmpty && !next.invites("b2").isEmpty)
  }

  @Test("R21: calls of one user's devices that cross do not ring where they were placed")
  func crossing() {
    var bench = Bench()
    bench.attach("b1", "b2", "b3")
    bench.place(user: "bob", device: "b1")
    bench.place(Self.second, user: "bob", device: "b2")
    let ofFirst = bench.deliveries(to: "b1").filter { $0.call == Bench.callID }
    let ofSecond = bench.deliveries(to: "b2").filter { $0.call == Self.second }
    #expect(!(ofFirst + ofSecond).contains { if case .invite = $0.event { true } else { false } })
    #expect(bench.invites("b3").count == 2)
  }

  @Test("R21: the caller's own device is not pushed, awake or asleep", arguments: [true, false])
  func pushes(isAwake: Bool) {
    var bench = Bench()
    for device in ["b1", "b2"] {
      if isAwake { bench.attach(device) }
      bench.enrol(device, voip: "token of \(device)")
    }
    bench.place(user: "bob", device: "b1")
    for device in ["b1", "b2"] where isAwake { bench.close(device) }
    bench.pass(.seconds(7))
    #expect(bench.pushes.map(\.device) == ["b2"])
    bench.say(.cancel, "b1")
    #expect(bench.pushes("b1").isEmpty)
  }
}

extension Bench {
  /// A device attaches that is to see its user's calls.
  @discardableResult
  mutating func watch(
    _ device: String, user: String = "bob", session: SessionRef? = nil,
    shown: OngoingMark = OngoingMark()
  ) -> OngoingCalls? {
    let attach = Attach(deviceName: "Bob's \(device)", ongoing: shown)
    let reply = say(.attach(attach), user: user, device: device, callee: user, session: session)
    guard case .attached(_, _, let ongoing)? = reply else { return nil }
    return ongoing
  }

  /// The device acknowledges what it saw.
  mutating func seen(_ device: String, _ version: UInt64) {
    let item = Acknowledgement(call: Acknowledgement.ongoingID, version: version)
    say(.ack([item]), device: device)
  }

  func shown(_ session: SessionRef) -> [OngoingCalls] {
    effects.compactMap {
      if case .showOngoing(session, let ongoing) = $0 { ongoing } else { nil }
    }
  }

  func shown(_ device: String) -> [OngoingCalls] { shown(Self.session(device)) }
}
