import CallCore
import Testing

/// The winner's device loses its session in an answered call. Its app may have been killed, and know nothing of the call
/// when it attaches again (R22): as the caller's, it has a time in which to say something about the call.
@Suite struct WinnerAwayTests {
  /// Bob's b1 has answered, and lost its session ten seconds later.
  private func bench() -> Bench {
    var bench = talking()
    bench.say(.sessionClosed(graceful: false), device: "b1")
    _ = bench.take()
    return bench
  }

  /// Bob's b1 answered ten seconds ago.
  private func talking(_ limits: CallLimits = CallLimits()) -> Bench {
    var bench = Bench(limits: limits)
    bench.attach("b1", "b2")
    bench.place()
    bench.say(.call(Bench.callID, .answer(description: "answer")), device: "b1")
    bench.say(.call(Bench.callID, .connected), device: "b1")
    bench.caller(.call(Bench.callID, .connected))
    bench.acknowledgeAll()
    bench.pass(.seconds(10))
    _ = bench.take()
    return bench
  }

  private let grace = CallLimits().resumeGraceAnswered
  private var almost: Span { Span(microseconds: grace.microseconds - 1_000_000) }
  private let later = Bench.session("b1", edge: 2)

  private func acknowledge(_ bench: inout Bench) throws {
    let delivery = try #require(bench.deliveries(to: later).last)
    bench.say(
      .ack([Acknowledgement(call: delivery.call, version: delivery.version)]), device: "b1",
      session: later)
  }

  /// It acknowledges four seconds after it has attached, and the call goes on.
  private func attachesAndAcknowledges(_ bench: inout Bench) throws {
    bench.attach("b1", edge: 2)
    bench.pass(.seconds(4))
    #expect(bench.ends.isEmpty)
    try acknowledge(&bench)
    bench.pass(.seconds(300))
    #expect(bench.ends.isEmpty)
  }

  @Test("who is back and says nothing has hung up when the time is over, and is not busy any more")
  func saysNothing() {
    var bench = bench()
    bench.attach("b1", edge: 2)
    #expect(bench.deliveries(to: later).map(\.event.kind) == ["answered"])
    bench.pass(almost)
    #expect(bench.ends.isEmpty)
    bench.pass(.seconds(1))
    #expect(bench.ends.map(\.reason) == [.hungUp])
    #expect(bench.ends.first?.by?.device == "b1")
  }

  @Test("an acknowledgement says that it has the call") func acknowledges() throws {
    var bench = bench()
    bench.attach("b1", edge: 2)
    try acknowledge(&bench)
    #expect(bench.journal.last?.change == .winnerLost(until: nil))
    bench.pass(.seconds(300))
    #expect(bench.ends.isEmpty)
  }

  @Test(
    "so does any command about it",
    arguments: [
      CallVerb.connected, .signal(.information, body: "{}"), .resume, .alerting,
      .answer(description: "answer"),
    ])
  func commands(_ verb: CallVerb) {
    var bench = bench()
    bench.attach("b1", edge: 2)
    bench.say(.call(Bench.callID, verb), device: "b1", session: later)
    bench.pass(.seconds(300))
    #expect(bench.ends.isEmpty)
  }

  @Test("another device's command says nothing of it") func another() {
    var bench = bench()
    bench.attach("b1", edge: 2)
    bench.say(.call(Bench.callID, .query), device: "b2")
    bench.say(.call(Bench.callID, .alerting), device: "b2")
    bench.caller(.call(Bench.callID, .signal(.information, body: "{}")))
    bench.pass(grace)
    #expect(bench.ends.map(\.reason) == [.hungUp])
  }

  @Test("who is back in the last second has five more to say so") func lateAttach() throws {
    var bench = bench()
    bench.pass(almost)
    try attachesAndAcknowledges(&bench)
  }

  @Test("attaching and leaving again gives it no new time") func again() {
    var bench = bench()
    for _ in 0..<5 {
      bench.pass(.seconds(10))
      bench.attach("b1", edge: 2)
      bench.say(.sessionClosed(graceful: false), device: "b1", session: later)
    }
    #expect(bench.ends.isEmpty)
    bench.pass(.seconds(10))
    #expect(bench.ends.map(\.reason) == [.hungUp])
  }

  @Test("once it was back, the next loss is a new one") func lostAgain() throws {
    var bench = bench()
    bench.pass(.seconds(50))
    bench.attach("b1", edge: 2)
    try acknowledge(&bench)
    bench.say(.sessionClosed(graceful: false), device: "b1", session: later)
    bench.pass(almost)
    #expect(bench.ends.isEmpty)
    bench.pass(.seconds(1))
    #expect(bench.ends.map(\.reason) == [.hungUp])
  }

  @Test("R10, R22: it is back while its shard changes its owner: the new one asks it")
  func newOwner() throws {
    var bench = bench().takenOver()
    bench.say(.attach(Attach(announce: true)), device: "b1", session: later)
    bench = bench.begun()
    #expect(bench.deliveries(to: later).map(\.event.kind) == ["answered"])
    try acknowledge(&bench)
    bench.pass(.seconds(300))
    let ends = bench.ends.filter { $0.by?.device == "b1" }
    #expect(ends.isEmpty)
  }

  @Test("another device takes the call over meanwhile: its session counts") func pulled() {
    var bench = bench()
    bench.attach("b1", edge: 2)
    bench.say(.call(Bench.callID, .pull(PullRequest(from: "b1"))), device: "b2")
    bench.say(.call(Bench.callID, .connected), device: "b2")
    bench.caller(.call(Bench.callID, .connected))
    bench.pass(grace)
    bench.pass(.seconds(1))
    #expect(bench.ends.isEmpty)
    bench.say(.sessionClosed(graceful: false), device: "b2")
    bench.pass(grace)
    #expect(bench.ends.first?.by?.device == "b2")
  }

  // Its former edge may learn late that the connection is gone, or never.

  @Test("nobody saw its former session end: who says nothing has as much time")
  func replaced() {
    var bench = talking()
    bench.attach("b1", edge: 2)
    #expect(bench.deliveries(to: later).map(\.event.kind) == ["answered"])
    bench.say(.sessionClosed(graceful: false), device: "b1")
    bench.pass(almost)
    #expect(bench.ends.isEmpty)
    bench.pass(.seconds(1))
    #expect(bench.ends.map(\.reason) == [.hungUp])
    #expect(bench.ends.first?.by?.device == "b1")
  }

  @Test("who moves to another edge acknowledges, and the journal has nothing of it")
  func moves() throws {
    var bench = talking()
    let records = bench.journal.count
    bench.attach("b1", edge: 2)
    try acknowledge(&bench)
    bench.pass(.seconds(300))
    #expect(bench.ends.isEmpty)
    #expect(bench.journal.count == records)
  }

  @Test("a move to another edge ends no call, however short the times are that it may be away")
  func movesWithoutGrace() throws {
    var limits = CallLimits()
    (limits.resumeGraceAnswered, limits.reattachGrace) = (.seconds(0), .seconds(0))
    var bench = talking(limits)
    try attachesAndAcknowledges(&bench)
  }

  @Test("who leaves before it has said something gets no new time") func replacedAndLost() {
    var bench = talking()
    bench.attach("b1", edge: 2)
    bench.pass(.seconds(20))
    bench.say(.sessionClosed(graceful: false), device: "b1", session: later)
    bench.pass(Span(microseconds: almost.microseconds - Span.seconds(20).microseconds))
    #expect(bench.ends.isEmpty)
    bench.pass(.seconds(1))
    #expect(bench.ends.map(\.reason) == [.hungUp])
  }

  /// Edges repeat commands until an owner answers them, so one may outlive the app that sent it.
  @Test("what the former run of its app has sent comes late, and says nothing of this one")
  func aFormerRunsWords() throws {
    var bench = talking()
    bench.caller(.call(Bench.callID, .signal(.candidate, body: "c")))
    let pending = try #require(bench.deliveries(to: "b1").last)
    bench.attach("b1", edge: 2)
    bench.say(
      .ack([Acknowledgement(call: pending.call, version: pending.version)]), device: "b1")
    bench.say(.call(Bench.callID, .connected), device: "b1")
    bench.say(.call(Bench.callID, .signal(.candidate, body: "c")), device: "b1")
    bench.pass(almost)
    #expect(bench.ends.isEmpty)
    bench.pass(.seconds(1))
    #expect(bench.ends.map(\.reason) == [.hungUp])
  }

  @Test("R10, R22: a new owner gets what the former run had sent after the session of this one")
  func aFormerRunsWordsAtANewOwner() throws {
    for isSilent in [true, false] {
      var bench = talking()
      bench.say(.sessionClosed(graceful: false), device: "b1")
      bench = bench.takenOver()
      bench.say(.attach(Attach(announce: true)), device: "b1", session: later)
      bench.say(.attach(Attach(announce: true)), device: "a1", session: Bench.session("a1"))
      bench.caller(.call(Bench.callID, .resume))
      bench = bench.begun()
      bench.say(.call(Bench.callID, .connected), device: "b1")
      if !isSilent { try acknowledge(&bench) }
      bench.pass(.seconds(300))
      #expect(bench.ends.map(\.reason) == (isSilent ? [.hungUp] : []))
    }
  }

  @Test("R10, R22: its app began anew while the shard had no owner: the new one asks it, too")
  func newOwnerSawNoLoss() throws {
    for isSilent in [true, false] {
      var bench = talking().takenOver()
      bench.say(.attach(Attach(announce: true)), device: "b1", session: later)
      bench.say(.attach(Attach(announce: true)), device: "a1", session: Bench.session("a1"))
      bench.caller(.call(Bench.callID, .resume))
      bench = bench.begun()
      #expect(bench.deliveries(to: later).map(\.event.kind) == ["answered"])
      if !isSilent { try acknowledge(&bench) }
      bench.pass(almost)
      #expect(bench.ends.isEmpty)
      bench.pass(.seconds(300))
      #expect(bench.ends.map(\.reason) == (isSilent ? [.hungUp] : []))
    }
  }
}
