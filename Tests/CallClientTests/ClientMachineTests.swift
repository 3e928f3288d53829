import CallClient
import CallCore
import CallWire
import Testing

/// A machine with a clock to turn and what it asked for.
struct Device {
  var machine: ClientMachine
  var now = Timestamp(microseconds: 1_000_000)
  var random = SplitMix64(seed: 1)
  var actions: [ClientMachine.Action] = []

  init(edges: [String] = ["a", "b", "c"]) {
    machine = ClientMachine(.init(edges: edges, token: "t", device: "d1"))
  }

  static func configuration(
    _ change: (inout ClientMachine.Configuration) -> Void
  ) -> ClientMachine.Configuration {
    var configuration = ClientMachine.Configuration(edges: ["a"], token: "t", device: "d1")
    change(&configuration)
    return configuration
  }

  mutating func take() -> [ClientMachine.Action] {
    defer { actions = [] }
    return actions
  }

  mutating func start() { machine.start(now: now, into: &actions) }
  mutating func open() { machine.opened(now: now, into: &actions) }
  mutating func readCompleted() { machine.readCompleted(now: now, into: &actions) }
  mutating func close() { machine.closed(now: now, random: &random, into: &actions) }

  mutating func hear(_ frame: ServerFrame) {
    machine.received(frame, now: now, random: &random, into: &actions)
  }

  mutating func hear(_ call: CallID, _ version: UInt64, _ event: Delivery.Event) {
    hear(
      .delivery(Delivery(call: call, callee: "me", version: version, at: now, event: event)))
  }

  mutating func pass(_ span: Span) {
    now = now + span
    machine.fire(now: now, random: &random, into: &actions)
  }

  @discardableResult mutating func say(_ command: ClientCommand) -> UInt64? {
    machine.submit(command, now: now, into: &actions)
  }

  /// Attaches; forgets what that took.
  mutating func attach() {
    start()
    open()
    for frame in take().frames { hear(.reply(id: frame.id, .attached(.sample))) }
    _ = take()
  }

  /// Comes back after its connection broke.
  mutating func comeBack() {
    machine.reconnectNow(now: now, into: &actions)
    open()
    for frame in take().frames { hear(.reply(id: frame.id, .attached(.sample))) }
  }
}

extension AttachedInfo {
  static let sample = AttachedInfo(
    session: "s", user: "me", device: "d1", pingSeconds: 25,
    serverTime: Timestamp(microseconds: 0))
}

extension [ClientMachine.Action] {
  var frames: [ClientFrame] { compactMap { if case .send(let frame) = $0 { frame } else { nil } } }
  var events: [ClientEvent] { compactMap { if case .event(let event) = $0 { event } else { nil } } }
  var callEvents: [CallEvent] {
    events.compactMap { if case .call(_, let event) = $0 { event } else { nil } }
  }
}

@Suite struct ClientMachineConnectionTests {
  @Test func attachesWithTokenAndDevice() {
    var device = Device()
    device.start()
    #expect(device.take() == [.connect(edge: 0)])
    device.open()
    let frames = device.take().frames
    #expect(frames.count == 1)
    guard case .attach(let attach)? = frames.first?.command else {
      Issue.record("no attach")
      return
    }
    #expect(attach.token == "t")
    #expect(attach.device == "d1")
    device.hear(.reply(id: frames[0].id, .attached(.sample)))
    #expect(device.take().events == [.attached(.sample, again: false)])
    #expect(device.machine.isAttached)
  }

  @Test func goesToTheNextEdgeAfterAWaitThatGrows() {
    var device = Device()
    device.start()
    var waits: [Int64] = []
    for edge in [1, 2, 0, 1, 2] {
      _ = device.take()
      device.close()
      guard case .waiting(let until) = device.machine.state else {
        Issue.record("does not wait")
        return
      }
      waits.append((until - device.now).microseconds)
      device.pass(until - device.now)
      #expect(device.take().contains(.connect(edge: edge)))
    }
    for (index, wait) in waits.enumerated() {
      let ceiling = Int64(250_000) << Int64(index)
      #expect(wait >= ceiling / 2 && wait <= ceiling)
    }
  }

  @Test func aRefusedTokenIsNotTriedAgain() {
    var device = Device()
    device.start()
    device.open()
    let id = device.take().frames[0].id
    device.hear(.reply(id: id, .error(CallError(.expired))))
    #expect(device.machine.state == .stopped)
    #expect(device.take() == [.close, .event(.refused(CallError(.expired)))])
    #expect(device.machine.nextDeadline == nil)
  }

  @Test func aReplacedSessionDoesNotFightBack() {
    var device = Device()
    device.attach()
    device.hear(.notice(Notice(kind: .sessionReplaced, message: "")))
    #expect(device.machine.state == .stopped)
  }

  /// An attach that was given up may be under way for as long as its edge is cut off from the cluster. The
  /// session that it replaces then is the device's own.
  @Test(arguments: [(Span.seconds(20), true), (.seconds(119), true), (.seconds(121), false)])
  func anAttachThatComesLateThrowsNobodyOut(late: Span, comesBack: Bool) {
    var device = Device()
    device.start()
    device.open()
    let given = device.now
    device.pass(.seconds(10))
    guard case .waiting(let until) = device.machine.state else {
      Issue.record("it does not give the attach up")
      return
    }
    device.pass(until - device.now)
    _ = device.take()
    device.open()
    let id = device.take().frames[0].id
    device.hear(.reply(id: id, .attached(.sample)))
    #expect(device.machine.isAttached)
    while device.now < given + late {
      device.machine.heard(now: device.now)
      device.pass(min(.seconds(10), given + late - device.now))
    }
    _ = device.take()
    device.hear(.notice(Notice(kind: .sessionReplaced, message: "")))
    guard comesBack else {
      #expect(device.machine.state == .stopped)
      return
    }
    #expect(device.take().contains(.close))
    guard case .waiting(let again) = device.machine.state else {
      Issue.record("it does not come back")
      return
    }
    device.pass(again - device.now)
    device.open()
    let second = device.take().frames[0].id
    device.hear(.reply(id: second, .attached(.sample)))
    #expect(device.machine.isAttached)
  }

  @Test func silenceBreaksTheConnection() {
    var device = Device()
    device.attach()
    device.pass(.seconds(60))
    #expect(device.machine.isAttached)
    device.machine.heard(now: device.now)
    device.pass(.seconds(60))
    #expect(device.machine.isAttached)
    device.pass(.seconds(3))
    #expect(!device.machine.isAttached)
    #expect(device.take().contains(.close))
  }

  @Test func aHeartbeatFindsADeadConnectionSooner() {
    var device = Device()
    device.machine = ClientMachine(Device.configuration { $0.heartbeat = .init() })
    device.attach()
    device.pass(.seconds(19))
    #expect(device.take().frames.isEmpty)
    device.pass(.seconds(1))
    let pings = device.take().frames
    #expect(pings.map(\.command) == [.ping])
    // One is enough; and whatever comes says that the connection lives.
    device.pass(.seconds(4))
    #expect(device.take().isEmpty)
    device.now = device.now + .milliseconds(500)
    device.hear(.reply(id: pings[0].id, .done))
    #expect(device.take().isEmpty)
    #expect(device.machine.nextDeadline == device.now + .seconds(20))
    device.pass(.seconds(20))
    #expect(device.take().frames.map(\.command) == [.ping])
    #expect(device.machine.nextDeadline == device.now + .seconds(5))
    device.pass(.seconds(5))
    #expect(!device.machine.isAttached)
    #expect(device.take().contains(.close))
  }

  @Test func aDeviceThatWakesAsksAtOnce() {
    var device = Device()
    device.machine = ClientMachine(Device.configuration { $0.heartbeat = .init() })
    device.attach()
    device.now = device.now + .seconds(2)
    let call = CallID(high: 1, low: 2)
    device.machine.woken(for: call, now: device.now, into: &device.actions)
    #expect(
      device.take().frames.map(\.command) == [.call(CallAddress(call: call), .query), .ping])
    device.pass(.seconds(5))
    #expect(!device.machine.isAttached)
  }

  @Test func whoHearsSomethingSendsNoHeartbeat() {
    var device = Device()
    device.machine = ClientMachine(Device.configuration { $0.heartbeat = .init() })
    device.attach()
    for _ in 0..<10 {
      device.pass(.seconds(15))
      device.machine.heard(now: device.now)
    }
    #expect(device.take().frames.isEmpty && device.machine.isAttached)
  }
}

@Suite struct ClientMachineCommandTests {
  let call = CallID(high: 1, low: 2)

  /// An app that was started anew asks which calls it left behind, and takes one of them up.
  @Test func aCallOfAFormerRunIsTakenUp() {
    var device = Device()
    device.attach()
    let id = device.say(.calls)!
    let state = CallState(call: call, callee: "bob", phase: .ringing, version: 5)
    device.hear(.reply(id: id, .calls(LiveCalls(placed: [state]))))
    #expect(
      device.take().events == [
        .replied(request: id, .calls, .calls(LiveCalls(placed: [state])))
      ])
    let resumed = device.say(.call(CallAddress(callee: "bob", call: call), .resume))!
    #expect(device.machine.calls[call]?.role == .caller)
    device.hear(.reply(id: resumed, .call(state)))
    _ = device.take()
    let winner = Party(user: "bob", device: "b1")
    device.hear(call, 6, .answered(Answered(by: winner)))
    #expect(device.take().callEvents == [.answered(Answered(by: winner))])
    #expect(device.machine.address(call) == CallAddress(callee: "bob", call: call))
  }

  /// An app that was started again knows nothing of the call that it had placed, and uses its id for
  /// another one. It has that call still, and must not believe that it failed.
  @Test(arguments: [true, false])
  func aPlaceUnderATakenIDAsksForTheCallThatHasIt(isItsOwn: Bool) {
    var device = Device()
    device.attach()
    let address = CallAddress(callee: "you", call: call)
    let request = device.say(.place(address, .init(call: call, description: "other")))!
    _ = device.take()
    device.hear(.reply(id: request, .error(CallError(.callIDTaken))))
    let resume = device.take().frames.last
    #expect(resume?.command == .call(address, .resume))
    #expect(device.machine.calls[call]?.isEnded == false)
    guard let resume else { return }
    guard isItsOwn else {
      device.hear(.reply(id: resume.id, .error(CallError(.notParty))))
      #expect(device.machine.calls[call]?.stop?.reason == .failed)
      return
    }
    device.hear(
      .reply(
        id: resume.id, .call(CallState(call: call, callee: "you", phase: .ringing, version: 5))))
    #expect(device.machine.calls[call]?.phase == .ringing)
    device.hear(call, 6, .stop(Stop(reason: .hungUp)))
    #expect(device.machine.calls[call]?.stop?.reason == .hungUp)
  }

  @Test func aCommandIsSaidAgainUnchangedUntilItIsAnswered() {
    var device = Device()
    device.attach()
    let request = device.say(.call(CallAddress(call: call), .alerting))
    let first = device.take().frames
    device.pass(.seconds(7))
    #expect(device.take().frames == first)
    device.hear(.reply(id: request!, .done))
    #expect(
      device.take().events
        == [.replied(request: request!, .call(CallAddress(call: call), .alerting), .done)])
    device.pass(.seconds(7))
    #expect(device.take().frames.isEmpty)
  }

  @Test func aCommandThatIsNeverAnsweredIsGivenUp() {
    var device = Device()
    device.attach()
    let request = device.say(.call(CallAddress(call: call), .alerting))
    for _ in 0..<3 {
      device.machine.heard(now: device.now)
      device.pass(.seconds(7))
      #expect(device.take().events.isEmpty)
    }
    device.pass(.seconds(7))
    #expect(
      device.take().events == [
        .gaveUp(request: request!, .call(CallAddress(call: call), .alerting))
      ])
  }

  @Test func tryAgainIsTriedAgainAfterItsTime() {
    var device = Device()
    device.attach()
    let request = device.say(.call(CallAddress(call: call), .alerting))!
    _ = device.take()
    device.hear(
      .reply(id: request, .error(CallError(.tryAgain, retryAfterMilliseconds: 1000))))
    #expect(device.take().isEmpty)
    device.pass(.milliseconds(999))
    #expect(device.take().isEmpty)
    device.pass(.milliseconds(502))
    #expect(device.take().frames.map(\.id) == [request])
  }

  @Test func commandsWaitForTheConnectionAndAreRepeatedOverANewOne() {
    var device = Device()
    let early = device.say(.call(CallAddress(call: call), .query))!
    #expect(device.take().isEmpty)
    device.start()
    device.open()
    let attach = device.take().frames[0]
    device.hear(.reply(id: attach.id, .attached(.sample)))
    #expect(device.take().frames.map(\.id) == [early])
    device.close()
    device.comeBack()
    #expect(device.take().frames.map(\.id) == [early])
  }

  @Test func nothingIsSaidOfACallBeforeItsPlaceIsAnswered() {
    var device = Device()
    device.attach()
    let address = CallAddress(callee: "you", call: call)
    let place = device.say(.place(address, PlaceRequest(call: call)))!
    let signal = device.say(.call(address, .signal(.candidate, body: "c")))!
    let other = device.say(.call(CallAddress(call: CallID(high: 5, low: 5)), .query))!
    #expect(device.take().frames.map(\.id) == [place, other])
    // The edge takes nothing new, or dies: the place is said first, also on the next connection.
    device.hear(.reply(id: other, .done))
    device.close()
    device.comeBack()
    #expect(device.take().frames.map(\.id) == [place])
    let state = CallState(call: call, callee: "you", phase: .placed, version: 1)
    device.hear(.reply(id: place, .call(state)))
    #expect(device.take().frames.map(\.id) == [signal])
    device.pass(.seconds(7))
    #expect(device.take().frames.map(\.id) == [signal], "and again until it is answered")
  }

  @Test func tooManyWaitingCommandsAreRefused() {
    var device = Device()
    for _ in 0..<64 { #expect(device.say(.call(CallAddress(call: call), .query)) != nil) }
    #expect(device.say(.call(CallAddress(call: call), .query)) == nil)
  }
}

@Suite struct ClientMachineCallTests {
  let call = CallID(high: 1, low: 2)
  let caller = Party(user: "you", device: "x")
  var invite: Delivery.Event {
    .invite(Invite(caller: caller, deadline: Timestamp(microseconds: 31_000_000)))
  }

  @Test func everyDeliveryIsAcknowledgedOnceABurstAndToldOnce() {
    var device = Device()
    device.attach()
    device.hear(call, 5, invite)
    device.hear(call, 5, invite)
    device.hear(call, 6, .stop(Stop(reason: .cancelled, by: caller, missed: true)))
    device.readCompleted()
    let actions = device.take()
    #expect(actions.callEvents.count == 2)
    #expect(actions.frames.isEmpty)
    device.pass(.milliseconds(150))
    let items = [5, 5, 6].map { AckItem(call: CallAddress(call: call), version: $0) }
    #expect(device.take().frames == [ClientFrame(id: 0, command: .ack(items))])
    device.readCompleted()
    device.pass(.milliseconds(150))
    #expect(device.take().isEmpty)
  }

  @Test func anAcknowledgementTravelsWithTheNextCommand() {
    var device = Device()
    device.attach()
    device.hear(call, 5, invite)
    device.hear(call, 6, .signal(Signal(index: 1, kind: .candidate, body: "")))
    device.readCompleted()
    let address = CallAddress(call: call)
    device.say(.call(address, .connected))
    let items = [5, 6].map { AckItem(call: address, version: $0) }
    #expect(device.take().frames.map(\.command) == [.ack(items), .call(address, .connected)])
    device.pass(.milliseconds(150))
    #expect(device.take().isEmpty)
  }

  @Test func whatADeviceSaysOfAnInviteAcknowledgesIt() {
    var device = Device()
    device.attach()
    device.hear(call, 5, invite)
    device.hear(call, 6, .signal(Signal(index: 1, kind: .candidate, body: "")))
    device.readCompleted()
    let address = CallAddress(call: call)
    device.say(.call(address, .alerting))
    let signal = AckItem(call: address, version: 6)
    #expect(device.take().frames.map(\.command) == [.ack([signal]), .call(address, .alerting)])
    device.pass(.milliseconds(150))
    #expect(device.take().isEmpty)
  }

  @Test func manyAcknowledgementsDoNotWait() {
    var device = Device()
    device.attach()
    for version in 1...32 as ClosedRange<UInt64> {
      device.hear(call, version, .signal(Signal(index: version, kind: .candidate, body: "")))
    }
    device.readCompleted()
    #expect(device.take().frames.count == 1)
  }

  @Test func nothingRingsAfterTheEnd() {
    var device = Device()
    device.attach()
    device.hear(call, 6, .stop(Stop(reason: .cancelled, by: caller)))
    device.hear(call, 5, invite)
    device.hear(call, 7, .stop(Stop(reason: .unanswered)))
    #expect(device.take().callEvents == [.stopped(Stop(reason: .cancelled, by: caller))])
  }

  @Test func otherContentUnderTheIDOfACallDoesNotEndIt() {
    var device = Device()
    device.attach()
    let call = CallID(high: 7, low: 7)
    let address = CallAddress(callee: "you", call: call)
    let first = device.say(.place(address, PlaceRequest(call: call)))
    let other = device.say(.place(address, PlaceRequest(call: call, description: "other")))
    device.hear(.reply(id: other!, .error(CallError(.callIDTaken))))
    #expect(device.machine.calls[call]?.isEnded == false)
    let state = CallState(call: call, callee: "you", phase: .placed, version: 1)
    device.hear(.reply(id: first!, .call(state)))
    #expect(device.machine.calls[call]?.phase == .placed)
    let third = device.say(.place(address, PlaceRequest(call: call, description: "third")))
    device.hear(.reply(id: third!, .error(CallError(.callIDTaken))))
    #expect(device.machine.calls[call]?.phase == .placed)
    // It may have been what would have taken the call up after an attach: that is made good.
    #expect(device.take().frames.contains { $0.command == .call(address, .resume) })
  }

  @Test func whatWasLostAndComesLaterIsStillNews() {
    var device = Device()
    device.attach()
    device.say(.place(CallAddress(callee: "you", call: call), PlaceRequest(call: call)))
    _ = device.take()
    device.hear(call, 9, .signal(Signal(index: 2, kind: .candidate, body: "2")))
    device.hear(call, 8, .answered(Answered(by: caller)))
    device.hear(call, 9, .signal(Signal(index: 2, kind: .candidate, body: "2")))
    #expect(
      device.take().callEvents == [
        .signal(Signal(index: 2, kind: .candidate, body: "2")), .answered(Answered(by: caller)),
      ])
  }

  @Test func aRepeatedInviteBringsTheCandidatesThatWereSentMeanwhile() {
    var device = Device()
    device.attach()
    func invite(_ indices: ClosedRange<UInt64>) -> Delivery.Event {
      .invite(
        Invite(
          caller: caller, deadline: Timestamp(microseconds: 60_000_000),
          signals: indices.map { Signal(index: $0, kind: .candidate, body: "\($0)") }))
    }
    device.hear(call, 5, invite(1...2))
    _ = device.take()
    device.close()
    device.comeBack()
    device.hear(call, 9, invite(1...4))
    #expect(
      device.take().callEvents
        == [3, 4].map { .signal(Signal(index: $0, kind: .candidate, body: "\($0)")) })
  }

  @Test func aWinnerIsNotToldThatItLost() {
    var device = Device()
    device.attach()
    device.hear(call, 5, invite)
    let request = device.say(.call(CallAddress(call: call), .answer(description: "")))!
    _ = device.take()
    let state = CallState(call: call, callee: "me", phase: .answered, version: 6)
    device.hear(.reply(id: request, .answer(won: true, state)))
    device.hear(call, 7, .stop(Stop(reason: .answeredElsewhere, by: caller)))
    device.hear(call, 8, .stop(Stop(reason: .hungUp, by: caller)))
    #expect(
      device.take().callEvents == [.won(state), .stopped(Stop(reason: .hungUp, by: caller))])
  }

  @Test func aLoserHearsOnceWhoWon() {
    var device = Device()
    device.attach()
    device.hear(call, 5, invite)
    let request = device.say(.call(CallAddress(call: call), .answer(description: "")))!
    _ = device.take()
    let winner = Party(user: "me", device: "d2")
    device.hear(call, 7, .stop(Stop(reason: .answeredElsewhere, by: winner)))
    device.hear(
      .reply(
        id: request,
        .answer(
          won: false,
          CallState(
            call: call, callee: "me", phase: .ended, version: 7, reason: .answeredElsewhere,
            by: winner))))
    #expect(
      device.take().callEvents == [.stopped(Stop(reason: .answeredElsewhere, by: winner))])
  }

  @Test func aCallerThatComesBackResumesItsLiveCalls() {
    var device = Device()
    device.attach()
    let ended = CallID(high: 3, low: 4)
    for id in [call, ended] {
      let request = device.say(.place(CallAddress(callee: "you", call: id), PlaceRequest(call: id)))
      device.hear(
        .reply(id: request!, .call(CallState(call: id, callee: "you", phase: .placed, version: 1))))
    }
    device.hear(ended, 2, .stop(Stop(reason: .declined, by: caller)))
    device.close()
    device.comeBack()
    let frames = device.take().frames
    #expect(frames.map(\.command) == [.call(CallAddress(callee: "you", call: call), .resume)])
    device.hear(.reply(id: frames[0].id, .error(CallError(.unknownCall))))
    #expect(device.take().callEvents == [.stopped(Stop(reason: .failed))])
  }

  @Test func endedCallsAreForgottenInTheEnd() {
    var device = Device()
    device.attach()
    for number in 0..<100 {
      let id = CallID(high: 9, low: UInt64(number))
      device.hear(id, 5, invite)
      device.hear(id, 6, .stop(Stop(reason: .unanswered, missed: true)))
    }
    #expect(device.machine.calls.count == 16)
  }

  /// Many calls ended while each waited for an answer; once they have it, the next end makes room for all.
  @Test func endedCallsThatHadToWaitAreForgottenTogether() {
    var device = Device()
    device.attach()
    func ring(_ number: Int) -> CallID {
      let id = CallID(high: 9, low: UInt64(number))
      device.hear(id, 5, invite)
      return id
    }
    var requests: [UInt64] = []
    for number in 0..<40 {
      let id = ring(number)
      requests.append(
        device.say(.call(CallAddress(callee: "me", call: id), .answer(description: "a")))!)
      device.hear(id, 6, .stop(Stop(reason: .answeredElsewhere)))
    }
    #expect(device.machine.calls.count == 40)
    for request in requests { device.hear(.reply(id: request, .error(CallError(.wrongState)))) }
    device.hear(ring(40), 6, .stop(Stop(reason: .unanswered, missed: true)))
    #expect(device.machine.calls.count == 16)
  }

  @Test func callKitHearsItsReasons() {
    let expected: [(EndReason, Int)] = [
      (.answeredElsewhere, 4), (.declined, 5), (.cancelled, 2), (.unanswered, 3), (.busy, 3),
      (.unreachable, 1), (.hungUp, 2), (.failed, 1), (.glare, 4),
    ]
    #expect(expected.count == EndReason.allCases.count)
    for (reason, number) in expected { #expect(Stop(reason: reason).callKitReason() == number) }
    #expect(Stop(reason: .declined).callKitReason(asCaller: true) == 2)
  }
}

/// Descriptions and candidates go out, and are taken in, in their order.
@Suite struct ClientSignalOrderTests {
  private let call = CallID(high: 9, low: 9)

  private func candidate(_ number: Int) -> ClientCommand {
    .call(CallAddress(callee: "bob", call: call), .signal(.candidate, body: "c\(number)"))
  }

  private func ids(_ device: inout Device) -> [UInt64] {
    device.take().frames.filter { if case .call(_, .signal) = $0.command { true } else { false } }
      .map(\.id)
  }

  private func send(_ numbers: ClosedRange<Int>, _ device: inout Device) -> [UInt64] {
    numbers.map { device.say(candidate($0)) ?? 0 }
  }

  private let again = ServerReply.error(CallError(.tryAgain))

  private func attached() -> Device {
    var device = Device()
    device.attach()
    return device
  }

  @Test func whatWasRefusedIsSentBeforeLaterOnes() {
    var device = attached()
    let first = send(1...3, &device)
    #expect(ids(&device) == first)
    for id in first { device.hear(.reply(id: id, again)) }
    let later = device.say(candidate(4)) ?? 0
    #expect(ids(&device).isEmpty, "it waits behind the others")
    device.pass(.seconds(1))
    #expect(ids(&device) == first + [later])
  }

  @Test func whatIsUnderWayBehindARefusedOneIsSentAgain() {
    var device = attached()
    let first = send(1...3, &device)
    _ = device.take()
    // Only the first one's refusal has arrived; the others follow.
    device.hear(.reply(id: first[0], again))
    device.hear(.reply(id: first[2], again))
    device.hear(.reply(id: first[1], again))
    device.pass(.seconds(1))
    #expect(ids(&device) == first)
    for id in first { device.hear(.reply(id: id, .done)) }
    #expect(device.machine.pendingCount == 0)
  }

  @Test func oneThatIsAnsweredWhileItWaitsLetsTheOthersGo() {
    var device = attached()
    let first = send(1...2, &device)
    _ = device.take()
    device.hear(.reply(id: first[0], again))
    // Its former copy was taken after all.
    device.hear(.reply(id: first[0], .done))
    #expect(ids(&device) == [first[1]])
  }

  @Test func otherCallsGoOn() {
    var device = attached()
    let id = device.say(candidate(1)) ?? 0
    device.hear(.reply(id: id, again))
    _ = device.take()
    let other = CallAddress(callee: "bob", call: CallID(high: 9, low: 10))
    let next = device.say(.call(other, .signal(.candidate, body: "x"))) ?? 0
    #expect(ids(&device) == [next])
  }

  @Test func afterABreakAllGoOutInOrder() {
    var device = attached()
    let all = send(1...3, &device)
    device.hear(.reply(id: all[1], again))
    _ = device.take()
    device.close()
    device.comeBack()
    #expect(ids(&device) == all)
  }

  // MARK: Deliveries

  private func delivery(_ version: UInt64, after: UInt64, _ body: String) -> ServerFrame {
    var delivery = Delivery(
      call: call, callee: "me", version: version, at: Timestamp(microseconds: 0),
      event: .signal(Signal(index: version, kind: .candidate, body: body)))
    delivery.after = after
    return .delivery(delivery)
  }

  private func bodies(_ device: inout Device) -> [String] {
    device.take().callEvents.compactMap {
      if case .signal(let signal) = $0 { signal.body } else { nil }
    }
  }

  @Test func whatComesBeforeItsPredecessorIsLeftToComeAgain() {
    var device = attached()
    device.hear(
      call, 1, .invite(Invite(caller: Party(user: "ann", device: "a1"), deadline: device.now)))
    _ = device.take()
    device.hear(delivery(2, after: 1, "c1"))
    device.hear(delivery(4, after: 3, "c3"))
    #expect(bodies(&device) == ["c1"])
    device.readCompleted()
    device.pass(.milliseconds(150))
    let acks = device.take().frames.compactMap { frame -> [UInt64]? in
      if case .ack(let items) = frame.command { items.map(\.version) } else { nil }
    }
    #expect(acks == [[1, 2]], "what was not taken is not acknowledged")
    device.hear(delivery(3, after: 0, "c2"))
    device.hear(delivery(4, after: 3, "c3"))
    #expect(bodies(&device) == ["c2", "c3"])
  }

  @Test func aDeliveryOfACallThatIsNotKnownWaitsForTheInvite() {
    var device = attached()
    device.hear(delivery(2, after: 1, "c1"))
    #expect(device.machine.calls.isEmpty)
    device.hear(
      call, 1, .invite(Invite(caller: Party(user: "ann", device: "a1"), deadline: device.now)))
    device.hear(delivery(2, after: 1, "c1"))
    #expect(bodies(&device) == ["c1"])
  }
}
