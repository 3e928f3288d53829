import CallCore
import CallEdge
import CallWire
import Testing

private let call = CallID(high: 1, low: 1)

/// A session whose device takes a call over: it has placed the call from then on if that is the caller's side.
@Suite struct PullTests {
  private let request = PullRequest(from: "a9", description: "offer")

  private func pull(_ machine: inout SessionMachine, callee: String) -> Command.Body {
    machine.say(5, .call(CallAddress(callee: callee, call: call), .pull(request)))
    let forwarded = machine.take().compactMap { action -> Command.Body? in
      if case .forward(5, _, let body) = action { body } else { nil }
    }
    #expect(forwarded.count == 1)
    return forwarded.first ?? .ack([])
  }

  private func state(by user: String, _ device: DeviceID) -> CallState {
    CallState(
      call: call, callee: "bob", phase: .answered, by: Party(user: user, device: device))
  }

  /// The calls that a shard is notified of when the socket breaks.
  private func callsPlaced(_ machine: SessionMachine) -> [CallID] {
    var session = machine.session
    return session.takeEnd()?.calls.values.flatMap { $0 } ?? []
  }

  @Test("the shard is told the device's name") func deviceName() {
    var machine = SessionMachine.attached { _ in }
    guard case .call(call, .pull(let request)) = pull(&machine, callee: "bob") else {
      Issue.record("not a pull")
      return
    }
    #expect(request.from == "a9" && request.description == "offer")
    #expect(request.deviceName == "Ann's phone")
  }

  @Test("the caller's side is the session's until it moves on") func callersSide() {
    var machine = SessionMachine.attached { _ in }
    let body = pull(&machine, callee: "bob")
    machine.reply(5, body, .answer(won: true, state(by: "bob", "b1")))
    #expect(machine.session.liveCallsPlaced == 1 && callsPlaced(machine) == [call])
    let stop = Delivery.Event.stop(Stop(reason: .moved, by: Party(user: "ann", device: "a2")))
    let isDelivered = machine.session.willDeliver(
      Delivery(call: call, callee: "bob", version: 1, at: machine.turn.now, event: stop))
    #expect(isDelivered && callsPlaced(machine).isEmpty)
  }

  @Test("the callee's side, and a pull in vain, leave nothing") func notPlaced() {
    var machine = SessionMachine.attached { _ in }
    var body = pull(&machine, callee: "")
    machine.reply(
      5, body, .answer(won: true, state(by: "ann", "phone")))
    #expect(callsPlaced(machine).isEmpty)
    body = pull(&machine, callee: "bob")
    machine.reply(5, body, .answer(won: false, state(by: "bob", "b1")))
    #expect(callsPlaced(machine).isEmpty)
    body = pull(&machine, callee: "bob")
    machine.reply(5, body, .error(CallError(.wrongState)))
    #expect(callsPlaced(machine).isEmpty)
  }

  @Test("a winner that pulls its own call in vain has not placed it, whatever it is told meanwhile")
  func winnerPulls() {
    var machine = SessionMachine.attached { _ in }
    let body = pull(&machine, callee: "bob")
    let own = Party(user: "ann", device: "phone")
    let events: [Delivery.Event] = [.answered(Answered(by: own)), .ringing(by: own)]
    for (version, event) in zip(1..., events) {
      let isDelivered = machine.session.willDeliver(
        Delivery(
          call: call, callee: "bob", version: UInt64(version), at: machine.turn.now, event: event))
      #expect(isDelivered)
    }
    machine.reply(5, body, .answer(won: true, state(by: "ann", "phone")))
    #expect(machine.session.liveCallsPlaced == 0 && callsPlaced(machine).isEmpty)
  }

  @Test("a device of the same name of the other user is not this one") func sameName() {
    var machine = SessionMachine.attached { _ in }
    let body = pull(&machine, callee: "bob")
    machine.reply(5, body, .answer(won: true, state(by: "bob", "phone")))
    #expect(callsPlaced(machine) == [call])
  }
}
