import CallCore
import Testing

/// The winner's device loses its session in an answered call. Its app may have been killed, and know nothing of the call
/// when it attaches again (R22): as the caller's, it has a time in which to say something about the call.
@Suite struct WinnerAwayTests {
  /// Bob's b1 has answered, and lost its session ten seconds later.
  private func bench() -> Bench {
    var bench = talking()
    bench.close("b1")
    _ = bench.take()
    return bench
  }

  /// Bob's b1 answered ten seconds ago.
  private func talking(_ limits: CallLimits = CallLimits()) -> Bench {
    var bench = Bench.talking("b1", "b2", description: "answer", limits: limits)
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

  @Test(
    "who is back and says nothing has hung up in the end, whoever saw its former session end",
    arguments: [true, false])
  func saysNothing(isLost: Bool) {
    var bench = isLost ? bench() : talking()
    bench.attach("b1", edge: 2)
    #expect(bench.deliveries(to: later).map(\.event.kind) == ["answered"])
    if !isLost { bench.close("b1") }
    bench.endsAfter(grace, .hungUp)
    #expect(bench.ends.first?.by?.device == "b1")
  }

  @Test(
    "an acknowledgement says that it has the call; of a mere move the journal has nothing",
    arguments: [true, false])
  func acknowledges(isLost: Bool) throws {
    var bench = isLost ? bench() : talking()
    let records = bench.journal
    bench.attach("b1", edge: 2)
    try acknowledge(&bench)
    if isLost { #expect(bench.journal.last?.change == .winnerLost(until: nil)) }
    bench.pass(.seconds(300))
    #expect(bench.ends.isEmpty)
    if !isLost { #expect(bench.journal == records) }
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
    bench.say(verb, "b1", session: later)
    bench.pass(.seconds(300))
    #expect(bench.ends.isEmpty)
  }

  @Test("another device's command says nothing of it") func another() {
    var bench = bench()
    bench.attach("b1", edge: 2)
    bench.say(.query, "b2")
    bench.say(.alerting, "b2")
    bench.caller(.signal(.information, body: "{}"))
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
      bench.close("b1", session: later)
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
    bench.close("b1", session: later)
    bench.endsAfter(grace, .hungUp)
  }

  @Test("R10, R22: its shard changes its owner: the new one asks it") func newOwner() throws {
    var bench = bench().takenOver()
    bench.say(.attach(Attach(announce: true)), device: "b1", session: later)
    bench.begin()
    #expect(bench.deliveries(to: later).map(\.event.kind) == ["answered"])
    try acknowledge(&bench)
    bench.pass(.seconds(300))
    #expect(!bench.ends.contains { $0.by?.device == "b1" })
  }

  @Test("another device takes the call over meanwhile: its session counts") func pulled() {
    var bench = bench()
    bench.attach("b1", edge: 2)
    bench.say(.pull(PullRequest(from: "b1")), "b2")
    bench.say(.connected, "b2")
    bench.caller(.connected)
    bench.pass(Span(microseconds: grace.microseconds + 1_000_000))
    #expect(bench.ends.isEmpty)
    bench.close("b2")
    bench.pass(grace)
    #expect(bench.ends.first?.by?.device == "b2")
  }

  // Its former edge may learn late that the connection is gone, or never.

  @Test("a move to another edge ends no call, however short the times are that it may be away")
  func movesWithoutGrace() throws {
    var bench = talking(
      .with { ($0.resumeGraceAnswered, $0.reattachGrace) = (.seconds(0), .seconds(0)) })
    try attachesAndAcknowledges(&bench)
  }

  @Test("who leaves before it has said something gets no new time") func replacedAndLost() {
    var bench = talking()
    bench.attach("b1", edge: 2)
    bench.pass(.seconds(20))
    bench.close("b1", session: later)
    bench.endsAfter(Span(microseconds: grace.microseconds - 20_000_000), .hungUp)
  }

  /// Edges repeat commands until an owner answers them, so one may outlive the app that sent it.
  @Test("what the former run of its app has sent comes late, and says nothing of this one")
  func aFormerRunsWords() throws {
    var bench = talking()
    bench.caller(.signal(.candidate, body: "c"))
    let pending = try #require(bench.deliveries(to: "b1").last)
    bench.attach("b1", edge: 2)
    bench.say(.ack([Acknowledgement(call: pending.call, version: pending.version)]), device: "b1")
    bench.say(.connected, "b1")
    bench.say(.signal(.candidate, body: "c"), "b1")
    bench.endsAfter(grace, .hungUp)
  }

  @Test("R10, R22: a new owner gets a former run's words", arguments: [true, false])
  func aFormerRunsWordsAtANewOwner(isSilent: Bool) throws {
    var bench = nextOwner(of: bench())
    bench.say(.connected, "b1")
    if !isSilent { try acknowledge(&bench) }
    bench.pass(.seconds(300))
    #expect(bench.ends.map(\.reason) == (isSilent ? [.hungUp] : []))
  }

  /// To the new owner an edge announces b1's later session, and the caller is back.
  private func nextOwner(of bench: Bench) -> Bench {
    var next = bench.takenOver()
    next.say(.attach(Attach(announce: true)), device: "b1", session: later)
    next.announce("a1")
    next.caller(.resume)
    next.begin()
    return next
  }

  @Test("R10, R22: its app began anew without an owner", arguments: [true, false])
  func newOwnerSawNoLoss(isSilent: Bool) throws {
    var bench = nextOwner(of: talking())
    #expect(bench.deliveries(to: later).map(\.event.kind) == ["answered"])
    if !isSilent { try acknowledge(&bench) }
    bench.pass(almost)
    #expect(bench.ends.isEmpty)
    bench.pass(.seconds(300))
    #expect(bench.ends.map(\.reason) == (isSilent ? [.hungUp] : []))
  }
}
