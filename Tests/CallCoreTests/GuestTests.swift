import CallCore
import Testing

/// Answers about devices by the shard of a user to whom a call was diverted, and their consequences.
@Suite struct GuestTests {
  /// An answer with these devices of carol's; those in `held` do not begin to ring.
  private func answer(_ devices: String..., held: Set<String> = []) -> VisitAnswer {
    VisitAnswer(
      devices: devices.map {
        .init(
          id: DeviceID($0), name: $0, session: DivertingBench.session("carol", $0),
          isHeld: held.contains($0))
      })
  }

  /// The test answers in place of carol's shard, and has answered once.
  private func bench(_ first: VisitAnswer) -> DivertingBench {
    var bench = DivertingBench.unheard("carol")
    bench.hear("carol", first)
    return bench
  }

  @Test("R25 a device that is held does not begin to ring; one that rings goes on") func held() {
    var bench = bench(answer("1", "2", held: ["2"]))
    #expect(bench.invites("carol").count == 1 && bench.invites("carol", "2").isEmpty)
    bench.hear("carol", answer("1", "2", "3", held: ["1", "2", "3"]))
    #expect(bench.stops("carol").isEmpty && bench.invites("carol", "3").isEmpty)
    #expect(bench.say(.alerting, "carol")?.state?.phase == .ringing)
    bench.hear("carol", answer("1", "2", held: ["1"]))
    #expect(bench.invites("carol", "2").count == 1)
    #expect(bench.say(.answer(), "carol")?.won == true)
  }

  @Test("R25 a user who becomes busy in mid-ring: what rings goes on, nothing new does")
  func busyInMidRing() {
    var bench = bench(answer("1"))
    var busy = answer("1", "2")
    busy.isBusy = true
    bench.hear("carol", busy)
    #expect(bench.owner.ends.isEmpty && bench.stops("carol").isEmpty)
    #expect(bench.invites("carol", "2").isEmpty)
  }

  @Test("R25 a device in too many calls is held, and its session is known all the same")
  func tooManyCalls() {
    var bench = DivertingBench.attached("carol")
    for number in 1...5 {
      let call = CallID(high: 8, low: UInt64(number))
      bench.guests.say(
        .place(PlaceRequest(call: call)), user: "erin\(number)", device: "e", callee: "carol")
    }
    let request = VisitRequest(call: DivertingBench.id, callee: "bob", caller: "alice")
    let held = bench.visit(UserKey(app: Bench.app, user: "carol"), request)
    #expect(held?.devices.map(\.isHeld) == [true])
    #expect(held?.devices.first?.session == DivertingBench.session("carol"))
    #expect(held?.isBusy == true)
  }

  @Test("R25 R14 a silent phone is pushed also while its user's shard does not know all sessions")
  func incompleteAnswers() {
    var bench = DivertingBench()
    bench.register("carol")
    bench.attach("carol")
    bench.guests.run { shard, now, _ in shard.edgeMissing(9, until: now + .seconds(75), now: now) }
    bench.place(to: "carol")
    bench.pass(.seconds(3))
    #expect(bench.pushes.map(\.purpose) == [.ring])
  }

  @Test("R10 R25 a new owner wakes the device that has lost its session since it was rung")
  func lostBeforeTheNewOwner() {
    var bench = DivertingBench()
    bench.register("carol")
    bench.attach("carol")
    bench.place(to: "carol")
    bench.isConnected = false
    bench.leave("carol")
    var next = bench.takenOver()
    next.pass(.seconds(1))
    #expect(next.pushes.map(\.purpose) == [.ring])
  }

  @Test("R25 one of many calls to a user is answered: the user is in a call for the others")
  func manyCalls() {
    var bench = DivertingBench.attached("carol")
    let carol = UserKey(app: Bench.app, user: "carol")
    func ask(_ number: UInt64, answered: Bool = false, isBusy: Bool? = nil) -> VisitAnswer? {
      bench.visit(
        carol,
        VisitRequest(
          call: CallID(high: 9, low: number), callee: "desk", caller: "caller\(number)",
          answeredBy: answered ? "1" : nil, busyWhileInCall: isBusy))
    }
    _ = ask(0, answered: true)
    for number in 1...300 { _ = ask(UInt64(number)) }
    let answer = ask(301, isBusy: true)
    #expect(answer?.isInCall == true && answer?.isBusy == true)
  }

  @Test("R25 one question after the other about many calls counts as one call each")
  func manyCallsAreCountedOnce() {
    var bench = DivertingBench.attached("carol")
    let carol = UserKey(app: Bench.app, user: "carol")
    for _ in 0..<12 {
      for number in 0..<40 {
        let request = VisitRequest(
          call: CallID(high: 9, low: UInt64(number)), callee: "desk", caller: "caller\(number)")
        #expect(bench.visit(carol, request)?.devices.count == 1)
      }
      bench.guests.pass(.seconds(1))
    }
  }

  @Test("R10, R25: the winner speaks on a session that only its user's shard knows: it is asked")
  func theWinnersNewerSession() {
    var bench = bench(answer("1"))
    #expect(bench.say(.answer(), "carol")?.won == true)
    bench.say(.connected, "carol")
    bench.owner.caller(.connected)
    bench.acknowledgeAll()
    func isAt(_ generation: UInt64) -> VisitAnswer {
      let session = DivertingBench.session("carol", "1", generation)
      return VisitAnswer(devices: [.init(id: "1", name: "1", session: session, isHeld: false)])
    }
    // The app's next run, which loses that session before it has said anything.
    bench.hear("carol", isAt(1))
    let asked = bench.asked.count
    bench.say(.signal(.candidate, body: "c"), "carol", generation: 2)
    #expect(bench.asked.count == asked + 1)
    bench.hear("carol", isAt(2))
    #expect(bench.deliveries("carol", generation: 2).map(\.event.kind) == ["answered"])
    bench.acknowledgeAll(generation: 2)
    bench.say(.signal(.candidate, body: "d"), "carol", generation: 2)
    #expect(bench.asked.count == asked + 1, "its session is known")
    bench.pass(.seconds(120))
    #expect(bench.owner.ends.isEmpty)
  }

  @Test("call waiting: the invite says that the user is in a call", arguments: [false, true])
  func secondCall(isInCall: Bool) {
    var waiting = answer("1")
    waiting.isInCall = isInCall
    let bench = bench(waiting)
    #expect(bench.invites("carol").map(\.isSecondCall) == [isInCall])
  }

  @Test("R25 who lost and has not acknowledged its stop is in no call") func losersAreFree() throws
  {
    var bench = DivertingBench.ringing("carol", "dave")
    bench.say(.answer(), "dave")
    bench.pass(.seconds(6))
    let asked = bench.asked.suffix(2)
    #expect(asked.map(\.user).sorted() == ["carol", "dave"], "carol lacks her stop")
    for (user, request) in asked { #expect(request.isOver == (user == "carol")) }
    var request = VisitRequest(call: CallID(high: 4, low: 4), callee: "bob", caller: "erin")
    request.busyWhileInCall = true
    for (user, isInCall) in [("carol", false), ("dave", true)] {
      let answer = bench.visit(UserKey(app: Bench.app, user: user), request)
      #expect(answer?.isInCall == isInCall)
    }
  }

  @Test("names that no user can have are left out, wherever they come from") func names() {
    var bench = DivertingBench()
    bench.isConnected = false
    bench.place(to: "", "a\u{1f}b", String(repeating: "x", count: 1000), "carol")
    #expect(bench.diversions.map(\.to) == [["carol"]])
    bench.hear("carol", VisitAnswer(diverted: .always, to: ["line\nfeed"]))
    #expect(bench.diversions.count == 1)
  }

  @Test(
    "R25 a token may be another user's since a shard has answered: it is asked before a push",
    arguments: [true, false])
  func oldTokens(isKept: Bool) {
    var bench = DivertingBench.ringing("carol", asleep: "carol")
    #expect(bench.pushes.map(\.purpose) == [.ring])
    bench.isConnected = false
    bench.pass(.seconds(40))
    #expect(bench.owner.ends.map(\.missed) == [true])
    if !isKept { bench.signOut("carol") }
    #expect(bench.pushes.count == 1)
    bench.isConnected = true
    bench.pass(.seconds(20))
    #expect(bench.pushes.map(\.purpose) == (isKept ? [.ring, .missed] : [.ring]))
  }

  @Test(
    "R25 a push that makes a device ring waits for such an answer, too", arguments: [true, false])
  func oldTokenRings(isKept: Bool) {
    var bench = DivertingBench()
    bench.register("carol")
    bench.attach("carol")
    bench.place(to: "carol")
    #expect(bench.invites("carol").count == 1 && bench.pushes.isEmpty)
    // The call's shard stood still, and the device is silent.
    bench.isConnected = false
    bench.owner.now = bench.owner.now + .seconds(15)
    bench.pass(.milliseconds(1))
    #expect(bench.pushes.isEmpty)
    if !isKept { bench.signOut("carol") }
    bench.isConnected = true
    bench.pass(.seconds(3))
    #expect(bench.pushes.map(\.purpose) == (isKept ? [.ring] : []))
  }

  @Test("R6 one user's decline: its timeline says so, and nobody of that user has missed the call")
  func declinedByOne() {
    var bench = DivertingBench.ringing("carol", "dave", twoOf: "carol", asleep: "carol")
    bench.say(.decline(.everywhere), "carol")
    let timeline = bench.owner.shard.inspect(call: DivertingBench.id)?.timeline ?? []
    #expect(timeline.contains { $0.what == "declined" })
    #expect(timeline.count { $0.what == "diverted" } == 1, "by the hook")
    let before = bench.pushes.count
    bench.pass(.seconds(40))
    #expect(bench.owner.ends.map(\.missed) == [true])
    #expect(!bench.pushes.dropFirst(before).contains { $0.user.user == "carol" })
  }
}
