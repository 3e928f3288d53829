import CallCore
import Testing

/// Descriptions and candidates keep their order, whatever the bus loses.
@Suite struct SignalOrderTests {
  private func ringing() -> Bench {
    var bench = Bench()
    bench.attach("b1")
    bench.place()
    bench.acknowledgeAll()
    _ = bench.take()
    return bench
  }

  private func answered() -> Bench {
    var bench = ringing()
    bench.say(.call(Bench.callID, .answer(description: "sdp")), device: "b1")
    bench.acknowledgeAll()
    _ = bench.take()
    return bench
  }

  private func candidate(_ number: UInt64) -> Command.Body {
    .call(Bench.callID, .signal(.candidate, body: "c\(number)"))
  }

  private func bodies(_ bench: Bench, _ device: String) -> [String] {
    bench.signals(device).map(\.body)
  }

  // MARK: What arrives

  @Test(
    "R17: one whose predecessor was lost is not taken, and not answered", arguments: [false, true])
  func aGap(fromCaller: Bool) {
    var bench = answered()
    func say(_ number: UInt64, after: UInt64) -> Reply? {
      fromCaller
        ? bench.caller(candidate(number), number: number, after: after)
        : bench.say(candidate(number), device: "b1", number: number, after: after)
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

  @Test("R17: while it rings the order is kept for the invite and for the answer")
  func aGapWhileItRings() {
    var bench = ringing()
    #expect(bench.caller(candidate(42), number: 42, after: 41) == nil)
    #expect(bench.caller(candidate(41), number: 41) == .done)
    #expect(bench.caller(candidate(42), number: 42, after: 41) == .done)
    #expect(bench.say(candidate(52), device: "b1", number: 52, after: 51) == nil)
    #expect(bench.say(candidate(51), device: "b1", number: 51) == .done)
    #expect(bench.say(candidate(52), device: "b1", number: 52, after: 51) == .done)
    bench.attach("b2")
    #expect(bench.invites("b2").first?.signals.map(\.body) == ["c41", "c42"])
    bench.say(.call(Bench.callID, .answer(description: "sdp")), device: "b1")
    #expect(bench.answers().first?.signals.map(\.body) == ["c51", "c52"])
  }

  @Test("R17: nobody waits for a predecessor of what is dropped anyway")
  func whatNobodyGets() {
    var bench = ringing()
    bench.attach("b2")
    bench.say(.call(Bench.callID, .answer(description: "sdp")), device: "b1")
    #expect(bench.say(candidate(9), device: "b2", number: 9, after: 8) == .done, "it lost")
    bench.caller(.call(Bench.callID, .hangUp))
    #expect(bench.caller(candidate(9), number: 9, after: 8) == .done)
    #expect(bench.say(candidate(9), device: "b1", number: 9, after: 8) == .done)
  }

  @Test("R10, R17: a new owner knows from the journal what came", arguments: [false, true])
  func aNewOwner(checkpoint: Bool) {
    var bench = answered()
    bench.caller(candidate(31), number: 31)
    bench.caller(candidate(32), number: 32, after: 31)
    var next = checkpoint ? bench.restoredFromCheckpoint() : bench.takenOver()
    next.say(.attach(Attach(announce: true)), device: "b1")
    next.run { $0.begin(now: $1, into: &$2) }
    next.caller(.call(Bench.callID, .resume))
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
    bench.say(candidate(51), device: "b1", number: 51)
    bench.acknowledgeAll()
    var next = bench.restoredFromCheckpoint()
    next.say(.attach(Attach(announce: true)), device: "b1")
    next.run { $0.begin(now: $1, into: &$2) }
    next.caller(.call(Bench.callID, .resume))
    #expect(next.caller(candidate(31), number: 31) == .done)
    #expect(next.say(candidate(51), device: "b1", number: 51) == .done)
    #expect(bodies(next, "b1").isEmpty && bodies(next, "alice1").isEmpty)
    #expect(next.caller(candidate(32), number: 32, after: 31) == .done)
    #expect(bodies(next, "b1") == ["c32"])
  }

  // MARK: What is delivered

  @Test("R17: a delivery names the one before it while that one is not acknowledged")
  func deliveriesNameTheirPredecessors() {
    var bench = answered()
    for number: UInt64 in 31...33 { bench.caller(candidate(number), number: number) }
    let first = bench.deliveries(to: "b1")
    #expect(first.map(\.after) == [0, first[0].version, first[1].version])
    bench.say(
      .ack([Acknowledgement(call: Bench.callID, version: first[0].version)]), device: "b1")
    _ = bench.take()
    bench.pass(.milliseconds(500))
    let again = bench.deliveries(to: "b1")
    #expect(again.map(\.version) == [first[1].version, first[2].version])
    #expect(again.map(\.after) == [0, first[1].version], "it has all before those")
  }

  @Test("R17: the caller has the answer before the winner's candidates")
  func behindTheAnswer() {
    var bench = ringing()
    bench.say(.call(Bench.callID, .answer(description: "sdp")), device: "b1")
    bench.say(candidate(51), device: "b1", number: 51)
    let heard = bench.deliveries(to: "alice1")
    #expect(heard.count == 2)
    #expect(heard.map(\.after) == [0, heard[0].version])
  }

  @Test("R17: an app that began anew is told from the first that nobody acknowledged")
  func anotherSession() {
    var bench = answered()
    for number: UInt64 in 31...33 { bench.caller(candidate(number), number: number) }
    let first = bench.deliveries(to: "b1")
    bench.say(
      .ack([Acknowledgement(call: Bench.callID, version: first[0].version)]), device: "b1")
    _ = bench.take()
    let session = Bench.session("b1", 2)
    bench.say(.attach(Attach()), device: "b1", session: session)
    let told = bench.deliveries(to: session)
    #expect(told.count == 3)
    #expect(told.map(\.after) == [0, told[0].version, told[1].version])
  }

  @Test("R10: the attempts of a delivery are kept until the journal takes it")
  func notRepeatedWhileHeldBack() {
    var bench = ringing()
    bench.caller(.call(Bench.callID, .cancel))
    let stop = bench.stops("b1").count
    #expect(stop == 1)
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
    var before = Bench()
    before.attach("b1")
    before.place()
    // Its session breaks, and the caller goes on; then the shard gets a new owner.
    before.say(.sessionClosed(graceful: false), device: "b1")
    before.caller(candidate(21), number: 21)
    var bench = before.takenOver()
    bench.say(.attach(Attach(announce: true)), device: "b1")
    bench.run { $0.begin(now: $1, into: &$2) }
    #expect(bench.invites("b1").map(\.signals.count) == [1])
    // The new invite is lost; the answer is the one to the invite before.
    #expect(bench.say(.call(Bench.callID, .answer(description: "")), device: "b1")?.won == true)
    let session = Bench.session("b1", 2)
    bench.say(.attach(Attach()), device: "b1", session: session)
    let told = bench.deliveries(to: session).compactMap {
      if case .signal(let signal) = $0.event { signal.body } else { nil }
    }
    #expect(told.count == 1)
  }

  @Test(
    "R17: who answered a former owner's invite, and has no session, gets all candidates when it is back",
    arguments: [false, true])
  func candidatesBeforeTheTakeOver(isMore: Bool) {
    var before = ringing()
    before.caller(candidate(21), number: 21)
    before.caller(candidate(22), number: 22)
    // The device's answer reaches nobody until the shard has a new owner, and its socket is broken then.
    var bench = before.takenOver()
    bench.run { $0.begin(now: $1, into: &$2) }
    if isMore { bench.caller(candidate(23), number: 23) }
    #expect(bench.say(.call(Bench.callID, .answer(description: "")), device: "b1")?.won == true)
    bench.caller(candidate(24), number: 24)
    let session = Bench.session("b1", 2)
    bench.say(.attach(Attach()), device: "b1", session: session)
    let told = bench.deliveries(to: session).compactMap {
      if case .signal(let signal) = $0.event { signal.index } else { nil }
    }
    #expect(told.count == (isMore ? 4 : 3))
    #expect(told == told.sorted())
  }

  @Test(
    "R2: what a device says of a former owner's invite, behind the call's end, takes no stop from it",
    arguments: [false, true])
  func lateWords(isAnswered: Bool) {
    var before = Bench()
    for device in ["b1", "b2"] { before.attach(device) }
    before.place()
    before.caller(candidate(21), number: 21)
    var bench = before.takenOver()
    bench.run { $0.begin(now: $1, into: &$2) }
    if isAnswered {
      bench.say(.call(Bench.callID, .answer(description: "")), device: "b2")
    } else {
      bench.caller(.call(Bench.callID, .cancel))
    }
    bench.say(.call(Bench.callID, .alerting), device: "b1")
    let session = Bench.session("b1", 2)
    bench.say(.attach(Attach()), device: "b1", session: session)
    let told = bench.deliveries(to: session)
    #expect(told.count == 1)
    guard case .stop? = told.first?.event else {
      Issue.record("\(told)")
      return
    }
  }

  @Test("R2: a stop waits for nothing")
  func stopsAtOnce() {
    var bench = ringing()
    bench.caller(candidate(41), number: 41)
    bench.caller(.call(Bench.callID, .cancel))
    #expect(bench.deliveries(to: "b1").last?.after == 0)
  }
}
