import CallCore
import CallEdge
import CallWire
import Testing

private let call = CallID(high: 1, low: 1)
private let asked = CallID(high: 2, low: 2)

/// R26 at an edge: the session of ann's phone transfers a call, or takes one that is transferred.
@Suite struct TransferSessionTests {
  /// The other side of the call that is transferred to ann.
  private let bob = Party(user: "bob", device: "b1")
  private let dave = Party(user: "dave", device: "d1")

  private func state(by party: Party) -> CallState {
    CallState(call: call, callee: "bob", phase: .answered, by: party)
  }

  private func deliver(
    _ event: Delivery.Event, of call: CallID = call, callee: String = "bob",
    to machine: inout SessionMachine
  ) {
    let isDelivered = machine.session.willDeliver(
      Delivery(call: call, callee: callee, version: 1, at: machine.turn.now, event: event))
    #expect(isDelivered)
  }

  private func ring(_ machine: inout SessionMachine, from caller: Party) -> Delivery {
    var invite = Invite(caller: caller, deadline: machine.turn.now + .seconds(30))
    invite.transferredBy = dave
    let event = Delivery.Event.invite(invite)
    deliver(event, to: &machine)
    return Delivery(call: call, callee: "bob", version: 1, at: machine.turn.now, event: event)
  }

  private func answer(_ machine: inout SessionMachine, _ reply: Reply) {
    machine.say(5, .call(CallAddress(callee: "bob", call: call), .answer(description: "offer")))
    machine.reply(5, .call(call, .answer(description: "offer")), reply)
  }

  /// The calls that a shard is notified of when the socket breaks.
  private func callsPlaced(_ machine: SessionMachine) -> [UserKey: [CallID]] {
    var session = machine.session
    return session.takeEnd()?.calls ?? [:]
  }

  private func forwarded(
    _ request: TransferRequest, _ machine: inout SessionMachine
  ) -> TransferRequest? {
    machine.say(5, .call(CallAddress(callee: "", call: call), .transfer(request)))
    for case .forward(5, _, .call(call, .transfer(let request))) in machine.take() {
      return request
    }
    return nil
  }

  // MARK: The device that transfers

  @Test("the call in which somebody was asked may have been to the user itself") func consulted() {
    var machine = SessionMachine.attached()
    let request = TransferRequest(
      to: "dave", device: "d1", consulted: ConsultedCall(call: asked, callee: ""))
    var expected = request
    expected.consulted?.callee = "ann"
    #expect(forwarded(request, &machine) == expected)
    expected.consulted?.callee = "dave"
    #expect(forwarded(expected, &machine) == expected)
    let blind = TransferRequest(to: "dave")
    #expect(forwarded(blind, &machine) == blind)
  }

  @Test("what is told of a transfer leaves a placed call the session's; its stop does not")
  func handsOver() {
    var machine = SessionMachine.attached()
    machine.say(2, .place(CallAddress(callee: "bob", call: call), PlaceRequest(call: call)))
    machine.reply(
      2, .place(PlaceRequest(call: call)),
      .call(CallState(call: call, callee: "bob", phase: .placed)))
    deliver(.answered(Answered(by: bob)), to: &machine)
    deliver(.transfer(TransferNews(to: "dave", number: 1, by: dave)), to: &machine)
    deliver(.transfer(TransferNews(to: "dave", number: 1, reason: .busy, by: dave)), to: &machine)
    #expect(machine.session.liveCallsPlaced == 1)
    #expect(callsPlaced(machine) == [UserKey(app: "demo", user: "bob"): [call]])
    deliver(.stop(Stop(reason: .transferred, by: dave)), to: &machine)
    #expect(machine.session.liveCallsPlaced == 0 && callsPlaced(machine).isEmpty)
  }

  // MARK: The device that takes the call

  @Test("the caller's side is the session's as if it had placed the call") func callersSide() {
    var machine = SessionMachine.attached()
    _ = ring(&machine, from: bob)
    answer(&machine, .answer(won: true, state(by: bob)))
    #expect(machine.session.liveCallsPlaced == 1)
    #expect(callsPlaced(machine) == [UserKey(app: "demo", user: "bob"): [call]])
    // The answer once more, and its reply.
    answer(&machine, .answer(won: true, state(by: bob)))
    #expect(machine.session.liveCallsPlaced == 1)
    deliver(.stop(Stop(reason: .hungUp, by: bob)), to: &machine)
    #expect(machine.session.liveCallsPlaced == 0 && callsPlaced(machine).isEmpty)
  }

  @Test("the call's end comes before the reply that the device has it: it has placed nothing")
  func endsBeforeTheReply() {
    var machine = SessionMachine.attached()
    let verb = CallVerb.answer(description: "offer")
    machine.say(5, .call(CallAddress(callee: "bob", call: call), verb))
    deliver(.stop(Stop(reason: .hungUp, by: bob)), to: &machine)
    var state = state(by: bob)
    machine.reply(5, .call(call, verb), .answer(won: true, state))
    #expect(machine.session.liveCallsPlaced == 0 && callsPlaced(machine).isEmpty)
    // The end of an earlier ringing says nothing of this one.
    machine.say(6, .call(CallAddress(callee: "bob", call: call), verb))
    deliver(.stop(Stop(reason: .unanswered)), to: &machine)
    state.version = 2
    machine.reply(6, .call(call, verb), .answer(won: true, state))
    #expect(machine.session.liveCallsPlaced == 1)
  }

  @Test("a device of the same name of the other user is not this one") func sameName() {
    var machine = SessionMachine.attached()
    answer(&machine, .answer(won: true, state(by: Party(user: "bob", device: "phone"))))
    #expect(callsPlaced(machine) == [UserKey(app: "demo", user: "bob"): [call]])
  }

  @Test("the callee's side, and an answer in vain, leave nothing") func notPlaced() {
    var machine = SessionMachine.attached()
    answer(&machine, .answer(won: true, state(by: Party(user: "ann", device: "phone"))))
    #expect(callsPlaced(machine).isEmpty)
    answer(&machine, .answer(won: false, state(by: bob)))
    #expect(callsPlaced(machine).isEmpty)
    answer(&machine, .error(CallError(.wrongState)))
    #expect(machine.session.liveCallsPlaced == 0 && callsPlaced(machine).isEmpty)
  }

  @Test("a call that is transferred to the user crosses none that its device has placed")
  func noCrossing() {
    for isTransferred in [true, false] {
      var machine = SessionMachine.attached()
      machine.say(2, .place(CallAddress(callee: "bob", call: asked), PlaceRequest(call: asked)))
      machine.reply(
        2, .place(PlaceRequest(call: asked)),
        .call(CallState(call: asked, callee: "bob", phase: .placed)))
      _ = machine.take()
      var delivery = ring(&machine, from: bob)
      if !isTransferred {
        let invite = Invite(caller: bob, deadline: machine.turn.now + .seconds(30))
        delivery.event = .invite(invite)
        deliver(.invite(invite), callee: "ann", to: &machine)
      }
      if machine.session.mayCross(delivery) {
        machine.session.reportCrossings(of: call, &machine.turn)
      }
      let reports = machine.take().filter { if case .reportCrossing = $0 { true } else { false } }
      #expect(reports.count == (isTransferred ? 0 : 1))
    }
  }
}
