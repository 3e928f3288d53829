import CallCore
import Testing

/// Deliveries, and what is kept of a call.
extension RuleTests {
  @Test func deliveriesRepeatUntilAcknowledged() {
    var bench = Bench()
    bench.attach("b1")
    bench.place()
    bench.pass(.milliseconds(499))
    #expect(bench.invites("b1").count == 1)
    bench.pass(.milliseconds(1))
    #expect(bench.invites("b1").count == 2)
    bench.pass(.seconds(1))
    #expect(bench.invites("b1").count == 3)
    bench.pass(.seconds(2))
    #expect(bench.invites("b1").count == 4)
    bench.pass(.seconds(4))
    #expect(bench.invites("b1").count == 5)
    bench.pass(.seconds(20))
    #expect(bench.invites("b1").count == 5, "then it waits for the device's next session")
    #expect(Set(bench.deliveries(to: "b1").map(\.version)).count == 1)
    #expect(bench.shard.counts.deliveryRepeatsTotal >= 4)
  }

  @Test func anAcknowledgedDeliveryIsNotRepeated() {
    var bench = Bench()
    bench.attach("b1")
    bench.place()
    bench.acknowledgeAll()
    _ = bench.take()
    bench.pass(.seconds(20))
    #expect(bench.effects.isEmpty)
  }

  @Test func whoAlertsHasTheInvite() {
    var bench = Bench()
    bench.attach("b1")
    bench.place()
    bench.say(.call(Bench.callID, .alerting), device: "b1")
    _ = bench.take()
    bench.pass(.seconds(20))
    #expect(bench.deliveries(to: "b1").isEmpty)
  }

  @Test func howLongItTookUntilAllRang() {
    var bench = Bench()
    bench.attach("b1", "b2")
    bench.place()
    var spans: [Span] = []
    for (device, pause) in [("b1", Span.milliseconds(3)), ("b2", .milliseconds(4))] {
      bench.now = bench.now + pause
      var outcome = Outcome()
      let command = Command(
        session: Bench.session(device), request: 1, user: UserKey(app: Bench.app, user: "bob"),
        device: DeviceID(device), callee: UserKey(app: Bench.app, user: "bob"),
        body: .call(Bench.callID, .alerting))
      bench.shard.handle(command, now: bench.now, into: &outcome)
      spans += outcome.ringLatencies
    }
    #expect(spans == [.milliseconds(7)])
  }

  @Test func whatIsRepeatedIsUrgent() {
    // A repetition must leave behind an append, or a former owner would speak.
    var bench = Bench()
    bench.attach("b1")
    bench.place()
    bench.now = bench.now + .milliseconds(500)
    var outcome = Outcome()
    bench.shard.fire(now: bench.now, into: &outcome)
    #expect(!outcome.effects.isEmpty)
    #expect(outcome.urgency == .urgent)
  }

  @Test func anEndedCallIsKeptThenForgotten() {
    var bench = Bench()
    bench.attach("b1")
    bench.place()
    bench.caller(.call(Bench.callID, .cancel))
    bench.acknowledgeAll()
    bench.pass(.seconds(599))
    #expect(bench.say(.call(Bench.callID, .query), device: "b1")?.state?.reason == .cancelled)
    bench.pass(.seconds(2))
    #expect(bench.say(.call(Bench.callID, .query), device: "b1")?.state?.phase == .unknown)
    #expect(bench.shard.counts.endedKept == 0)
  }
}
