import CallCore
import Testing

/// The timeline that is kept of a call for operators: "why did my phone not ring".
@Suite struct TimelineTests {
  private static let devices = ["b1", "b2", "b3", "b4", "b5"]

  private func inspected(_ bench: Bench) -> CallInspection? {
    bench.shard.inspect(call: Bench.callID)
  }

  /// Everybody acknowledges what was delivered since.
  private func acknowledge(_ bench: inout Bench) {
    let effects = bench.take()
    for effect in effects {
      guard case .deliver(let session, let delivery) = effect else { continue }
      let device = Self.devices.first { Bench.session($0) == session } ?? "alice1"
      bench.say(
        .ack([Acknowledgement(call: delivery.call, version: delivery.version)]),
        user: device == "alice1" ? "alice" : "bob", device: device)
    }
  }

  /// A call that rings five devices while the caller sends candidates, each acknowledged.
  private func fiveDevices(candidates: Int) -> Bench {
    var bench = Bench()
    for device in Self.devices { bench.attach(device) }
    _ = bench.take()
    bench.place()
    for number in 0..<candidates {
      bench.caller(.signal(.candidate, body: "candidate \(number)"))
    }
    acknowledge(&bench)
    return bench
  }

  @Test("candidates do not push out how the call ended") func anOrdinaryCall() throws {
    var bench = fiveDevices(candidates: 40)
    for device in Self.devices { bench.say(.alerting, device) }
    bench.answer("b1")
    bench.caller(.connected)
    bench.say(.connected, "b1")
    for number in 0..<40 {
      bench.say(.signal(.candidate, body: "late \(number)"), "b1")
    }
    acknowledge(&bench)
    bench.caller(.hangUp)
    acknowledge(&bench)
    let call = try #require(inspected(bench))
    func count(_ what: String) -> Int { call.timeline.count { $0.what == what } }
    #expect(count("delivered") == 5 && count("alerting") == 5)
    #expect(count("answered") == 1 && count("connected") == 2)
    #expect(count("stopped") == 4 && count("hung up") == 1)
    // Five invites; to the caller ringing and answered; four stops, and the winner's.
    #expect(count("acknowledged") == 12)
    #expect(call.timelineDropped == 0)
  }

  /// The call rings, and a device's session begins anew again and again.
  private func flap(_ bench: inout Bench, _ device: String, times: UInt64) {
    for generation in 1...times {
      let session = Bench.session(device, generation)
      bench.attach(device, session: session)
      bench.close(device, session: session)
    }
  }

  @Test("acknowledgements and repetitions give way to how the call goes on") func details() throws {
    var bench = fiveDevices(candidates: 0)
    // Nobody acknowledges what is said to new sessions, so it is repeated.
    for generation: UInt64 in 1...12 {
      for device in Self.devices {
        bench.attach(device, session: Bench.session(device, generation))
      }
      bench.pass(.seconds(1))
    }
    let before = try #require(inspected(bench))
    #expect(before.timelineDropped > 0)
    let repeated = before.timeline.count { $0.what == "repeated" }
    let b1 = Bench.session("b1", 12)
    bench.say(.alerting, "b1", session: b1)
    bench.say(.decline(.here), "b2", session: Bench.session("b2", 12))
    bench.pass(.seconds(2))
    bench.answer("b1", session: b1)
    bench.caller(.connected)
    bench.say(.connected, "b1", session: b1)
    bench.caller(.hangUp)
    let after = try #require(inspected(bench))
    #expect(after.timelineDropped > before.timelineDropped)
    #expect(after.timeline.count { $0.what == "repeated" } == repeated)
    let kept = after.timeline.dropFirst(before.timeline.count).map(\.what)
    #expect(
      kept == [
        "alerting", "declined here", "answered", "stopped", "stopped", "stopped", "connected",
        "connected", "hung up",
      ])
  }

  @Test("what flapping connections cause has an end, too") func flapping() throws {
    var bench = fiveDevices(candidates: 0)
    flap(&bench, "b1", times: 2000)
    let full = try #require(inspected(bench))
    #expect(full.timelineDropped > 2000)
    #expect(full.timeline.count < 320)
    bench.answer("b2")
    bench.caller(.hangUp)
    let ended = try #require(inspected(bench))
    #expect(ended.timeline.contains { $0.what == "answered" && $0.device == "b2" })
    #expect(ended.timeline.contains { $0.what == "stopped" && $0.device == "b3" })
    #expect(ended.timeline.last?.what == "hung up")
  }

  @Test("a push that has no room takes no other event's place") func pushesWithoutRoom() throws {
    var bench = Bench()
    bench.enrol("b9", voip: "v9")
    bench.attach("b1")
    _ = bench.take()
    bench.place()
    flap(&bench, "b1", times: 2000)
    let before = try #require(inspected(bench))
    bench.report(.rejected(reason: "BadTopic"), "b9", token: "v9")
    let after = try #require(inspected(bench))
    #expect(after.timeline.allSatisfy { $0.reason == nil })
    #expect(after.timeline.filter { $0.purpose != nil }.map(\.what) == ["push queued"])
    #expect(after.timelineDropped > before.timelineDropped)
  }
}
