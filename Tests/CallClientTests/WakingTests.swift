import CallClient
import CallCore
import CallWire
import Testing

/// A device that a push woke.
@Suite struct WakingTests {
  let call = CallID(high: 1, low: 2)
  let other = Party(user: "me", device: "d2", deviceName: "Mine")
  private var query: ClientCommand { .call(CallAddress(call: call), .query) }

  private func state(
    _ phase: CallPhase, _ reason: EndReason? = nil, version: UInt64 = 9, by: Party? = nil
  ) -> CallState {
    CallState(call: call, callee: "me", phase: phase, version: version, reason: reason, by: by)
  }

  private func info(_ state: CallState) -> AttachedInfo {
    var info = AttachedInfo.sample
    info.forCall = state
    return info
  }

  /// The attach that was sent, and the call that it is for.
  private func attach(_ device: inout Device) -> (id: UInt64, forCall: CallID?)? {
    for frame in device.take().frames {
      if case .attach(let request) = frame.command { return (frame.id, request.forCall) }
    }
    return nil
  }

  /// Woken while it was stopped, and attached.
  private func woken(_ state: CallState) -> Device {
    var device = Device()
    device.machine.woken(for: call, &device.turn)
    #expect(device.take() == [.connect(edge: 0)])
    device.open()
    let attach = attach(&device)
    #expect(attach?.forCall == call)
    device.reply(attach?.id, .attached(info(state)))
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

  @Test("it rings when the invite comes, and does not ask for it") func theInviteComes() {
    var device = woken(state(.placed))
    #expect(device.take() == [.event(.attached(info(state(.placed)), again: false))])
    device.ring(call, 10)
    #expect(device.take().callEvents == [.invited(.sample())])
    device.pass(.seconds(6))
    #expect(!device.said().contains(query))
    // The next attach is an ordinary one.
    device.close()
    device.machine.reconnectNow(&device.turn)
    device.open()
    let next = attach(&device)
    #expect(next != nil && next?.forCall == nil)
  }

  /// Its shard does not know the session, and the device declines by HTTP: only that reply tells it.
  @Test("it rings, but no invite comes: it asks again, as long as it rings")
  func noInviteComes() {
    var device = woken(state(.placed))
    _ = device.take()
    for _ in 0..<3 {
      device.pass(.seconds(4))
      #expect(!device.said().contains(query))
      device.pass(.seconds(1))
      let asked = device.take().frames.filter { $0.command == query }
      #expect(asked.count == 1)
      device.reply(asked.first?.id, .call(state(.ringing)))
      #expect(device.take().callEvents.isEmpty)
    }
    device.pass(.seconds(5))
    let last = device.take().frames.last { $0.command == query }
    device.reply(last?.id, .call(state(.ended, .declined, version: 10, by: other)))
    #expect(device.take().callEvents == [.stopped(Stop(reason: .declined, by: other))])
    device.pass(.seconds(6))
    #expect(!device.said().contains(query))
  }

  @Test(arguments: [
    EndReason.answeredElsewhere, .declined, .cancelled, .unanswered, .busy, .unreachable,
  ])
  func itIsStopped(reason: EndReason) {
    var device = woken(state(.ended, reason, by: other))
    #expect(device.take().callEvents == [.stopped(Stop(reason: reason, by: other))])
    // Whatever comes later changes nothing.
    device.ring(call, 10)
    device.hear(call, 11, .stop(Stop(reason: .cancelled)))
    #expect(device.take().callEvents.isEmpty)
  }

  @Test func aCallThatNobodyKnowsIsOver() {
    var device = woken(state(.unknown))
    #expect(device.take().callEvents == [.stopped(Stop(reason: .failed))])
  }

  @Test func itHadAnsweredAndComesBack() {
    var device = woken(state(.answered, by: .me))
    #expect(device.take().callEvents.isEmpty)
    device.hear(call, 10, .answered(Answered(by: .me)))
    let isWon = if case .won? = device.take().callEvents.first { true } else { false }
    #expect(isWon)
  }

  /// It knows what became of the call, which may ring here once more, for a transfer.
  @Test func wokenAgainItAsksOnceAndStaysWithinReach() {
    var device = woken(state(.ended, .cancelled))
    _ = device.take()
    device.machine.woken(for: call, &device.turn)
    #expect(device.take().isEmpty)
    device.close()
    _ = device.take()
    device.machine.woken(for: call, &device.turn)
    #expect(device.take().contains { if case .connect = $0 { true } else { false } })
  }

  @Test("two pushes before it is attached: it asks for both calls") func wokenForTwoCalls() {
    let second = CallID(high: 1, low: 3)
    var device = Device()
    device.machine.woken(for: call, &device.turn)
    device.machine.woken(for: second, &device.turn)
    #expect(device.take() == [.connect(edge: 0)])
    device.open()
    let attach = attach(&device)
    #expect(attach?.forCall == second)
    let over = CallState(call: second, callee: "me", phase: .ended, reason: .cancelled)
    device.reply(attach?.id, .attached(info(over)))
    let actions = device.take()
    #expect(actions.callEvents == [.stopped(Stop(reason: .cancelled))])
    #expect(actions.frames.map(\.command) == [query])
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

  /// The wait after a failure is cut short: somebody is calling.
  @Test func aWaitingDeviceConnectsAtOnce() {
    var device = Device.attached()
    device.close()
    _ = device.take()
    device.machine.woken(for: call, &device.turn)
    #expect(device.take() == [.connect(edge: 1)])
    device.open()
    #expect(attach(&device)?.forCall == call)
  }

  @Test func anAttachThatFailedIsSaidAgainForTheCall() {
    var device = Device()
    device.machine.woken(for: call, &device.turn)
    device.open()
    device.answerAttach(.error(CallError(.tryAgain)))
    device.passWait()
    device.open()
    #expect(attach(&device)?.forCall == call)
  }

  /// The attach was said before the push came: the call is asked about.
  @Test func wokenWhileItAttaches() {
    var device = Device()
    device.start()
    device.open()
    let id = attach(&device)?.id
    device.machine.woken(for: call, &device.turn)
    #expect(device.take().isEmpty)
    device.reply(id, .attached(.sample))
    let said = device.take().frames
    #expect(said.map(\.command) == [query])
    device.reply(said.first?.id, .call(state(.unknown, version: 0)))
    #expect(device.take().callEvents == [.stopped(Stop(reason: .failed))])
  }

  @Test func wokenWhileAttachedItAsks() {
    var device = Device.attached()
    device.machine.woken(for: call, &device.turn)
    let said = device.take().frames
    #expect(said.map(\.command) == [query])
    // It rings: the invite is on its way, and is no repetition of anything.
    device.reply(said.first?.id, .call(state(.ringing)))
    #expect(device.take().callEvents.isEmpty)
    device.ring(call, 9)
    #expect(device.take().callEvents == [.invited(.sample())])
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
    var device = Device.attached()
    let notice = Notice(kind: kind, message: "m")
    device.hear(.notice(notice))
    #expect(device.take() == [.event(.notice(notice))])
    #expect(device.machine.isAttached && !device.machine.isMoving)
  }
}
