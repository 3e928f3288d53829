import CallCore
import Testing

/// The entries that a call which went on to other users leaves in histories.
@Suite struct HistoryDivertingTests {
  private let bob = UserKey(app: Bench.app, user: "bob")
  private let alice = UserKey(app: Bench.app, user: "alice")
  private let carol = UserKey(app: Bench.app, user: "carol")
  private let dave = UserKey(app: Bench.app, user: "dave")

  /// Alice calls bob, and the app's hook sends the call to these users instead, who have a device each.
  private func placed(to users: String...) -> DivertingBench {
    var bench = DivertingBench()
    bench.owner.shard.storedParts = .history
    for user in users { bench.attach(user, "1") }
    var request = PlaceRequest(
      call: DivertingBench.id, deviceName: "Alice's phone", callerName: "Alice A.",
      subscriptions: .history)
    request.forward = users
    bench.owner.say(.place(request), user: "alice", device: "alice1")
    bench.pump()
    return bench
  }

  private func entries(_ bench: DivertingBench) -> [(user: UserKey, entry: HistoryEntry)] {
    bench.owner.shard.historyEntries(of: DivertingBench.id)
  }

  /// Carol answers after 2 s, and hangs up 3 s later.
  private func answeredInPlace() -> DivertingBench {
    var bench = placed(to: "carol")
    bench.pass(.seconds(2))
    bench.say(.answer(description: "sdp"), "carol", "1")
    bench.pass(.seconds(3))
    bench.say(.hangUp, "carol", "1")
    return bench
  }

  @Test func whoAnsweredInPlaceOfTheCalleeHasTheCall() {
    let bench = answeredInPlace()
    let start = DivertingBench().owner.now
    let end = start + .seconds(5)
    #expect(entries(bench).map(\.user) == [bob, alice, carol])
    #expect(entries(bench).map(\.entry.wentTo) == [["carol"], ["carol"], []])
    let others = entries(bench).map(\.entry).map { entry in
      var entry = entry
      entry.wentTo = []
      return entry
    }
    #expect(
      others == [
        HistoryEntry(
          call: DivertingBench.id, callee: "bob", isPlaced: false, peer: "alice",
          peerName: "Alice A.", placedAt: start, endedAt: start, reason: .unanswered,
          wentOn: true, answeredBy: "carol"),
        HistoryEntry(
          call: DivertingBench.id, callee: "bob", isPlaced: true, peer: "bob", device: "alice1",
          deviceName: "Alice's phone", placedAt: start, answeredAt: start + .seconds(2),
          endedAt: end, reason: .hungUp, answeredBy: "carol"),
        HistoryEntry(
          call: DivertingBench.id, callee: "bob", isPlaced: false, peer: "alice",
          peerName: "Alice A.", device: "1", deviceName: "carol's 1", placedAt: start,
          answeredAt: start + .seconds(2), endedAt: end, reason: .hungUp, divertedBy: "bob"),
      ])
  }

  @Test(
    "each learns to whom the call went on, and nobody a group's members", arguments: [true, false])
  func whereItWent(isGroup: Bool) {
    var bench = DivertingBench()
    bench.owner.shard.storedParts = .history
    if isGroup {
      bench.owner.set(CallGroup(users: ["carol"], order: .together, turnSeconds: 10), of: "bob")
    } else {
      bench.owner.set(UserRules(onUnreachable: .init(users: ["carol"])), of: "bob")
    }
    bench.guests.set(UserRules(onNoAnswer: .init(users: ["dave"]), noAnswerSeconds: 5), of: "carol")
    for user in ["carol", "dave"] { bench.attach(user, "1") }
    bench.subscriptions = .history
    bench.place()
    bench.pass(.seconds(6))
    bench.owner.caller(.call(DivertingBench.id, .cancel))
    let found = entries(bench)
    #expect(
      found.map(\.user.user)
        == (isGroup ? ["bob", "alice", "carol"] : ["bob", "alice", "carol", "dave"]))
    #expect(
      found.map(\.entry.wentTo)
        == (isGroup ? [[], [], []] : [["carol"], ["carol", "dave"], ["dave"], []]))
  }

  @Test func aNewOwnerSaysTheSame() {
    let bench = answeredInPlace()
    var next = bench.takenOver()
    next.owner.shard.storedParts = .history
    #expect(entries(next).map(\.user) == [bob, alice, carol])
    #expect(entries(next).map(\.entry) == entries(bench).map(\.entry))
  }

  @Test func ofThoseWhoRingTogetherWhoAnsweredHasTheCall() {
    var bench = placed(to: "dave", "carol")
    bench.say(.answer(description: ""), "carol", "1")
    bench.say(.hangUp, "carol", "1")
    #expect(entries(bench).map(\.user) == [bob, alice, carol, dave])
    #expect(entries(bench).map(\.entry.divertedBy) == ["", "", "bob", "bob"])
    // At dave's it ended when carol answered.
    let daves = entries(bench).last?.entry
    #expect(daves?.reason == .answeredElsewhere && daves?.answeredBy == "carol")
    #expect(daves?.isMissed == false && daves?.answeredAt == nil)
  }

  /// For the callee it was over when it went on.
  @Test func aCallThatNobodyAnsweredIsMissedByAllWhomItRang() {
    var bench = placed(to: "carol")
    let start = bench.owner.now
    bench.pass(.seconds(4))
    bench.owner.caller(.call(DivertingBench.id, .cancel))
    let end = start + .seconds(4)
    #expect(entries(bench).map(\.user) == [bob, alice, carol])
    #expect(entries(bench).map(\.entry.reason) == [.unanswered, .cancelled, .cancelled])
    #expect(entries(bench).map(\.entry.endedAt) == [start, end, end])
    #expect(entries(bench).map(\.entry.isMissed) == [true, false, true])
    #expect(entries(bench).map(\.entry.wentOn) == [true, false, false])
    #expect(entries(bench).map(\.entry.divertedBy) == ["", "", "bob"])
    var next = bench.takenOver()
    next.owner.shard.storedParts = .history
    #expect(entries(next).map(\.user) == [bob, alice, carol])
    #expect(entries(next).map(\.entry) == entries(bench).map(\.entry))
  }

  /// No device of dave's rang, so he is notified of nothing.
  @Test func whoHasNoDeviceHasNothingOfIt() {
    var bench = DivertingBench()
    bench.owner.shard.storedParts = .history
    bench.attach("carol", "1")
    var request = PlaceRequest(call: DivertingBench.id, subscriptions: .history)
    request.forward = ["dave", "carol"]
    bench.owner.say(.place(request), user: "alice", device: "alice1")
    bench.pump()
    bench.owner.caller(.call(DivertingBench.id, .cancel))
    #expect(entries(bench).map(\.user) == [bob, alice, carol])
  }

  /// Bob calls himself, and his app's hook sends that on.
  @Test func aCallToOneselfThatWentOnInVain() {
    var bench = DivertingBench()
    bench.owner.shard.storedParts = .history
    bench.attach("carol", "1")
    var request = PlaceRequest(call: DivertingBench.id, subscriptions: .history)
    request.forward = ["carol"]
    bench.owner.say(.place(request), user: "bob", device: "b1")
    bench.pump()
    bench.say(.decline(.everywhere), "carol", "1")
    #expect(entries(bench).map(\.user) == [bob, carol])
    #expect(entries(bench).map(\.entry.reason) == [.declined, .declined])
  }

  @Test func whoDeclinedKnowsOfIt() {
    var bench = placed(to: "dave", "carol")
    bench.say(.decline(.everywhere), "dave", "1")
    bench.pass(.seconds(2))
    bench.owner.caller(.call(DivertingBench.id, .cancel))
    let dave = UserKey(app: Bench.app, user: "dave")
    #expect(entries(bench).map(\.user) == [bob, alice, dave, carol])
    #expect(entries(bench).map(\.entry.reason) == [.unanswered, .cancelled, .declined, .cancelled])
    #expect(entries(bench).map(\.entry.isMissed) == [true, false, false, true])
  }
}
