import CallCore
import Testing

/// Who is pushed while it rings, and when.
@Suite struct PushRingTests {
  func sleeping(_ devices: String..., limits: CallLimits = CallLimits()) -> Bench {
    var bench = Bench(limits: limits)
    for device in devices { bench.enrol(device, voip: device, can: []) }
    _ = bench.take()
    return bench
  }

  @Test("no session: pushed at once, with all that the payload needs") func atOnce() {
    var bench = sleeping("b1")
    let reply = bench.say(
      .place(
        PlaceRequest(
          call: Bench.callID, ringTimeoutSeconds: 20, description: "offer",
          headers: [CustomHeader(name: "X-Team", value: "support")], video: true,
          deviceName: "Alice's phone")), user: "alice", device: "alice1")
    #expect(reply?.state?.phase == .placed)
    let job = bench.pushes.first
    #expect(bench.pushes.count == 1)
    #expect(
      job
        == PushJob(
          user: UserKey(app: "demo", user: "bob"), device: "b1", call: Bench.callID, purpose: .ring,
          token: Bench.voip("b1"), dialect: .callmesh,
          caller: Party(user: "alice", device: "alice1", deviceName: "Alice's phone"), video: true,
          headers: [CustomHeader(name: "X-Team", value: "support")], placedAt: bench.now,
          ringDeadline: bench.now + .seconds(20), decidedAt: bench.now,
          deadline: bench.now + .seconds(20)))
    #expect(bench.journalledPushes == ["b1 ring"])
    #expect(job?.token.fingerprint == "fp-b1")
  }

  @Test("the journal has the push before it leaves: both are in one outcome") func journalledFirst()
  {
    var bench = sleeping("b1")
    bench.place()
    let entries = bench.journal.map(\.change)
    guard case .placed = entries.first else {
      Issue.record("placed is not first")
      return
    }
    #expect(entries.contains(.pushed("b1", .ring)))
  }

  @Test("a call that only sleeping devices can take rings until its deadline") func ringsOn() {
    var bench = sleeping("b1", "b2")
    bench.place(seconds: 30)
    bench.report(.accepted, "b1")
    bench.report(.accepted, "b2")
    bench.pass(.milliseconds(29_999))
    #expect(bench.ends.isEmpty)
    bench.pass(.milliseconds(1))
    #expect(bench.ends.map(\.reason) == [.unanswered])
  }

  @Test("a session and silence: pushed after 2 s") func silence() {
    var bench = sleeping("b1")
    bench.attach("b1")
    bench.place()
    #expect(bench.invites("b1").count == 1)
    bench.pass(.milliseconds(1999))
    #expect(bench.pushes.isEmpty)
    bench.pass(.milliseconds(1))
    #expect(bench.pushes("b1") == [.ring])
    bench.pass(.seconds(20))
    #expect(bench.pushes.count == 1)
  }

  @Test("the setting counts") func silenceIsASetting() {
    var limits = CallLimits()
    limits.pushAfterSilence = .milliseconds(300)
    var bench = sleeping("b1", limits: limits)
    bench.attach("b1")
    bench.place()
    bench.pass(.milliseconds(300))
    #expect(bench.pushes("b1") == [.ring])
  }

  @Test("a session that heard the invite is not pushed", arguments: [true, false])
  func acknowledged(byAck: Bool) {
    var bench = sleeping("b1")
    bench.attach("b1")
    bench.place()
    bench.pass(.milliseconds(1500))
    if byAck {
      bench.acknowledgeAll()
    } else {
      bench.say(.call(Bench.callID, .alerting), device: "b1")
    }
    bench.pass(.seconds(20))
    #expect(bench.pushes.isEmpty)
  }

  @Test("a session breaks while the invite is unheard: pushed at once") func breaksUnheard() {
    var bench = sleeping("b1")
    bench.attach("b1")
    bench.place()
    bench.pass(.milliseconds(500))
    bench.say(.sessionClosed(graceful: false), device: "b1")
    #expect(bench.pushes("b1") == [.ring])
    bench.pass(.seconds(20))
    #expect(bench.ends.isEmpty, "it is on its way")
    bench.attach("b1", edge: 2)
    #expect(bench.deliveries(to: Bench.session("b1", edge: 2)).count == 1)
    #expect(bench.pushes.count == 1)
  }

  @Test("its edge dies while the invite is unheard") func edgeDies() {
    var bench = sleeping("b1", "b2")
    bench.attach("b1", "b2")
    bench.place()
    bench.say(.call(Bench.callID, .alerting), device: "b2")
    bench.run { $0.edgeLost(1, now: $1, into: &$2) }
    #expect(bench.pushes("b1") == [.ring], "had not heard")
    #expect(bench.pushes("b2").isEmpty, "rings already")
  }

  @Test("acknowledged, then the socket broke: pushed when it does not come back")
  func heardAndLost() {
    var bench = sleeping("b1")
    bench.attach("b1")
    bench.place()
    bench.say(.call(Bench.callID, .alerting), device: "b1")
    bench.say(.sessionClosed(graceful: false), device: "b1")
    bench.pass(.milliseconds(4999))
    #expect(bench.pushes.isEmpty)
    bench.pass(.milliseconds(1))
    #expect(bench.pushes("b1") == [.ring])
    bench.pass(.seconds(20))
    #expect(bench.ends.isEmpty)
  }

  @Test("acknowledged, then the socket broke, and it came back: no push") func heardLostAndBack() {
    var bench = sleeping("b1")
    bench.attach("b1")
    bench.place()
    bench.acknowledgeAll()
    bench.say(.sessionClosed(graceful: false), device: "b1")
    bench.pass(.seconds(3))
    bench.attach("b1", edge: 2)
    bench.say(.call(Bench.callID, .alerting), device: "b1", session: Bench.session("b1", edge: 2))
    bench.pass(.seconds(20))
    #expect(bench.pushes.isEmpty)
  }

  @Test("taking leave in mid-ring: a push brings it back; without a token it is gone")
  func leaves() {
    var bench = sleeping("b1")
    bench.attach("b1")
    bench.place()
    bench.acknowledgeAll()
    bench.say(.sessionClosed(graceful: true), device: "b1")
    #expect(bench.pushes("b1") == [.ring])
    #expect(bench.ends.isEmpty)
    var plain = Bench()
    plain.attach("b1")
    plain.place()
    plain.say(.sessionClosed(graceful: true), device: "b1")
    #expect(plain.ends.map(\.reason) == [.unreachable])
  }

  @Test("between two sockets: waited for and pushed") func betweenSockets() {
    var bench = sleeping("b1")
    bench.attach("b1")
    bench.say(.sessionClosed(graceful: false), device: "b1")
    bench.pass(.seconds(1))
    bench.place()
    #expect(bench.pushes("b1") == [.ring])
    bench.pass(.seconds(1))
    bench.attach("b1", edge: 2)
    #expect(bench.deliveries(to: Bench.session("b1", edge: 2)).count == 1)
  }

  @Test("R6: registers, attaches, attaches again: one leg, one push") func oncePerDevice() {
    var bench = sleeping("b1")
    bench.place()
    bench.enrol("b1", voip: "b1", can: [])
    bench.enrol("b1", voip: "other", can: [])
    bench.attach("b1", edge: 2)
    bench.say(
      .sessionClosed(graceful: false), device: "b1", session: Bench.session("b1", edge: 2))
    bench.pass(.seconds(6))
    bench.attach("b1", edge: 3)
    bench.pass(.seconds(10))
    #expect(bench.pushes.count == 1)
    #expect(bench.journalledPushes == ["b1 ring"])
    let legs = bench.shard.inspect(call: Bench.callID)?.legs
    #expect(legs?.count == 1)
  }

  @Test("a device that registers a token in mid-ring is woken by it") func registersLate() {
    var bench = Bench()
    bench.enrol("b1")
    bench.attach("b1")
    bench.say(.sessionClosed(graceful: false), device: "b1")
    bench.place()
    #expect(bench.pushes.isEmpty)
    bench.enrol("b1", voip: "new", can: [])
    #expect(bench.pushes("b1") == [.ring])
    bench.pass(.seconds(20))
    #expect(bench.ends.isEmpty)
  }

  @Test("nobody is pushed for a call that is over, or past its deadline") func notWhenOver() {
    var bench = sleeping("b1", "b2")
    bench.attach("b1", "b2")
    bench.place(seconds: 5)
    bench.say(.call(Bench.callID, .alerting), device: "b2")
    bench.pass(.seconds(1))
    bench.say(.call(Bench.callID, .answer(description: "")), device: "b2")
    bench.pass(.seconds(30))
    #expect(bench.pushes.isEmpty)
    var limits = CallLimits()
    limits.pushAfterSilence = .seconds(5)
    var late = sleeping("b1", limits: limits)
    late.attach("b1")
    late.place(seconds: 5)
    late.pass(.seconds(5))
    #expect(late.pushes("b1").filter { $0 == .ring }.isEmpty, "at the deadline it ends")
  }

  @Test("R21: the caller's own device is not pushed; its others are") func ownDevices() {
    var bench = Bench()
    bench.enrol("b1", voip: "b1")
    bench.enrol("b2", voip: "b2")
    _ = bench.take()
    bench.place(user: "bob", device: "b1")
    #expect(bench.pushes.map(\.device.text) == ["b2"])
    bench.say(.call(Bench.callID, .cancel), device: "b1")
    #expect(bench.pushes("b1").isEmpty)
  }

  @Test("five live calls on a device, and the busy rule, hold for sleeping devices") func limits() {
    var bench = sleeping("b1")
    for number in 1...5 { bench.place(CallID(high: 9, low: UInt64(number)), user: "u\(number)") }
    #expect(bench.pushes.count == 5)
    let sixth = bench.place(CallID(high: 9, low: 6), user: "u6")
    #expect(sixth?.state?.reason == .busy)
    #expect(bench.pushes.count == 5)
    var limits = CallLimits()
    limits.busyWhileInCall = true
    var busy = Bench(limits: limits)
    busy.enrol("b1", voip: "b1", can: [])
    busy.attach("b2")
    _ = busy.take()
    busy.place()
    busy.say(.call(Bench.callID, .answer(description: "")), device: "b2")
    let second = busy.place(CallID(high: 9, low: 1), user: "carol")
    #expect(second?.state?.reason == .busy)
    #expect(busy.pushes("b1") == [.ring], "for the first call only")
  }

  @Test("no pushes while a node might not read of them") func switchedOff() {
    var bench = sleeping("b1")
    bench.shard.mayPush = false
    #expect(bench.place()?.state?.reason == .unreachable)
    #expect(bench.pushes.isEmpty)
    #expect(bench.journalledPushes.isEmpty)
    bench.shard.mayPush = true
    bench.place(CallID(high: 9, low: 1))
    #expect(bench.pushes("b1") == [.ring])
  }
}
