import CallCore
import Testing

/// An owner, an edge or a session is lost.
extension RaceTests {
  /// The owner was held up: the deadline has passed, and is not looked at yet.
  @Test("R2, R10: a device that attaches after the deadline does not ring")
  func attachedAfterTheDeadline() {
    var bench = Bench()
    bench.attach("b1")
    bench.place(seconds: 5)
    bench.now = bench.now + .seconds(6)
    _ = bench.take()
    bench.attach("b2", edge: 2)
    let again = Bench.session("b1", 1)
    bench.say(.attach(Attach()), device: "b1", session: again)
    #expect(bench.invites("b1").isEmpty)
    bench.run { $0.fire(now: $1, into: &$2) }
    #expect(bench.ends.map(\.reason) == [.unanswered])
    for session in [Bench.session("b2", edge: 2), again] {
      let heard = bench.deliveries(to: session).map(\.event)
      #expect(heard.count == 1 && heard.first == .stop(Stop(reason: .unanswered, missed: true)))
    }
  }

  @Test("R10: the owner dies while it rings; the deadline passes meanwhile")
  func r10TakeOver() {
    var bench = Bench()
    bench.attach("b1", "b2")
    bench.place(seconds: 5)
    bench.now = bench.now + .seconds(6)
    var next = bench.takenOver()
    next.say(.attach(Attach(announce: true)), device: "b1")
    #expect(next.effects.isEmpty, "nobody is told anything before the shard serves")
    next.run { $0.begin(now: $1, into: &$2) }
    next.pass(Span(microseconds: 0))
    #expect(next.stops("b1").map(\.reason) == [.unanswered])
    #expect(next.ends.map(\.reason) == [.unanswered])
    #expect(next.journal.filter { if case .ended = $0.change { true } else { false } }.count == 1)
  }

  @Test("R11: an edge dies; its devices attach elsewhere and hear the present state")
  func r11EdgeLost() {
    var bench = Bench()
    bench.attach("b1", "b2")
    bench.attach("b3", edge: 2)
    bench.place()
    bench.run { $0.edgeLost(1, now: $1, into: &$2) }
    _ = bench.take()
    bench.attach("b1", edge: 2)
    let moved = Bench.session("b1", edge: 2)
    #expect(bench.deliveries(to: moved).count == 1)
    #expect(bench.say(.call(Bench.callID, .answer(description: "")), device: "b3")?.won == true)
    #expect(
      bench.deliveries(to: moved).contains {
        if case .stop(let stop) = $0.event { stop.reason == .answeredElsewhere } else { false }
      })
    // b2 comes back only now: it rang, so it hears how it ended.
    bench.attach("b2", edge: 2)
    let late = bench.deliveries(to: Bench.session("b2", edge: 2))
    #expect(late.count == 1)
    #expect(
      late.allSatisfy {
        if case .stop(let stop) = $0.event { stop.reason == .answeredElsewhere } else { false }
      })
  }

  @Test("R11: the caller's edge dies; its device comes back within the grace")
  func r11CallerEdgeLost() {
    var bench = Bench()
    bench.attach("b1", edge: 2)
    bench.place()
    bench.run { $0.edgeLost(1, now: $1, into: &$2) }
    bench.say(.call(Bench.callID, .answer(description: "sdp")), device: "b1")
    let back = Bench.session("alice1", 2, edge: 2)
    let reply = bench.caller(.call(Bench.callID, .resume), session: back)
    #expect(reply?.state?.phase == .answered)
    #expect(
      bench.deliveries(to: back).contains {
        if case .answered(let answered) = $0.event { answered.description == "sdp" } else { false }
      })
  }

  @Test("R11: a winner's app that began anew hears that it has the call before anything else of it")
  func r11WinnerBeginsAnew() {
    var bench = Bench()
    bench.attach("b1")
    bench.place()
    bench.say(.call(Bench.callID, .answer(description: "")), device: "b1")
    bench.say(.sessionClosed(graceful: false), device: "b1")
    bench.caller(.call(Bench.callID, .signal(.candidate, body: "c1")))
    let session = Bench.session("b1", 2)
    bench.say(.attach(Attach()), device: "b1", session: session)
    let told = bench.deliveries(to: session).map(\.event)
    #expect(told.count == 2)
    guard case .answered? = told.first, case .signal? = told.last else {
      Issue.record("told \(told)")
      return
    }
  }

  @Test("R11: a device that left in mid-ring hears what became of the call when it is back")
  func r11LeftInMidRing() {
    var bench = Bench()
    bench.attach("b1", "b2")
    bench.place()
    bench.say(.sessionClosed(graceful: true), device: "b1")
    bench.caller(.call(Bench.callID, .cancel))
    bench.acknowledgeAll()
    let session = Bench.session("b1", 2)
    bench.say(.attach(Attach()), device: "b1", session: session)
    let reasons = bench.deliveries(to: session).compactMap {
      if case .stop(let stop) = $0.event { stop.reason } else { nil }
    }
    #expect(reasons == [.cancelled])
  }

  @Test("R22: the caller's session breaks and comes back: nobody notices")
  func r22CallerBack() {
    var bench = Bench()
    bench.attach("b1")
    bench.place()
    bench.acknowledgeAll()
    _ = bench.take()
    bench.caller(.callerGone([Bench.callID]))
    bench.pass(.seconds(14))
    let back = Bench.session("alice1", 2)
    #expect(bench.caller(.call(Bench.callID, .resume), session: back)?.state?.phase == .placed)
    bench.pass(.seconds(10))
    #expect(bench.deliveries(to: "b1").isEmpty)
    #expect(bench.ends.isEmpty)
    bench.say(.call(Bench.callID, .answer(description: "")), device: "b1")
    #expect(bench.deliveries(to: back).count == 1)
  }

  @Test("R22: the caller stays away: cancelled after the grace")
  func r22CallerStaysAway() {
    var bench = Bench()
    bench.attach("b1")
    bench.place()
    bench.caller(.callerGone([Bench.callID]))
    bench.pass(.seconds(15))
    #expect(bench.stops("b1").map(\.reason).first == .cancelled)
    #expect(bench.ends.map(\.reason) == [.cancelled])
  }
}
