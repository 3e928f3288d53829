import CallCore
import Testing

/// The entries that a call which went on to other users leaves in histories.
@Suite struct HistoryDivertingTests {
  /// Alice calls bob, and the app's hook sends the call to these users instead, who have a device each.
  private func placed(
    to users: String..., by caller: (user: String, device: String) = ("alice", "alice1"),
    attached: [String]? = nil
  ) -> DivertingBench {
    var bench = DivertingBench()
    bench.keep(.history)
    for user in attached ?? users { bench.attach(user) }
    var request = PlaceRequest(
      call: DivertingBench.id, deviceName: "Alice's phone", callerName: "Alice A.",
      subscriptions: .history)
    request.forward = users
    bench.owner.say(.place(request), user: caller.user, device: caller.device)
    bench.pump()
    return bench
  }

  private func users(_ bench: DivertingBench) -> [String] { bench.entries.map(\.user.user) }

  /// Its new owner says the same.
  private func expectSame(_ bench: DivertingBench) {
    var next = bench.takenOver()
    next.keep(.history)
    #expect(next.entries.map(\.user) == bench.entries.map(\.user))
    #expect(next.entries.map(\.entry) == bench.entries.map(\.entry))
  }

  /// Carol answers after 2 s, and hangs up 3 s later.
  @Test func whoAnsweredInPlaceOfTheCalleeHasTheCall() {
    var bench = placed(to: "carol")
    let start = bench.owner.now
    bench.pass(.seconds(2))
    bench.say(.answer(description: "sdp"), "carol")
    bench.pass(.seconds(3))
    bench.say(.hangUp, "carol")
    let end = start + .seconds(5)
    #expect(bench.entries.map(\.user) == ["bob", "alice", "carol"].map(Self.key))
    var bobs = HistoryEntry(
      call: DivertingBench.id, callee: "bob", isPlaced: false, peer: "alice",
      peerName: "Alice A.", placedAt: start, endedAt: start, reason: .unanswered,
      wentOn: true, answeredBy: "carol")
    var alices = HistoryEntry(
      call: DivertingBench.id, callee: "bob", isPlaced: true, peer: "bob", device: "alice1",
      deviceName: "Alice's phone", placedAt: start, answeredAt: start + .seconds(2),
      endedAt: end, reason: .hungUp, answeredBy: "carol")
    let carols = HistoryEntry(
      call: DivertingBench.id, callee: "bob", isPlaced: false, peer: "alice",
      peerName: "Alice A.", device: "1", deviceName: "carol's 1", placedAt: start,
      answeredAt: start + .seconds(2), endedAt: end, reason: .hungUp, divertedBy: "bob")
    (bobs.wentTo, alices.wentTo) = (["carol"], ["carol"])
    #expect(bench.entries.map(\.entry) == [bobs, alices, carols])
    expectSame(bench)
  }

  private static func key(_ user: String) -> UserKey { UserKey(app: Bench.app, user: user) }

  @Test(
    "each learns to whom the call went on, and nobody a group's members", arguments: [true, false])
  func whereItWent(isGroup: Bool) {
    var bench = DivertingBench()
    if isGroup {
      bench.owner.set(CallGroup(users: ["carol"], order: .together, turnSeconds: 10), of: "bob")
    } else {
      bench.owner.set(UserRules(onUnreachable: .init(users: ["carol"])), of: "bob")
    }
    bench.guests.set(UserRules(onNoAnswer: .init(users: ["dave"]), noAnswerSeconds: 5), of: "carol")
    for user in ["carol", "dave"] { bench.attach(user) }
    bench.keep(.history)
    bench.place()
    bench.pass(.seconds(6))
    bench.owner.caller(.cancel)
    let expected: [(user: String, wentTo: [String])] =
      isGroup
      ? [("bob", []), ("alice", []), ("carol", [])]
      : [("bob", ["carol"]), ("alice", ["carol", "dave"]), ("carol", ["dave"]), ("dave", [])]
    #expect(users(bench) == expected.map(\.user))
    #expect(bench.entries.map(\.entry.wentTo) == expected.map(\.wentTo))
  }

  /// For the callee it was over when it went on.
  @Test func aCallThatNobodyAnsweredIsMissedByAllWhomItRang() {
    var bench = placed(to: "carol")
    let start = bench.owner.now
    bench.pass(.seconds(4))
    bench.owner.caller(.cancel)
    let end = start + .seconds(4)
    #expect(users(bench) == ["bob", "alice", "carol"])
    #expect(bench.entries.map(\.entry.reason) == [.unanswered, .cancelled, .cancelled])
    #expect(bench.entries.map(\.entry.endedAt) == [start, end, end])
    #expect(bench.entries.map(\.entry.isMissed) == [true, false, true])
    #expect(bench.entries.map(\.entry.wentOn) == [true, false, false])
    #expect(bench.entries.map(\.entry.divertedBy) == ["", "", "bob"])
    expectSame(bench)
  }

  /// No device of dave's rang, so he is notified of nothing.
  @Test func whoHasNoDeviceHasNothingOfIt() {
    var bench = placed(to: "dave", "carol", attached: ["carol"])
    bench.owner.caller(.cancel)
    #expect(users(bench) == ["bob", "alice", "carol"])
  }

  /// Bob calls himself, and his app's hook sends that on.
  @Test func aCallToOneselfThatWentOnInVain() {
    var bench = placed(to: "carol", by: ("bob", "b1"))
    bench.say(.decline(.everywhere), "carol")
    #expect(users(bench) == ["bob", "carol"])
    #expect(bench.entries.map(\.entry.reason) == [.declined, .declined])
  }

  @Test func whoDeclinedKnowsOfIt() {
    var bench = placed(to: "dave", "carol")
    bench.say(.decline(.everywhere), "dave")
    bench.pass(.seconds(2))
    bench.owner.caller(.cancel)
    #expect(users(bench) == ["bob", "alice", "dave", "carol"])
    #expect(bench.entries.map(\.entry.reason) == [.unanswered, .cancelled, .declined, .cancelled])
    #expect(bench.entries.map(\.entry.isMissed) == [true, false, false, true])
  }
}
