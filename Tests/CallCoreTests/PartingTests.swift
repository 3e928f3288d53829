import CallCore
import Testing

/// When something came about is said the same for ever: in replies, to who comes back, and by a new
/// owner of the shard.
@Suite struct PartingTests {
  private static let refusals = [CallVerb.decline(.here), .busy]

  /// b1 and b2 ring; b1 refuses after two seconds, or takes its leave.
  private func left(by refusal: CallVerb?) -> (bench: Bench, at: Timestamp, reply: CallState?) {
    var bench = Bench.ringing("b1", "b2")
    bench.acknowledgeAll()
    bench.pass(.seconds(2))
    let at = bench.now
    let reply = refusal.flatMap { bench.say($0, "b1")?.state }
    if refusal == nil { bench.close("b1", graceful: true) }
    bench.pass(.seconds(3))
    return (bench, at, reply)
  }

  private func asked(_ bench: Bench, _ device: String = "b1") -> CallState? {
    var bench = bench
    return bench.state(device)
  }

  private func reason(_ refusal: CallVerb) -> EndReason { refusal == .busy ? .busy : .declined }

  @Test("it ended for this device when it said so", arguments: refusals)
  func whileItRings(_ refusal: CallVerb) {
    let (bench, at, reply) = left(by: refusal)
    #expect(reply?.phase == .ended && reply?.reason == reason(refusal) && reply?.at == at)
    #expect(asked(bench)?.at == at)
    #expect(asked(bench, "b2")?.at != at, "for the other it is when the call was placed")
  }

  @Test("whatever becomes of the call", arguments: refusals) func afterwards(_ refusal: CallVerb) {
    var (bench, at, _) = left(by: refusal)
    bench.answer("b2")
    #expect(asked(bench)?.at == at && asked(bench)?.reason == reason(refusal))
    bench.pass(.seconds(1))
    bench.caller(.hangUp)
    #expect(asked(bench)?.at == at && asked(bench)?.reason == reason(refusal))
  }

  @Test("also when its decline decides the call later") func declinesInTheEnd() {
    var (bench, at, _) = left(by: .decline(.here))
    bench.say(.busy, "b2")
    #expect(bench.ends.map(\.reason) == [.declined])
    #expect(bench.ends.first?.at == bench.now)
    #expect(asked(bench)?.at == at)
    #expect(asked(bench, "b2")?.at == bench.now && asked(bench, "b2")?.reason == .busy)
    #expect(asked(bench.restoredFromCheckpoint().begun())?.at == at)
  }

  @Test("a device that went is away since then; who is back has not left") func gone() {
    var (bench, at, _) = left(by: nil)
    #expect(asked(bench)?.reason == .unreachable)
    #expect(asked(bench)?.at == at)
    bench.attach("b1")
    #expect(asked(bench)?.phase == .placed)
    bench.pass(.seconds(1))
    var everywhere = bench
    bench.say(.busy, "b1")
    #expect(asked(bench)?.at == at + .seconds(4))
    let reply = everywhere.say(.decline(.everywhere), "b1")
    #expect(reply?.state?.at == at + .seconds(4) && everywhere.ends.first?.at == at + .seconds(4))
    #expect(asked(everywhere)?.at == at + .seconds(4))
  }

  @Test("a new owner says the same", arguments: refusals, [false, true])
  func takenOver(_ refusal: CallVerb, checkpoint: Bool) {
    var (bench, at, _) = left(by: refusal)
    bench.now = bench.now + .seconds(2)
    #expect(asked(bench.nextOwner("b1", "b2", checkpoint: checkpoint))?.at == at)
  }

  @Test("records of versions that did not say when") func withoutATime() {
    let (bench, _, _) = left(by: .decline(.here))
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
    var bench = Bench.ringing("b1", "b2")
    bench.acknowledgeAll()
    bench.pass(.seconds(2))
    bench.answer("b1", "answer")
    let at = bench.now
    bench.acknowledgeAll()
    bench.caller(.connected)
    bench.say(.connected, "b1")
    return (bench, at)
  }

  private let back = Bench.session("b1", 1)

  @Test("a winner that comes back hears when it answered") func winnerIsBack() {
    var (bench, at) = answered()
    bench.close("b1")
    bench.pass(.seconds(5))
    bench.attach("b1", session: back)
    let told = bench.deliveries(to: back)
    #expect(told.map(\.at) == [at])
    #expect(told.map(\.event) == [.answered(Answered(by: .b1))])
  }

  @Test("what it had not acknowledged keeps its time") func waitingSignals() {
    var (bench, _) = answered()
    _ = bench.take()
    bench.caller(.signal(.candidate, body: "c1"))
    let said = bench.now
    bench.close("b1")
    bench.pass(.seconds(5))
    bench.attach("b1", session: back)
    #expect(bench.deliveries(to: back).map(\.at).last == said)
  }

  @Test(
    "a new owner says when it was answered, was over for others, or ended",
    arguments: [false, true])
  func newOwner(isOver: Bool) {
    var (bench, answeredAt) = answered()
    bench.pass(.seconds(1))
    if isOver { bench.caller(.hangUp) }
    let endedAt = bench.now
    bench.now = bench.now + .seconds(4)
    let next = bench.nextOwner("b1", "b2", callerIsBack: true)
    #expect(next.deliveries(to: "alice1").map(\.at) == [isOver ? endedAt : answeredAt])
    if isOver { #expect(next.deliveries(to: "b1").map(\.at) == [endedAt]) }
    #expect(next.stops("b2").map(\.reason) == [.answeredElsewhere])
    #expect(next.deliveries(to: "b2").map(\.at) == [answeredAt])
  }
}
