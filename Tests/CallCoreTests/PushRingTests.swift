import CallCore
import Testing

/// Who is pushed while it rings, and when.
@Suite struct PushRingTests {
  /// Bob's devices ring on their sessions, and a push could wake them.
  private func ringing(_ devices: String..., limits: CallLimits = CallLimits()) -> Bench {
    var bench = Bench(limits: limits)
    for device in devices {
      bench.enrol(device, voip: device, can: [])
      bench.attach(device)
    }
    bench.place()
    return bench
  }

  /// No device is pushed before the span is over, and b1 is at its end.
  private func expectPush(after span: Span, _ bench: inout Bench) {
    bench.pass(Span(microseconds: span.microseconds - 1000))
    #expect(bench.pushes.isEmpty)
    bench.pass(.milliseconds(1))
    #expect(bench.pushes("b1") == [.ring])
  }

  private let later = Bench.session("b1", edge: 2)

  @Test("no session: pushed at once, with all that the payload needs") func atOnce() {
    var bench = Bench.sleeping("b1")
    let request = PlaceRequest(
      call: Bench.callID, ringTimeoutSeconds: 20, description: "offer",
      headers: [CustomHeader(name: "X-Team", value: "support")], video: true,
      deviceName: "Alice's phone")
    let reply = bench.say(.place(request), user: "alice", device: "alice1")
    #expect(reply?.state?.phase == .placed)
    let job = PushJob(
      user: UserKey(app: "demo", user: "bob"), device: "b1", call: Bench.callID, purpose: .ring,
      token: Bench.voip("b1"), dialect: .callmesh,
      caller: Party(user: "alice", device: "alice1", deviceName: "Alice's phone"), video: true,
      headers: [CustomHeader(name: "X-Team", value: "support")], placedAt: bench.now,
      ringDeadline: bench.now + .seconds(20), decidedAt: bench.now,
      deadline: bench.now + .seconds(20))
    #expect(bench.pushes == [job])
    // In one outcome, behind the call's placing.
    #expect(bench.journal.firstIndex { if case .placed = $0.change { true } else { false } } == 0)
    #expect(bench.journalledPushes == ["b1 ring"])
    #expect(bench.pushes.first?.token.fingerprint == "fp-b1")
  }

  @Test("a call that only sleeping devices can take rings until its deadline") func ringsOn() {
    var bench = Bench.sleeping("b1", "b2")
    bench.place(seconds: 30)
    for device in ["b1", "b2"] { bench.report(.accepted, device) }
    bench.endsAfter(.seconds(30), .unanswered)
  }

  @Test("a session and silence: pushed after 2 s, or what is set", arguments: [2000, 300])
  func silence(milliseconds: Int64) {
    let isSet = milliseconds != 2000
    let limits = isSet ? CallLimits.with { $0.pushAfterSilence = .milliseconds(300) } : CallLimits()
    var bench = ringing("b1", limits: limits)
    #expect(bench.invites("b1").count == 1)
    expectPush(after: .milliseconds(milliseconds), &bench)
    bench.pass(.seconds(20))
    #expect(bench.pushes.count == 1)
  }

  @Test("a session that heard is not pushed", arguments: [true, false])
  func acknowledged(byAck: Bool) {
    var bench = ringing("b1")
    bench.pass(.milliseconds(1500))
    if byAck { bench.acknowledgeAll() } else { bench.say(.alerting, "b1") }
    bench.pass(.seconds(20))
    #expect(bench.pushes.isEmpty)
  }

  @Test("a session breaks while the invite is unheard: pushed at once") func breaksUnheard() {
    var bench = ringing("b1")
    bench.pass(.milliseconds(500))
    bench.close("b1")
    #expect(bench.pushes("b1") == [.ring])
    bench.pass(.seconds(20))
    #expect(bench.ends.isEmpty, "it is on its way")
    bench.attach("b1", edge: 2)
    #expect(bench.deliveries(to: later).count == 1)
    #expect(bench.pushes.count == 1)
  }

  @Test("its edge dies while the invite is unheard") func edgeDies() {
    var bench = ringing("b1", "b2")
    bench.say(.alerting, "b2")
    bench.run { $0.edgeLost(1, now: $1, into: &$2) }
    #expect(bench.pushes("b1") == [.ring], "had not heard")
    #expect(bench.pushes("b2").isEmpty, "rings already")
  }

  @Test("heard, then lost: pushed when it does not come back", arguments: [true, false])
  func heardAndLost(comesBack: Bool) {
    var bench = ringing("b1")
    if comesBack { bench.acknowledgeAll() } else { bench.say(.alerting, "b1") }
    bench.close("b1")
    if comesBack {
      bench.pass(.seconds(3))
      bench.attach("b1", edge: 2)
      bench.say(.alerting, "b1", session: later)
    } else {
      expectPush(after: .seconds(5), &bench)
    }
    bench.pass(.seconds(20))
    #expect(bench.pushes.isEmpty == comesBack)
    #expect(bench.ends.isEmpty)
  }

  @Test("taking leave in mid-ring: a push brings it back") func leaves() {
    var bench = ringing("b1")
    bench.acknowledgeAll()
    bench.close("b1", graceful: true)
    #expect(bench.pushes("b1") == [.ring])
    #expect(bench.ends.isEmpty)
  }

  @Test("between two sockets: waited for and pushed") func betweenSockets() {
    var bench = Bench.sleeping("b1")
    bench.attach("b1")
    bench.close("b1")
    bench.pass(.seconds(1))
    bench.place()
    #expect(bench.pushes("b1") == [.ring])
    bench.pass(.seconds(1))
    bench.attach("b1", edge: 2)
    #expect(bench.deliveries(to: later).count == 1)
  }

  @Test("R6: registers, attaches, attaches again: one leg, one push") func oncePerDevice() {
    var bench = Bench.sleeping("b1")
    bench.place()
    for token in ["b1", "other"] { bench.enrol("b1", voip: token, can: []) }
    bench.attach("b1", edge: 2)
    bench.close("b1", session: later)
    bench.pass(.seconds(6))
    bench.attach("b1", edge: 3)
    bench.pass(.seconds(10))
    #expect(bench.pushes.count == 1)
    #expect(bench.journalledPushes == ["b1 ring"])
    #expect(bench.shard.inspect(call: Bench.callID)?.legs.count == 1)
  }

  @Test("a device that registers a token in mid-ring is woken by it") func registersLate() {
    var bench = Bench()
    bench.enrol("b1")
    bench.attach("b1")
    bench.close("b1")
    bench.place()
    #expect(bench.pushes.isEmpty)
    bench.enrol("b1", voip: "new", can: [])
    #expect(bench.pushes("b1") == [.ring])
    bench.pass(.seconds(20))
    #expect(bench.ends.isEmpty)
  }

  @Test("nobody is pushed for a call that is over, or past its deadline") func notWhenOver() {
    var bench = ringing("b1", "b2")
    bench.say(.alerting, "b2")
    bench.pass(.seconds(1))
    bench.answer("b2")
    bench.pass(.seconds(30))
    #expect(bench.pushes.isEmpty)
    var late = ringing("b1", limits: .with { $0.pushAfterSilence = .seconds(30) })
    late.pass(.seconds(30))
    #expect(late.pushes("b1").filter { $0 == .ring }.isEmpty, "at the deadline it ends")
  }

  @Test("five live calls on a device, and the busy rule, hold for sleeping devices") func limits() {
    var bench = Bench.sleeping("b1")
    for number: UInt64 in 1...5 { bench.place(CallID(high: 9, low: number), user: "u\(number)") }
    #expect(bench.pushes.count == 5)
    let sixth = bench.place(CallID(high: 9, low: 6), user: "u6")
    #expect(sixth?.state?.reason == .busy)
    #expect(bench.pushes.count == 5)
    var busy = Bench.sleeping("b1", limits: .with { $0.busyWhileInCall = true })
    busy.attach("b2")
    busy.place()
    busy.answer("b2")
    let second = busy.place(CallID(high: 9, low: 1), user: "carol")
    #expect(second?.state?.reason == .busy)
    #expect(busy.pushes("b1") == [.ring], "for the first call only")
  }

  @Test("no pushes while a node might not read of them") func switchedOff() {
    var bench = Bench.sleeping("b1")
    bench.shard.mayPush = false
    #expect(bench.place()?.state?.reason == .unreachable)
    #expect(bench.pushes.isEmpty)
    #expect(bench.journalledPushes.isEmpty)
    bench.shard.mayPush = true
    bench.place(CallID(high: 9, low: 1))
    #expect(bench.pushes("b1") == [.ring])
  }

  // MARK: Sinch's SDK takes a call from an alert; with every other dialect an alert of Apple's only shows

  private func called(voip: String? = nil, dialect: String) -> Bench {
    var bench = Bench()
    bench.enrol("b1", voip: voip, alert: "a1", dialect: dialect)
    _ = bench.take()
    bench.place()
    return bench
  }

  @Test("an alert token alone makes a leg, and rings") func alertAlone() {
    var bench = called(dialect: "sinch")
    #expect(bench.pushes.map(\.purpose) == [.ring])
    #expect(bench.pushes.map(\.token.token) == ["a1"])
    #expect(bench.pushes.map(\.hasAlertToken) == [true])
    var gone = bench
    bench.report(.accepted, "b1", token: "a1")
    bench.pass(.milliseconds(29_999))
    #expect(bench.ends.isEmpty)
    bench.attach("b1")
    #expect(bench.invites("b1").count == 1)
    gone.report(.tokenGone(at: nil), "b1", token: "a1")
    #expect(gone.ends.map(\.reason) == [.unreachable], "it is no leg any more")
  }

  @Test("a VoIP token rings before it") func voipBeforeAlert() {
    let bench = called(voip: "v1", dialect: "sinch")
    #expect(bench.pushes.map(\.token.token) == ["v1"])
    #expect(bench.pushes.map(\.hasAlertToken) == [false])
  }

  @Test(
    "in every other dialect such a device cannot be reached",
    arguments: PushDialect.allCases.filter { $0 != .sinch })
  func otherDialects(dialect: PushDialect) {
    let bench = called(dialect: dialect.rawValue)
    #expect(bench.pushes.allSatisfy { $0.purpose == .missedNotice })
    #expect(bench.ends.map(\.reason) == [.unreachable])
  }

  // MARK: R19

  @Test("R19: no token that could ring: unreachable at once") func nothingToWake() {
    var bench = Bench()
    bench.enrol("b1", alert: "a1", can: [])
    bench.enrol("b2")
    #expect(bench.place()?.state?.reason == .unreachable)
    #expect(bench.pushes.isEmpty)
  }

  @Test(
    "R19: no push arrives: unreachable at once",
    arguments: [
      PushOutcome.tokenGone(at: nil), .rejected(reason: "BadDeviceToken"), .expired,
      .failed(reason: "x"),
    ])
  func allRefused(outcome: PushOutcome) {
    var bench = Bench.sleeping("b1", "b2", can: .cancel)
    bench.place()
    bench.pass(.milliseconds(100))
    #expect(bench.report(outcome, "b1") == .done)
    #expect(bench.ends.isEmpty, "b2 is on its way")
    #expect(bench.report(outcome, "b2") == .done)
    #expect(bench.ends.map(\.reason) == [.unreachable])
    #expect(bench.stops("alice1").map(\.reason) == [.unreachable])
    #expect(bench.report(outcome, "b2", again: true) == .done, "retransmitted")
    #expect(bench.ends.count == 1)
    #expect(bench.pushes.map(\.purpose) == [.ring, .ring], "there is nothing to clean up")
  }

  @Test("R19: the work queue does not take it") func queueRefuses() {
    var bench = Bench.sleeping("b1")
    bench.place()
    let job = bench.pushes[0]
    bench.run { $0.pushNotQueued(job, reason: "full", now: $1, into: &$2) }
    #expect(bench.ends.map(\.reason) == [.unreachable])
  }

  @Test("a failed push matters not to a device that attached, or that may be back in a moment")
  func failureAfterAttach() {
    var bench = Bench.sleeping("b1")
    bench.place()
    bench.attach("b1", edge: 2)
    bench.report(.failed(reason: "x"), "b1")
    bench.pass(.seconds(10))
    #expect(bench.ends.isEmpty)
    var awaited = Bench.sleeping("b1")
    awaited.attach("b1")
    awaited.close("b1")
    awaited.place()
    awaited.report(.rejected(reason: "x"), "b1")
    awaited.endsAfter(.seconds(5), .unreachable)
  }

  @Test("the last refusal decides: busy, declined here, unreachable") func refusals() {
    for (verb, reason) in [(CallVerb.busy, EndReason.busy), (.decline(.here), .declined)] {
      var bench = Bench.sleeping("b1", "b2")
      bench.place()
      if verb == .busy { bench.report(.failed(reason: "x"), "b1") } else { bench.say(verb, "b1") }
      #expect(bench.ends.isEmpty)
      if verb == .busy { bench.say(verb, "b2") } else { bench.report(.failed(reason: "x"), "b2") }
      #expect(bench.ends.map(\.reason) == [reason])
    }
  }

  @Test("a woken device that refused hears one story", arguments: 0..<6) func oneStory(how: Int) {
    let refusals: [CallVerb] = [.decline(.here), .busy, .decline(.everywhere)]
    for refusal in how == 0 ? refusals : Array(refusals.prefix(2)) {
      var bench = Bench.sleeping("b1", "b2")
      bench.place()
      let first = bench.say(refusal, "b1")?.state
      #expect(first?.phase == .ended)
      #expect(first?.reason == (refusal == .busy ? .busy : .declined))
      switch how {
      case 1: bench.caller(.cancel)
      case 2: bench.answer("b2")
      case 3: bench.pass(.seconds(30))
      case 4: bench.say(.decline(.everywhere), "b2")
      case 5:
        bench.answer("b2")
        bench.caller(.hangUp)
      default: break
      }
      let back = Bench.session("b1", edge: 2)
      let attached = bench.wake("b1", session: back)?.state
      #expect(attached?.phase == .ended)
      #expect(first?.missed == false && attached?.missed == false)
      #expect(attached?.reason == first?.reason && attached?.by == first?.by)
      #expect(bench.say(refusal, "b1", session: back)?.state?.reason == first?.reason)
      #expect(bench.deliveries(to: back).isEmpty, "it has its answer")
    }
  }

  @Test("a push failed, and yet the device comes: it rings") func comesAllTheSame() {
    var bench = Bench.sleeping("b1")
    bench.attach("b2")
    bench.place()
    bench.report(.failed(reason: "x"), "b1")
    let back = Bench.session("b1", edge: 2)
    #expect(bench.wake("b1", session: back)?.state?.phase == .placed)
    #expect(bench.deliveries(to: back).count == 1)
    #expect(bench.answer("b1", session: back)?.won == true)
  }
}
