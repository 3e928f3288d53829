import CallCore
import Testing

/// Descriptions and candidates keep their order, whatever the bus loses.
@Suite struct SignalOrderTests {
  private func ringing() -> Bench {
    var bench = Bench.ringing("b1")
    bench.acknowledgeAll()
    _ = bench.take()
    return bench
  }

  private let back = Bench.session("b1", 2)

  private func answered() -> Bench {
    var bench = ringing()
    bench.answer("b1", "sdp")
    bench.acknowledgeAll()
    _ = bench.take()
    return bench
  }

  private func candidate(_ number: UInt64) -> CallVerb { .signal(.candidate, body: "c\(number)") }

  /// Three candidates of the caller, of which b1 acknowledges the first; its deliveries.
  private func threeCandidates(_ bench: inout Bench) -> [Delivery] {
    for number: UInt64 in 31...33 { bench.caller(candidate(number), number: number) }
    let deliveries = bench.deliveries(to: "b1")
    bench.say(
      .ack([Acknowledgement(call: Bench.callID, version: deliveries[0].version)]), device: "b1")
    _ = bench.take()
    return deliveries
  }

  private func bodies(_ bench: Bench, _ device: String) -> [String] {
    bench.signals(device).map(\.body)
  }

  // MARK: What arrives

  @Test("R17: one whose predecessor was lost is not taken", arguments: [false, true])
  func aGap(fromCaller: Bool) {
    var bench = answered()
    func say(_ number: UInt64, after: UInt64) -> Reply? {
      fromCaller
        ? bench.caller(candidate(number), number: number, after: after)
        : fromB1(&bench, number, after: after)
    }
    #expect(say(31, after: 0) == .done)
    #expect(say(33, after: 32) == nil)
    #expect(say(34, after: 33) == nil)
    // The edge retransmits all that is unanswered, in its order.
    #expect(say(32, after: 0) == .done)
    #expect(say(33, after: 32) == .done)
    #expect(say(34, after: 33) == .done)
    #expect(say(33, after: 32) == .done, "a repetition is answered like the first")
    let to = fromCaller ? "b1" : "alice1"
    #expect(bodies(bench, to) == ["c31", "c32", "c33", "c34"])
    #expect(bench.signals(to).map(\.index) == [1, 2, 3, 4])
  }

  private func fromB1(
    _ bench: inout Bench, _ number: UInt64, after: UInt64 = 0, device: String = "b1"
  ) -> Reply? {
    bench.say(.call(Bench.callID, candidate(number)), device: device, number: number, after: after)
  }

  @Test("R17: while it rings the order is kept for invite and answer") func aGapWhileItRings() {
    var bench = ringing()
    #expect(bench.caller(candidate(42), number: 42, after: 41) == nil)
    #expect(bench.caller(candidate(41), number: 41) == .done)
    #expect(bench.caller(candidate(42), number: 42, after: 41) == .done)
    #expect(fromB1(&bench, 52, after: 51) == nil)
    #expect(fromB1(&bench, 51) == .done)
    #expect(fromB1(&bench, 52, after: 51) == .done)
    bench.attach("b2")
    #expect(bench.invites("b2").first?.signals.map(\.body) == ["c41", "c42"])
    bench.answer("b1", "sdp")
    #expect(bench.answers().first?.signals.map(\.body) == ["c51", "c52"])
  }

  @Test("R17: nobody waits for a predecessor of what is dropped anyway") func whatNobodyGets() {
    var bench = ringing()
    bench.attach("b2")
    bench.answer("b1", "sdp")
    #expect(fromB1(&bench, 9, after: 8, device: "b2") == .done, "it lost")
    bench.caller(.hangUp)
    #expect(bench.caller(candidate(9), number: 9, after: 8) == .done)
    #expect(fromB1(&bench, 9, after: 8) == .done)
  }

  @Test("R10, R17: a new owner knows from the journal what came", arguments: [false, true])
  func aNewOwner(checkpoint: Bool) {
    var bench = answered()
    bench.caller(candidate(31), number: 31)
    bench.caller(candidate(32), number: 32, after: 31)
    var next = bench.nextOwner("b1", checkpoint: checkpoint)
    next.caller(.resume)
    // The replies were lost with the former owner, and so was the third.
    #expect(next.caller(candidate(34), number: 34, after: 33) == nil)
    for number: UInt64 in 31...34 {
      let reply = next.caller(
        candidate(number), number: number, after: number == 31 ? 0 : number - 1)
      #expect(reply == .done)
    }
    #expect(bodies(next, "b1") == ["c31", "c32", "c33", "c34"])
  }

  @Test("R9, R10: what was acknowledged before a checkpoint is known again behind it")
  func acknowledgedBeforeACheckpoint() {
    var bench = answered()
    bench.caller(candidate(31), number: 31)
    #expect(fromB1(&bench, 51) == .done)
    bench.acknowledgeAll()
    var next = bench.nextOwner("b1", checkpoint: true)
    next.caller(.resume)
    #expect(next.caller(candidate(31), number: 31) == .done)
    #expect(fromB1(&next, 51) == .done)
    #expect(bodies(next, "b1").isEmpty && bodies(next, "alice1").isEmpty)
    #expect(next.caller(candidate(32), number: 32, after: 31) == .done)
    #expect(bodies(next, "b1") == ["c32"])
  }

  // MARK: What is delivered

  @Test("R17: a delivery names the one before it while that one is not acknowledged")
  func deliveriesNameTheirPredecessors() {
    var bench = answered()
    let first = threeCandidates(&bench)
    #expect(first.map(\.after) == [0, first[0].version, first[1].version])
    bench.pass(.milliseconds(500))
    let again = bench.deliveries(to: "b1")
    #expect(again.map(\.version) == [first[1].version, first[2].version])
    #expect(again.map(\.after) == [0, first[1].version], "it has all before those")
  }

  @Test("R17: the caller has the answer before the winner's candidates") func behindTheAnswer() {
    var bench = ringing()
    bench.answer("b1", "sdp")
    #expect(fromB1(&bench, 51) == .done)
    let heard = bench.deliveries(to: "alice1")
    #expect(heard.count == 2)
    #expect(heard.map(\.after) == [0, heard[0].version])
  }

  @Test("R17: an app that began anew gets all that nobody acknowledged") func anotherSession() {
    var bench = answered()
    _ = threeCandidates(&bench)
    bench.attach("b1", session: back)
    let told = bench.deliveries(to: back)
    #expect(told.count == 3)
    #expect(told.map(\.after) == [0, told[0].version, told[1].version])
  }

  @Test("R10: attempts are kept until the journal takes the delivery")
  func notRepeatedWhileHeldBack() {
    var bench = ringing()
    bench.caller(.cancel)
    #expect(bench.stops("b1").count == 1)
    for _ in 0..<20 {
      bench.now = bench.now + .milliseconds(500)
      bench.run { $0.fire(now: $1, isHeldBack: true, into: &$2) }
    }
    #expect(bench.stops("b1").count == 1)
    bench.pass(.seconds(10))
    #expect(bench.stops("b1").count == 5, "four attempts more, as ever")
  }

  @Test("R17: who answers an earlier invite gets the candidates of the later one, which was lost")
  func candidatesOfALostInvite() {
    var before = Bench.ringing("b1")
    // Its session breaks, and the caller goes on; then the shard gets a new owner.
    before.close("b1")
    before.caller(candidate(21), number: 21)
    var bench = before.nextOwner("b1")
    #expect(bench.invites("b1").map(\.signals.count) == [1])
    // The new invite is lost; the answer is the one to the invite before.
    #expect(bench.answer("b1")?.won == true)
    bench.attach("b1", session: back)
    #expect(bench.deliveries(to: back).count { $0.event.kind == "signal" } == 1)
  }

  @Test(
    "R17: who answered a former owner's invite gets all candidates later",
    arguments: [false, true])
  func candidatesBeforeTheTakeOver(isMore: Bool) {
    var before = ringing()
    before.caller(candidate(21), number: 21)
    before.caller(candidate(22), number: 22)
    // The device's answer reaches nobody until the shard has a new owner, and its socket is broken then.
    var bench = before.nextOwner()
    if isMore { bench.caller(candidate(23), number: 23) }
    #expect(bench.answer("b1")?.won == true)
    bench.caller(candidate(24), number: 24)
    bench.attach("b1", session: back)
    let told = bench.deliveries(to: back).map(\.event).signals.map(\.index)
    #expect(told.count == (isMore ? 4 : 3))
    #expect(told == told.sorted())
  }

  @Test("R2: late words about a former owner's invite take no stop away", arguments: [false, true])
  func lateWords(isAnswered: Bool) {
    var before = Bench.ringing("b1", "b2")
    before.caller(candidate(21), number: 21)
    var bench = before.nextOwner()
    if isAnswered { bench.answer("b2") } else { bench.caller(.cancel) }
    bench.say(.alerting, "b1")
    bench.attach("b1", session: back)
    #expect(bench.deliveries(to: back).map(\.event.kind) == ["stop"])
  }

  @Test("R2: a stop waits for nothing") func stopsAtOnce() {
    var bench = ringing()
    bench.caller(candidate(41), number: 41)
    bench.caller(.cancel)
    #expect(bench.deliveries(to: "b1").last?.after == 0)
  }
}
