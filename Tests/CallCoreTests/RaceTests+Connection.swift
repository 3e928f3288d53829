import CallCore
import Testing

/// From the answer to the end, and calls that reach no device.
extension RaceTests {
  @Test("R15: answered, never connected", arguments: [0, 1])
  func r15NeverConnected(reports: Int) {
    var bench = Bench()
    bench.attach("b1")
    bench.place()
    bench.say(.call(Bench.callID, .answer(description: "")), device: "b1")
    if reports == 1 { bench.caller(.call(Bench.callID, .connected)) }
    bench.pass(.seconds(15))
    #expect(bench.stops("alice1").map(\.reason) == [.failed])
    #expect(bench.stops("b1").map(\.reason) == [.failed])
    #expect(bench.ends.count == 1)
  }

  @Test("R15: connected on both sides goes on")
  func r15Connected() {
    var bench = Bench()
    bench.attach("b1")
    bench.place()
    bench.say(.call(Bench.callID, .answer(description: "")), device: "b1")
    #expect(bench.caller(.call(Bench.callID, .connected)) == .done)
    #expect(bench.say(.call(Bench.callID, .connected), device: "b1") == .done)
    bench.acknowledgeAll()
    bench.pass(.seconds(3600))
    #expect(bench.ends.isEmpty)
  }

  @Test("R16: hang-up, timeout and loss at the same moment make one end", arguments: 0..<6)
  func r16OneEnd(order: Int) {
    var bench = Bench()
    bench.attach("b1", "b2")
    bench.place()
    bench.say(.call(Bench.callID, .answer(description: "")), device: "b1")
    bench.caller(.callerGone([Bench.callID]))
    bench.now = bench.now + .seconds(15)
    let steps: [(inout Bench) -> Void] = [
      { $0.say(.call(Bench.callID, .hangUp), device: "b1") },
      { $0.pass(Span(microseconds: 0)) },
      { $0.say(.sessionClosed(graceful: false), device: "b1") },
    ]
    let orders = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]]
    for step in orders[order] { steps[step](&bench) }
    bench.pass(.seconds(120))
    #expect(bench.ends.count == 1)
    #expect(bench.shard.counts.answered == 0)
    #expect(bench.stops("b1").count <= 1 + CallLimits().deliveryRepeats.count)
    #expect(Set(bench.stops("b1").map(\.reason)).count <= 1)
  }

  @Test("R17: early candidates reach the winner's side in order; those of losers are dropped")
  func r17Candidates() {
    var bench = Bench()
    bench.attach("b1")
    bench.place()
    bench.caller(.call(Bench.callID, .signal(.candidate, body: "c1")))
    bench.caller(.call(Bench.callID, .signal(.candidate, body: "c2")))
    bench.attach("b2")
    #expect(bench.invites("b2").first?.signals.map(\.body) == ["c1", "c2"])
    #expect(bench.signals("b1").map(\.body) == ["c1", "c2"])
    bench.say(.call(Bench.callID, .signal(.candidate, body: "x1")), device: "b1")
    bench.say(.call(Bench.callID, .signal(.candidate, body: "y1")), device: "b2")
    bench.say(.call(Bench.callID, .signal(.candidate, body: "y2")), device: "b2")
    #expect(bench.signals("alice1").isEmpty, "kept until somebody answers")
    bench.say(.call(Bench.callID, .answer(description: "sdp")), device: "b2")
    #expect(bench.answers().first?.signals.map(\.body) == ["y1", "y2"])
    #expect(bench.say(.call(Bench.callID, .signal(.candidate, body: "x2")), device: "b1") == .done)
    bench.say(.call(Bench.callID, .signal(.candidate, body: "y3")), device: "b2")
    bench.caller(.call(Bench.callID, .signal(.description, body: "offer2")))
    #expect(bench.signals("alice1").map(\.body) == ["y3"])
    #expect(bench.signals("alice1").map(\.index) == [3])
    #expect(bench.signals("b2").last?.body == "offer2")
    #expect(bench.signals("b1").map(\.body) == ["c1", "c2"])
    bench.caller(.call(Bench.callID, .hangUp))
    _ = bench.take()
    #expect(bench.caller(.call(Bench.callID, .signal(.candidate, body: "late"))) == .done)
    #expect(bench.effects.count == 1)
  }

  @Test("R18: what a device says of time is never trusted")
  func r18Clocks() {
    var bench = Bench()
    // A session announced by an edge whose clock is a day ahead does not move any deadline.
    bench.say(
      .attach(Attach(attachedAt: bench.now + .seconds(86_400))), device: "b1")
    bench.place(seconds: 5)
    let deadline = bench.invites("b1").first?.deadline
    #expect(deadline == bench.now + .seconds(5))
    bench.pass(Span(microseconds: 4_999_999))
    #expect(bench.ends.isEmpty)
    bench.pass(Span(microseconds: 1))
    #expect(bench.ends.map(\.reason) == [.unanswered])
    #expect(bench.ends.first?.at == deadline)
  }

  @Test("R19: no device: unreachable at once")
  func r19NoDevice() {
    var bench = Bench()
    let reply = bench.place()
    #expect(reply?.state?.phase == .ended)
    #expect(reply?.state?.reason == .unreachable)
    #expect(bench.stops("alice1").map(\.reason) == [.unreachable])
    #expect(bench.ends.count == 1)
  }

  @Test("R19: every device leaves: unreachable at once")
  func r19AllLeave() {
    var bench = Bench()
    bench.attach("b1", "b2")
    bench.place()
    bench.say(.sessionClosed(graceful: true), device: "b1")
    #expect(bench.ends.isEmpty)
    bench.say(.sessionClosed(graceful: true), device: "b2")
    #expect(bench.ends.map(\.reason) == [.unreachable])
  }
}
