import CallCore
import Testing

/// Corners where sessions, pushes and the store meet.
@Suite struct PushCornerTests {
  let day = Span.seconds(86_400)

  func sleeping(_ devices: String..., can: PushCapabilities = []) -> Bench {
    var bench = Bench()
    for device in devices { bench.enrol(device, voip: device, can: can) }
    _ = bench.take()
    return bench
  }

  // MARK: Awake after all

  @Test("acknowledged after it was pushed: it hears the end by its socket, and by no clean-up")
  func acknowledgedAfterThePush() {
    var bench = Bench()
    bench.enrol("b1", voip: "b1", alert: "a1", can: [.cancel, .missed, .missedNotice])
    bench.attach("b1")
    _ = bench.take()
    bench.place()
    bench.pass(.seconds(2))
    #expect(bench.pushes("b1") == [.ring])
    bench.pass(.milliseconds(300))
    bench.acknowledgeAll()
    bench.caller(.call(Bench.callID, .cancel))
    #expect(bench.stops("b1").map(\.reason) == [.cancelled])
    #expect(bench.pushes("b1") == [.ring], "neither clean-up nor notice")
  }

  @Test("pushed, and its socket is silent: the clean-up goes, since nobody knows who hears")
  func silentAfterThePush() {
    var bench = Bench()
    bench.enrol("b1", voip: "b1", can: [.cancel])
    bench.attach("b1")
    bench.place()
    bench.pass(.seconds(3))
    bench.caller(.call(Bench.callID, .cancel))
    #expect(bench.pushes("b1") == [.ring, .cancel])
  }

  @Test("what it says by HTTP is no socket: the end is pushed") func alertingWithoutASocket() {
    var bench = sleeping("b1", can: [.cancel])
    bench.place()
    bench.say(.call(Bench.callID, .alerting), device: "b1", session: SessionRef(edge: 9, number: 9))
    bench.caller(.call(Bench.callID, .cancel))
    #expect(bench.pushes("b1") == [.ring, .cancel])
  }

  // MARK: What is under way when it ends

  func withdrawn(_ bench: Bench) -> Int {
    bench.effects.count {
      if case .withdrawPushes(PushRinging(call: Bench.callID)) = $0 { true } else { false }
    }
  }

  @Test("R4: a ring of which nothing is known is withdrawn when the call ends", arguments: 0..<3)
  func withdrawnAtTheEnd(how: Int) {
    var bench = sleeping("b1")
    bench.attach("b2")
    bench.place(seconds: 20)
    switch how {
    case 0: bench.caller(.call(Bench.callID, .cancel))
    case 1: bench.say(.call(Bench.callID, .answer(description: "")), device: "b2")
    default: bench.pass(.seconds(21))
    }
    #expect(withdrawn(bench) == 1)
    bench.caller(.call(Bench.callID, .hangUp))
    bench.pass(.seconds(5))
    #expect(withdrawn(bench) == 1, "once")
  }

  @Test("R4: also where the device has attached meanwhile: its push may be on its way yet")
  func withdrawnThoughAttached() {
    var bench = sleeping("b1")
    bench.place()
    bench.attach("b1")
    bench.caller(.call(Bench.callID, .cancel))
    #expect(withdrawn(bench) == 1)
  }

  @Test("what the provider has is not withdrawn") func notWithdrawn() {
    var bench = sleeping("b1")
    bench.place()
    bench.report(.accepted, "b1")
    bench.caller(.call(Bench.callID, .cancel))
    #expect(withdrawn(bench) == 0)
    var plain = Bench()
    plain.attach("b1")
    plain.place()
    plain.caller(.call(Bench.callID, .cancel))
    #expect(withdrawn(plain) == 0)
  }

  @Test("a push of unknown fate fails: no ring is counted on, but its clean-up is sent")
  func unknownFate() {
    var bench = sleeping("b1", can: [.cancel])
    bench.attach("b2")
    bench.place()
    bench.report(.failed(reason: "no answer", mayHaveArrived: true), "b1")
    bench.say(.sessionClosed(graceful: true), device: "b2")
    #expect(bench.ends.map(\.reason) == [.unreachable], "nobody is waited for")
    #expect(bench.pushes("b1") == [.ring, .cancel])
  }

  @Test("a push that surely did not arrive has nothing to clean up") func surelyNot() {
    var bench = sleeping("b1", can: [.cancel])
    bench.place()
    bench.report(.failed(reason: "refused"), "b1")
    #expect(bench.ends.map(\.reason) == [.unreachable])
    #expect(bench.pushes("b1") == [.ring])
  }

  @Test("a push of unknown fate did arrive: who attaches is told over the socket alone")
  func unknownFateArrived() {
    var bench = sleeping("b1", can: [.cancel])
    bench.attach("b2")
    bench.place()
    bench.report(.failed(reason: "no answer", mayHaveArrived: true), "b1")
    bench.attach("b1")
    bench.acknowledgeAll()
    bench.caller(.call(Bench.callID, .cancel))
    #expect(bench.pushes("b1") == [.ring])
    #expect(bench.stops("b1").count == 1)
  }

  // MARK: A new owner

  @Test(
    "R10: it alerted, its socket broke, it was pushed: the new owner still expects it",
    arguments: [false, true])
  func alertedThenPushed(checkpoint: Bool) {
    var bench = sleeping("b1", can: [.cancel])
    bench.attach("b1")
    bench.place(seconds: 60)
    bench.say(.call(Bench.callID, .alerting), device: "b1")
    bench.say(.sessionClosed(graceful: false), device: "b1")
    bench.pass(.seconds(5))
    #expect(bench.pushes("b1") == [.ring])
    var next = bench.takenOver(checkpoint: checkpoint, registered: ["b1"])
    next.caller(.call(Bench.callID, .resume))
    next.pass(.seconds(20))
    #expect(next.ends.isEmpty, "it rings to its deadline, as with the first owner")
    next.caller(.call(Bench.callID, .cancel))
    #expect(next.pushes("b1").last == .cancel)
  }

  // MARK: Pushes switched off

  @Test("who waits for a push when none may go any more is not waited for") func switchedOff() {
    var bench = sleeping("b1")
    bench.attach("b1")
    bench.place(seconds: 120)
    bench.say(.call(Bench.callID, .alerting), device: "b1")
    bench.say(.sessionClosed(graceful: false), device: "b1")
    bench.shard.mayPush = false
    bench.pass(.seconds(25))
    #expect(bench.pushes.isEmpty)
    #expect(bench.ends.map(\.reason) == [.unreachable], "not at the deadline, two minutes later")
  }

  @Test("a job that the queue has not taken is offered for as long as the call rings")
  func stillWanted() throws {
    var bench = sleeping("b1", "b2", can: [.cancel])
    bench.place()
    let ring = try #require(bench.pushes.first { $0.device == "b1" })
    let other = try #require(bench.pushes.first { $0.device == "b2" })
    #expect(bench.shard.isStillWanted(ring))
    bench.attach("b1")
    #expect(!bench.shard.isStillWanted(ring), "it is there")
    #expect(bench.shard.isStillWanted(other))
    bench.caller(.call(Bench.callID, .cancel))
    #expect(!bench.shard.isStillWanted(other))
    let cleanUp = try #require(bench.pushes.first { $0.purpose == .cancel })
    #expect(bench.shard.isStillWanted(cleanUp))
  }
}
