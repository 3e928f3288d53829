import CallCore
import Testing

/// Notices of missed calls.
extension PushCleanUpTests {
  // MARK: Missed calls

  /// b1 sleeps, b2 has a session, b3 has only an alert token, b4 takes no notices, b5 sleeps and
  /// takes "missed".
  func family() -> Bench {
    var bench = Bench()
    bench.enrol("b1", voip: "v1", alert: "a1")
    bench.enrol("b2", voip: "v2", alert: "a2")
    bench.enrol("b3", alert: "a3")
    bench.enrol("b4", voip: "v4", alert: "a4", can: [])
    bench.enrol("b5", voip: "v5", alert: "a5", can: [.missed, .missedNotice])
    bench.attach("b2")
    bench.place()
    bench.say(.call(Bench.callID, .alerting), device: "b2")
    for (device, token) in [("b1", "v1"), ("b4", "v4"), ("b5", "v5")] {
      bench.report(.accepted, device, token: token)
    }
    _ = bench.take()
    return bench
  }

  @Test(
    "one notice for each device that can show it and does not know",
    arguments: [End.cancelled, .unanswered])
  func notices(how: End) {
    var bench = family()
    end(how, &bench)
    #expect(bench.pushes("b1") == [.ended, .missedNotice])
    #expect(bench.pushes("b2").isEmpty, "its socket told it")
    #expect(bench.pushes("b3") == [.missedNotice], "never a leg")
    #expect(bench.pushes("b4").isEmpty)
    #expect(bench.pushes("b5") == [.missed], "that says it")
    for job in bench.pushes where job.purpose == .missedNotice {
      #expect(job.deadline == bench.now + .seconds(86_400))
      #expect(job.token.token.hasPrefix("a"))
    }
    #expect(bench.stops("b2").first?.missed == true)
    bench.pass(.seconds(700))
    #expect(bench.pushes.count == 4)
  }

  @Test("answered or declined on any device is not missed", arguments: [End.answered, .declined])
  func notMissed(how: End) {
    var bench = family()
    end(how, &bench)
    #expect(bench.pushes.filter { $0.purpose == .missedNotice || $0.purpose == .missed }.isEmpty)
    #expect(bench.ends.allSatisfy { !$0.missed })
  }

  @Test("declined on one device, unanswered on the others: not missed") func declinedHere() {
    var bench = family()
    bench.say(.call(Bench.callID, .decline(.here)), device: "b2")
    bench.pass(.seconds(30))
    #expect(bench.ends.map(\.reason) == [.unanswered])
    #expect(bench.ends.first?.missed == false)
    #expect(bench.pushes.filter { $0.purpose == .missedNotice }.isEmpty)
  }

  @Test("busy is missed, but the device that said so knows") func busy() {
    var bench = Bench()
    bench.enrol("b1", alert: "a1")
    bench.enrol("b2", alert: "a2")
    bench.attach("b2")
    bench.place()
    bench.say(.call(Bench.callID, .busy), device: "b2")
    #expect(bench.ends.map(\.reason) == [.busy])
    #expect(bench.pushes("b1") == [.missedNotice])
    #expect(bench.pushes("b2").isEmpty)
  }

  @Test("only alert tokens: nobody rings, everybody has a notice") func onlyNotices() {
    var bench = Bench()
    bench.enrol("b1", alert: "a1")
    #expect(bench.place()?.state?.reason == .unreachable)
    #expect(bench.pushes("b1") == [.missedNotice])
    #expect(bench.journalledPushes == ["b1 missedNotice"])
    let entries = bench.shard.inspect(call: Bench.callID)?.timeline ?? []
    let pushed = entries.first { $0.what == "push queued" }
    #expect(pushed?.device == "b1")
    #expect(pushed?.purpose == .missedNotice)
  }

  @Test("who calls oneself and gives up missed nothing on that device") func toOneself() {
    var bench = Bench()
    bench.enrol("b1", voip: "v1", alert: "a1")
    bench.enrol("b2", alert: "a2")
    bench.attach("b1")
    _ = bench.take()
    bench.place(user: "bob", device: "b1")
    bench.say(.call(Bench.callID, .cancel), device: "b1")
    #expect(bench.pushes("b1").isEmpty)
    #expect(bench.pushes("b2") == [.missedNotice])
  }

  // MARK: What operators see

  @Test func inspection() {
    var bench = family()
    bench.report(.rejected(reason: "BadTopic"), "b4", token: "v4")
    bench.report(.rejected(reason: "BadTopic"), "b4", token: "v4")
    bench.caller(.call(Bench.callID, .cancel))
    let call = bench.shard.inspect(call: Bench.callID)
    let b1 = call?.legs.first { $0.party.device == "b1" }
    #expect(b1?.pushes == [.ring, .ended, .missedNotice])
    let events = call?.timeline.filter { $0.purpose != nil } ?? []
    #expect(
      events.contains { $0.device == "b1" && $0.what == "push queued" && $0.purpose == .ring })
    #expect(events.contains { $0.device == "b1" && $0.what == "push accepted" })
    #expect(events.contains { $0.device == "b3" && $0.purpose == .missedNotice })
    let rejected = events.filter { $0.what == "push rejected" }
    #expect(rejected.count == 1, "a report retransmitted is one event")
    #expect(rejected.first?.reason == "BadTopic")
  }
}
