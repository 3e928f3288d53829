import CallCore
import CallWire
import CallmeshClient
import FakeEdges
import FoundationEssentials
import Synchronization
import Testing

/// The states of a call, as an app sees them.
@Suite(.timeLimit(.minutes(1))) struct CallStateTests {
  let id = CallID(high: 1, low: 2)
  let you = Party(user: "you", device: "x", name: "You")
  let me = Party(user: "me", device: "d1")

  private func states(_ events: [Call.Event]) -> [Call.State] {
    events.compactMap { if case .state(let state) = $0 { state } else { nil } }
  }

  /// A device that is attached to an edge that has each call, and says of each answer whether it won.
  private func attached(wins: Bool = true) async throws -> Bench {
    try await attached { frame in
      switch frame.command {
      case .place(let address, _):
        let state = CallState(
          call: address.call, callee: address.callee, phase: .placed, version: 1)
        return [.reply(id: frame.id, .call(state))]
      case .call(let address, .answer):
        let state = CallState(
          call: address.call, callee: "me", phase: wins ? .answered : .ended, version: 3,
          reason: wins ? nil : .answeredElsewhere,
          by: wins ? me : Party(user: "me", device: "d2", deviceName: "Tablet"))
        return [.reply(id: frame.id, .answer(won: wins, state))]
      case .call: return [.reply(id: frame.id, .done)]
      default: return []
      }
    }
  }

  private func attached(
    _ answer: @escaping @Sendable (ClientFrame) -> [ServerFrame]
  ) async throws -> Bench {
    let bench = try Bench(FakeEdge(answer))
    await bench.attach()
    return bench
  }

  private func ringing() async throws -> (Bench, Call) {
    let bench = try await attached()
    return (bench, try await bench.ring(id))
  }

  @Test func aCallerGoesFromPlacingToTheEnd() async throws {
    let bench = try await attached()
    let call = try bench.device.place("you", PlaceOptions(description: "offer"))
    #expect(call.role == .caller && call.callee == "you")
    let events = call.events
    try await call.placed()
    #expect(call.state == .placed)
    bench.edge.say(call.id, 2, callee: "you", .ringing(by: you))
    bench.edge.say(call.id, 3, callee: "you", .answered(Answered(by: you, description: "answer")))
    var seen: [Call.Event] = []
    var iterator = events.makeAsyncIterator()
    while let event = await iterator.next() {
      seen.append(event)
      if event == .state(.answered) { break }
    }
    try await call.connected()
    #expect(call.state == .connected)
    try await call.finish()
    while let event = await iterator.next() { seen.append(event) }
    #expect(seen.contains(.answered(by: you, description: "answer", isHere: false)))
    let end = try #require(call.end)
    #expect(end.reason == .hungUp && !end.isLocal && end.error == nil)
    let order = states(seen).drop { $0 == .placing }
    #expect(Array(order) == [.placed, .ringing, .answered, .connected, .ended])
    #expect(call.peer == you)
    #expect(bench.device.calls.isEmpty)
  }

  @Test func aCalleeAnswersAndWins() async throws {
    let bench = try await attached()
    let call = try await bench.ring(id)
    #expect(call.state == .ringing && call.caller == you && call.description == "offer")
    #expect(call.uuid.uuidString == "00000000-0000-0001-0000-000000000002")
    let events = call.events
    #expect(try await call.answer("answer"))
    #expect(call.state == .answered)
    try await call.hangUp()
    var seen: [Call.Event] = []
    for await event in events { seen.append(event) }
    #expect(states(seen) == [.ringing, .answering, .answered, .ended])
    #expect(seen.contains(.answered(by: me, description: "", isHere: true)))
  }

  @Test func aCalleeThatLosesSaysWhoWon() async throws {
    let bench = try await attached(wins: false)
    let call = try await bench.ring(id)
    #expect(try await call.answer() == false)
    #expect(call.state == .lost && call.isOver)
    #expect(call.end?.reason == .answeredElsewhere && call.end?.by?.deviceName == "Tablet")
  }

  @Test func anAnswerThatFailsLeavesTheCallRinging() async throws {
    let bench = try await attached { frame in
      guard case .call(_, .answer) = frame.command else { return [] }
      return [.reply(id: frame.id, .error(CallError(.internalError)))]
    }
    let call = try await bench.ring(id)
    await #expect(throws: CallmeshError.self) { try await call.answer() }
    #expect(call.state == .ringing && call.end == nil)
  }

  @Test func onlyARingingCallCanBeAnswered() async throws {
    let (bench, call) = try await ringing()
    _ = try await call.answer()
    let error = await #expect(throws: CallmeshError.self) { try await call.answer() }
    #expect(error?.code == .wrongState)
    let answers = bench.edge.commands.filter {
      if case .call(_, .answer) = $0 { true } else { false }
    }
    #expect(answers.count == 1)
  }

  @Test func aRefusedPlaceEndsWithItsError() async throws {
    let bench = try await attached { frame in
      guard case .place = frame.command else { return [] }
      return [.reply(id: frame.id, .error(CallError(.refusedByApp, "Not today.")))]
    }
    let call = try bench.device.place("you")
    let error = await #expect(throws: CallmeshError.self) { try await call.placed() }
    #expect(error?.code == .refusedByApp && error?.message == "Not today.")
    #expect(call.state == .ended && call.end?.isLocal == true && call.end?.error == error)
    // Who asks late hears the same.
    await #expect(throws: CallmeshError.self) { try await call.placed() }
  }

  @Test func signalsWaitForTheirReader() async throws {
    let (bench, call) = try await ringing()
    let kinds: [(SignalKind, String)] = [
      (.candidate, "c1"), (.description, "d"), (.candidate, "c2"),
    ]
    for (index, (kind, body)) in kinds.enumerated() {
      let signal = Signal(index: UInt64(index + 1), kind: kind, body: body)
      bench.edge.say(id, UInt64(index + 2), .signal(signal))
    }
    bench.edge.say(id, 9, .stop(Stop(reason: .cancelled, by: you, missed: true)))
    #expect(await bench.ended() === call)
    var bodies: [String] = []
    for await signal in call.signals { bodies.append(signal.body) }
    #expect(bodies == ["c1", "d", "c2"])
    #expect(call.end?.missed == true)
  }

  @Test func aMoveBeginsMediaAnew() async throws {
    let (bench, call) = try await ringing()
    _ = try await call.answer()
    try await call.connected()
    let other = Party(user: "you", device: "y")
    let events = call.events
    bench.edge.say(id, 5, .moved(Moved(to: other, description: "again", number: 1)))
    for await event in events where event == .state(.answered) { break }
    #expect(call.state == .answered && call.peer == other)
    try await call.connected()
    #expect(call.state == .connected)
  }

  /// Transferred away and back: the second ringing is another `Call`.
  @Test func aCallNeverBeginsAnew() async throws {
    let (bench, first) = try await ringing()
    _ = try await first.answer()
    var again = Bench.invite()
    again.transferredBy = Party(user: "carl", device: "c")
    bench.edge.say(id, 20, .invite(again))
    let second = await bench.first { event -> Call? in
      if case .incoming(let call) = event { call } else { nil }
    }
    #expect(second !== first && second?.state == .ringing)
    #expect(first.state == .ended && first.end?.reason == .transferred)
    #expect(bench.device.find(id) === second)
  }

  @Test(arguments: [true, false]) func aCrossingCallSaysSo(isAnnouncedByAPush: Bool) async throws {
    let bench = try await attached()
    let own = try bench.device.place("you")
    let announced =
      isAnnouncedByAPush ? bench.device.wake(Address(callee: "me", call: id)) : nil
    #expect(announced?.crosses == nil)
    let theirs = try await bench.ring(id)
    #expect(isAnnouncedByAPush ? announced === theirs : announced == nil)
    #expect(theirs.crosses === own && own.crosses == nil)
  }

  @Test func aCallBackSaysToWhichCallItGaveWay() async throws {
    let (bench, former) = try await ringing()
    bench.edge.say(id, 2, .stop(Stop(reason: .unanswered, missed: true)))
    #expect(await bench.ended() === former)
    let own = try bench.device.place("you")
    try await own.placed()
    bench.edge.say(own.id, 2, callee: "you", .stop(Stop(reason: .glare, survivor: id)))
    #expect(await bench.ended() === own)
    var invite = Bench.invite()
    invite.merged = own.id
    bench.edge.say(id, 3, .invite(invite))
    let theirs = await bench.first { event -> Call? in
      if case .incoming(let call) = event { call } else { nil }
    }
    #expect(theirs !== former && theirs?.crosses === own)
    bench.edge.say(id, 4, .answered(Answered(by: me)))
    bench.edge.say(id, 5, .stop(Stop(reason: .hungUp, by: you)))
    #expect(await bench.ended() === theirs)
    #expect(theirs?.end?.reason == .hungUp)
  }

  @Test(
    "who ends a call that has given way, or gives way meanwhile, ends the one that goes on",
    arguments: [true, false])
  func finishedAtAGlare(isGlareFirst: Bool) async throws {
    let survivor = id
    let bench = try await attached { frame in
      switch frame.command {
      case .place(let address, _):
        let state = CallState(
          call: address.call, callee: address.callee, phase: .placed, version: 1)
        return [.reply(id: frame.id, .call(state))]
      case .call(let address, .cancel):
        var state = CallState(
          call: address.call, callee: "you", phase: .ended, version: 2, reason: .glare)
        state.survivor = survivor
        return [.reply(id: frame.id, .call(state))]
      case .call(_, .decline): return [.reply(id: frame.id, .error(CallError(.wrongState)))]
      case .call: return [.reply(id: frame.id, .done)]
      default: return []
      }
    }
    let own = try bench.device.place("you")
    try await own.placed()
    if isGlareFirst {
      bench.edge.say(own.id, 2, callee: "you", .stop(Stop(reason: .glare, survivor: survivor)))
      #expect(await bench.ended() === own)
    }
    try await own.finish()
    #expect(own.end?.reason == .glare)
    var invite = Bench.invite()
    invite.merged = own.id
    bench.edge.say(survivor, 3, .invite(invite))
    bench.edge.say(survivor, 4, .answered(Answered(by: me)))
    let isShown = await bench.first { event -> Bool? in
      switch event {
      case .incoming, .taken: true
      case .call(let call, .answered) where call.id == survivor: true
      case .ended(let call) where call.id == survivor: false
      default: nil
      }
    }
    #expect(isShown == false)
    #expect(bench.edge.commands.contains(.call(CallAddress(callee: "me", call: survivor), .hangUp)))
  }

  /// The user ends a call that waits for its answer to be decided. The answer wins.
  @Test func whoEndsACallBehindAnAnswerThatWinsHangsUp() async throws {
    let answer = Mutex<UInt64?>(nil)
    let (id, me) = (id, me)
    let bench = try await attached { frame in
      switch frame.command {
      case .call(_, .answer):
        answer.withLock { $0 = frame.id }
        return []
      case .call(let address, .decline):
        let state = CallState(
          call: address.call, callee: "me", phase: .answered, version: 3, by: me)
        let asked = answer.withLock { $0 } ?? 0
        return [
          .reply(id: asked, .answer(won: true, state)),
          .reply(id: frame.id, .error(CallError(.wrongState))),
        ]
      case .call: return [.reply(id: frame.id, .done)]
      default: return []
      }
    }
    let call = try await bench.ring(id)
    let answered = Task { try? await call.answer() }
    while answer.withLock({ $0 }) == nil { await Task.yield() }
    try await call.finish()
    _ = await answered.value
    #expect(bench.edge.commands.contains(.call(CallAddress(callee: "me", call: id), .hangUp)))
    #expect(call.isOver)
  }
}
