import CallClient
import CallCore
import CallWire
import Testing

/// A device that a push woke.
@Suite struct WakingTests {
  let call = CallID(high: 1, low: 2)
  let other = Party(user: "me", device: "d2", deviceName: "Mine")

  private func info(_ phase: CallPhase, _ reason: EndReason? = nil, by: Party? = nil)
    -> AttachedInfo
  {
    var info = AttachedInfo.sample
    info.forCall = CallState(
      call: call, callee: "me", phase: phase, version: 9, reason: reason, by: by)
    return info
  }

  private func attachSaid(_ actions: [ClientMachine.Action]) -> (UInt64, AttachRequest)? {
    for frame in actions.frames {
      if case .attach(let request) = frame.command { return (frame.id, request) }
    }
    return nil
  }

  /// Woken while it was stopped, and attached.
  private func woken(_ info: AttachedInfo) -> Device {
    var device = Device()
    device.machine.woken(for: call, &device.turn)
    #expect(device.take() == [.connect(edge: 0)])
    device.open()
    guard let (id, attach) = attachSaid(device.take()) else {
      Issue.record("no attach")
      return device
    }
    #expect(attach.forCall == call)
    device.hear(.reply(id: id, .attached(info)))
    return device
  }

  /// A push comes over a network, so the device waits no longer than after its first failure.
  @Test func aDeviceThatWasAwayForLongTriesSoonAgain() {
    var device = Device()
    device.start()
    for _ in 0..<80 {
      device.close()
      device.pass(.seconds(15))
    }
    device.close()
    _ = device.take()
    device.machine.woken(for: call, &device.turn)
    #expect(device.take().contains { if case .connect = $0 { true } else { false } })
    device.close()
    device.expectWait(upTo: 250_000)
  }

  @Test func itRingsWhenTheInviteComes() {
    var device = woken(info(.placed))
    let invite = Invite(caller: Party(user: "you", device: "y"), deadline: device.now)
    #expect(device.take() == [.event(.attached(info(.placed), again: false))])
    device.hear(call, 10, .invite(invite))
    #expect(device.take().callEvents == [.invited(invite)])
    // The next attach is an ordinary one.
    device.close()
    device.machine.reconnectNow(&device.turn)
    device.open()
    #expect(attachSaid(device.take())?.1.forCall == nil)
  }

  /// Its shard does not know the session, and the device declines by HTTP: only that reply tells it.
  @Test("it rings, but no invite comes: it asks again, as long as it rings")
  func noInviteComes() {
    var device = woken(info(.placed))
    _ = device.take()
    let query = ClientCommand.call(CallAddress(call: call), .query)
    for _ in 0..<3 {
      device.pass(.seconds(4))
      #expect(!device.take().frames.contains { $0.command == query })
      device.pass(.seconds(1))
      let asked = device.take().frames.filter { $0.command == query }
      #expect(asked.count == 1)
      let state = CallState(call: call, callee: "me", phase: .ringing, version: 9)
      device.hear(.reply(id: asked.first?.id ?? 0, .call(state)))
      #expect(device.take().callEvents.isEmpty)
    }
    device.pass(.seconds(5))
    let last = device.take().frames.last { $0.command == query }
    let state = CallState(
      call: call, callee: "me", phase: .ended, version: 10, reason: .declined, by: other)
    device.hear(.reply(id: last?.id ?? 0, .call(state)))
    #expect(device.take().callEvents == [.stopped(Stop(reason: .declined, by: other))])
    device.pass(.seconds(6))
    #expect(!device.take().frames.contains { $0.command == query })
  }

  @Test("the invite has come: it does not ask") func theInviteCame() {
    var device = woken(info(.placed))
    device.hear(
      call, 10, .invite(Invite(caller: Party(user: "you", device: "y"), deadline: device.now)))
    _ = device.take()
    device.pass(.seconds(6))
    #expect(
      !device.take().frames.contains {
        if case .call(_, .query) = $0.command { true } else { false }
      })
  }

  @Test(arguments: [
    EndReason.answeredElsewhere, .declined, .cancelled, .unanswered, .busy, .unreachable,
  ])
  func itIsStopped(reason: EndReason) {
    var device = woken(info(.ended, reason, by: other))
    #expect(device.take().callEvents == [.stopped(Stop(reason: reason, by: other))])
    // Whatever comes later changes nothing.
    let invite = Invite(caller: Party(user: "you", device: "y"), deadline: device.now)
    device.hear(call, 10, .invite(invite))
    device.hear(call, 11, .stop(Stop(reason: .cancelled)))
    #expect(device.take().callEvents.isEmpty)
  }

  @Test func aCallThatNobodyKnowsIsOver() {
    var device = woken(info(.unknown))
    #expect(device.take().callEvents == [.stopped(Stop(reason: .failed))])
  }

  @Test func itHadAnsweredAndComesBack() {
    var device = woken(info(.answered, by: Party(user: "me", device: "d1")))
    #expect(device.take().callEvents.isEmpty)
    device.hear(call, 10, .answered(Answered(by: Party(user: "me", device: "d1"))))
    guard case .won? = device.take().callEvents.first else {
      Issue.record("not won")
      return
    }
  }

  @Test func wokenAgainItAsksOnce() {
    var device = woken(info(.ended, .cancelled))
    _ = device.take()
    device.machine.woken(for: call, &device.turn)
    #expect(device.take().isEmpty, "it knows what became of the call")
  }

  /// The wait after a failure is cut short: somebody is calling.
  @Test("two pushes before it is attached: it asks for both calls") func wokenForTwoCalls() {
    let second = CallID(high: 1, low: 3)
    var device = Device()
    device.machine.woken(for: call, &device.turn)
    device.machine.woken(for: second, &device.turn)
    #expect(device.take() == [.connect(edge: 0)])
    device.open()
    guard let (id, attach) = attachSaid(device.take()) else {
      Issue.record("no attach")
      return
    }
    #expect(attach.forCall == second)
    var info = AttachedInfo.sample
    info.forCall = CallState(call: second, callee: "me", phase: .ended, reason: .cancelled)
    device.hear(.reply(id: id, .attached(info)))
    let actions = device.take()
    #expect(actions.callEvents == [.stopped(Stop(reason: .cancelled))])
    #expect(actions.frames.map(\.command) == [.call(CallAddress(call: call), .query)])
  }

  @Test("more pushes than anybody can have calls: the oldest count as over") func wokenTooOften() {
    var device = Device()
    for number in 0..<20 {
      let call = CallID(high: 7, low: UInt64(number))
      device.machine.woken(for: call, &device.turn)
    }
    let over = device.take().compactMap { action -> CallID? in
      if case .event(.call(let call, .stopped)) = action { call } else { nil }
    }
    #expect(over == (0..<4).map { CallID(high: 7, low: UInt64($0)) })
  }

  @Test func aWaitingDeviceConnectsAtOnce() {
    var device = Device()
    device.attach()
    device.close()
    _ = device.take()
    device.machine.woken(for: call, &device.turn)
    #expect(device.take() == [.connect(edge: 1)])
    device.open()
    #expect(attachSaid(device.take())?.1.forCall == call)
  }

  @Test func anAttachThatFailedIsSaidAgainForTheCall() {
    var device = Device()
    device.machine.woken(for: call, &device.turn)
    device.open()
    let id = attachSaid(device.take())?.0 ?? 0
    device.hear(.reply(id: id, .error(CallError(.tryAgain))))
    guard case .waiting(let until) = device.machine.state else {
      Issue.record("does not wait")
      return
    }
    device.pass(until - device.now)
    device.open()
    #expect(attachSaid(device.take())?.1.forCall == call)
  }

  /// The attach was said before the push came: the call is asked about.
  @Test func wokenWhileItAttaches() {
    var device = Device()
    device.start()
    device.open()
    let id = attachSaid(device.take())?.0 ?? 0
    device.machine.woken(for: call, &device.turn)
    #expect(device.take().isEmpty)
    device.hear(.reply(id: id, .attached(.sample)))
    let said = device.take().frames
    #expect(said.map(\.command) == [.call(CallAddress(call: call), .query)])
    device.hear(
      .reply(id: said[0].id, .call(CallState(call: call, callee: "me", phase: .unknown))))
    #expect(device.take().callEvents == [.stopped(Stop(reason: .failed))])
  }

  @Test func wokenWhileAttachedItAsks() {
    var device = Device()
    device.attach()
    device.machine.woken(for: call, &device.turn)
    let said = device.take().frames
    #expect(said.map(\.command) == [.call(CallAddress(call: call), .query)])
    // It rings: the invite is on its way, and is no repetition of anything.
    device.hear(
      .reply(
        id: said[0].id, .call(CallState(call: call, callee: "me", phase: .ringing, version: 3))))
    #expect(device.take().callEvents.isEmpty)
    let invite = Invite(caller: Party(user: "you", device: "y"), deadline: device.now)
    device.hear(call, 3, .invite(invite))
    #expect(device.take().callEvents == [.invited(invite)])
    // A push that comes later than the invite has nothing to add.
    device.machine.woken(for: call, &device.turn)
    #expect(device.take().frames.isEmpty)
  }

  @Test func answersByTheirKind() {
    func answer(_ phase: CallPhase, _ reason: EndReason? = nil) -> WakeAnswer {
      CallState(
        call: call, callee: "me", phase: phase, reason: reason, by: other,
        deadline: Timestamp(microseconds: 5)
      ).wakeAnswer
    }
    #expect(answer(.placed) == .rings(until: Timestamp(microseconds: 5)))
    #expect(answer(.ringing) == .rings(until: Timestamp(microseconds: 5)))
    #expect(answer(.answered) == .answeredHere)
    #expect(answer(.unknown) == .unknown)
    #expect(answer(.ended, .answeredElsewhere) == .answeredElsewhere(by: other))
    #expect(answer(.ended, .declined) == .declined(by: other))
    #expect(answer(.ended, .cancelled) == .cancelled(by: other))
    #expect(answer(.ended, .unanswered) == .unanswered)
    #expect(answer(.ended) == .unknown)
    for rest in [EndReason.busy, .unreachable, .hungUp, .failed, .glare, .moved] {
      #expect(answer(.ended, rest) == .ended(rest, by: other))
    }
  }

  @Test(arguments: [Notice.Kind.tokenTaken, .deviceRemoved])
  func theAppHearsOfItsTokenAndStaysAttached(kind: Notice.Kind) {
    var device = Device()
    device.attach()
    let notice = Notice(kind: kind, message: "m")
    device.hear(.notice(notice))
    #expect(device.take() == [.event(.notice(notice))])
    #expect(device.machine.isAttached && !device.machine.isMoving)
  }
}
