import CallCore
import Testing

/// When something came about is said the same for ever: in replies, to who comes back, and by a new
/// owner of the shard.
@Suite struct PartingTests {
  /// b1 and b2 ring; b1 leaves the call after two seconds.
  private func left(by body: Command.Body) -> (bench: Bench, at: Timestamp, reply: CallState?) {
    var bench = Bench()
    bench.attach("b1", "b2")
    bench.place()
    bench.acknowledgeAll()
    bench.pass(.seconds(2))
    let at = bench.now
    let reply = bench.say(body, device: "b1")?.state
    bench.pass(.seconds(3))
    return (bench, at, reply)
  }

  private func asked(_ bench: Bench, _ device: String = "b1") -> CallState? {
    var bench = bench
    return bench.say(.call(Bench.callID, .query), device: device)?.state
  }

  static let partings: [(Command.Body, EndReason)] = [
    (.call(Bench.callID, .decline(.here)), .declined), (.call(Bench.callID, .busy), .busy),
  ]

  @Test("it ended for this device when it said so", arguments: partings.indices)
  func whileItRings(_ index: Int) {
    let (body, reason) = Self.partings[index]
    let (bench, at, reply) = left(by: body)
    #expect(reply?.phase == .ended && reply?.reason == reason && reply?.at == at)
    #expect(asked(bench)?.at == at)
    #expect(asked(bench, "b2")?.at != at, "for the other it is when the call was placed")
  }

  @Test("whatever becomes of the call", arguments: partings.indices)
  func afterwards(_ index: Int) {
    let (body, reason) = Self.partings[index]
    var (bench, at, _) = left(by: body)
    bench.say(.call(Bench.callID, .answer(description: "")), device: "b2")
    #expect(asked(bench)?.at == at && asked(bench)?.reason == reason)
    bench.pass(.seconds(1))
    bench.caller(.call(Bench.callID, .hangUp))
    #expect(asked(bench)?.at == at && asked(bench)?.reason == reason)
  }

  @Test("also when its decline decides the call later") func declinesInTheEnd() {
    var (bench, at, _) = left(by: .call(Bench.callID, .decline(.here)))
    bench.say(.call(Bench.callID, .busy), device: "b2")
    #expect(bench.ends.map(\.reason) == [.declined])
    #expect(bench.ends.first?.at == bench.now)
    #expect(asked(bench)?.at == at)
    #expect(asked(bench, "b2")?.at == bench.now && asked(bench, "b2")?.reason == .busy)
    #expect(asked(bench.restoredFromCheckpoint().begun())?.at == at)
  }

  @Test("a device that went is away since then") func gone() {
    let (bench, at, _) = left(by: .sessionClosed(graceful: true))
    #expect(asked(bench)?.reason == .unreachable)
    #expect(asked(bench)?.at == at)
  }

  @Test("who is back has not left") func backAgain() {
    var (bench, at, _) = left(by: .sessionClosed(graceful: true))
    bench.attach("b1")
    #expect(asked(bench)?.phase == .placed)
    bench.pass(.seconds(1))
    bench.say(.call(Bench.callID, .busy), device: "b1")
    #expect(asked(bench)?.at == at + .seconds(4))
  }

  @Test("who is back and declines for all did that, and has not left before") func backAndDeclines()
  {
    var (bench, at, _) = left(by: .sessionClosed(graceful: true))
    bench.attach("b1")
    bench.pass(.seconds(1))
    let reply = bench.say(.call(Bench.callID, .decline(.everywhere)), device: "b1")
    #expect(reply?.state?.at == at + .seconds(4) && bench.ends.first?.at == at + .seconds(4))
    #expect(asked(bench)?.at == at + .seconds(4))
  }

  @Test("a new owner says the same", arguments: partings.indices, [false, true])
  func takenOver(_ index: Int, checkpoint: Bool) {
    let (bench, at, _) = left(by: Self.partings[index].0)
    var next = checkpoint ? bench.restoredFromCheckpoint() : bench.takenOver()
    next.now = next.now + .seconds(2)
    for device in ["b1", "b2"] { next.say(.attach(Attach(announce: true)), device: device) }
    next.run { $0.begin(now: $1, into: &$2) }
    #expect(asked(next)?.at == at)
  }

  @Test("records of versions that did not say when") func withoutATime() {
    let (bench, _, _) = left(by: .call(Bench.callID, .decline(.here)))
    var old = bench
    old.journal = bench.journal.map { entry in
      guard case .legEnded(let device, let end, _) = entry.change else { return entry }
      return JournalEntry(call: entry.call, change: .legEnded(device, end, at: nil))
    }
    let placedAt = asked(bench, "b2")?.at
    #expect(placedAt != nil && asked(old.takenOver().begun())?.at == placedAt)
  }

  // MARK: What is told again

  private func answered() -> (bench: Bench, at: Timestamp) {
    var bench = Bench()
    bench.attach("b1", "b2")
    bench.place()
    bench.acknowledgeAll()
    bench.pass(.seconds(2))
    bench.say(.call(Bench.callID, .answer(description: "answer")), device: "b1")
    let at = bench.now
    bench.acknowledgeAll()
    bench.caller(.call(Bench.callID, .connected))
    bench.say(.call(Bench.callID, .connected), device: "b1")
    return (bench, at)
  }

  @Test("a winner that comes back hears when it answered") func winnerIsBack() {
    var (bench, at) = answered()
    bench.say(.sessionClosed(graceful: false), device: "b1")
    bench.pass(.seconds(5))
    let session = Bench.session("b1", 1)
    bench.say(.attach(Attach()), device: "b1", session: session)
    let told = bench.deliveries(to: session)
    #expect(told.count == 1)
    #expect(told.first?.at == at)
    #expect(told.first?.event == .answered(Answered(by: .b1)))
  }

  @Test("what it had not acknowledged keeps its time") func waitingSignals() {
    var (bench, _) = answered()
    _ = bench.take()
    bench.caller(.call(Bench.callID, .signal(.candidate, body: "c1")))
    let said = bench.now
    bench.say(.sessionClosed(graceful: false), device: "b1")
    bench.pass(.seconds(5))
    let session = Bench.session("b1", 1)
    bench.say(.attach(Attach()), device: "b1", session: session)
    #expect(bench.deliveries(to: session).map(\.at).last == said)
  }

  /// The new owner's words to those who are there.
  private func takenOver(_ bench: Bench) -> Bench {
    var next = bench.takenOver()
    next.now = next.now + .seconds(4)
    for device in ["b1", "b2"] { next.say(.attach(Attach(announce: true)), device: device) }
    next.caller(.call(Bench.callID, .resume))
    next.run { $0.begin(now: $1, into: &$2) }
    return next
  }

  @Test("a new owner says when it was answered, and was over for the others") func newOwner() {
    let (bench, at) = answered()
    let next = takenOver(bench)
    #expect(next.deliveries(to: "alice1").map(\.at) == [at])
    #expect(next.stops("b2").map(\.reason) == [.answeredElsewhere])
    #expect(next.deliveries(to: "b2").map(\.at) == [at])
  }

  @Test("a new owner says when it ended") func newOwnerOfAnEndedCall() {
    var (bench, answeredAt) = answered()
    bench.pass(.seconds(1))
    bench.caller(.call(Bench.callID, .hangUp))
    let endedAt = bench.now
    let next = takenOver(bench)
    #expect(next.deliveries(to: "alice1").map(\.at) == [endedAt])
    #expect(next.deliveries(to: "b1").map(\.at) == [endedAt])
    #expect(next.deliveries(to: "b2").map(\.at) == [answeredAt])
  }
}

extension Party {
  fileprivate static let b1 = Party(user: "bob", device: "b1", deviceName: "Bob's b1")
}
