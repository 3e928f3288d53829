import CallAuth
import CallCore
import CallEdge
import CallWire
import Testing

private let one = CallID(high: 1, low: 1)
private let two = CallID(high: 1, low: 2)

/// A session reports to its user's shard the answered calls that its device placed.
@Suite struct TalkingTests {
  private func attached(busy: Bool = true) -> SessionMachine {
    SessionMachine.attached { $0.limits.busyWhileInCall = busy }
  }

  private func reports(_ machine: inout SessionMachine) -> [Talking] { machine.takeReports() }

  private func place(_ call: CallID, in machine: inout SessionMachine) {
    machine.say(
      call.low + 1, .place(CallAddress(callee: "bob", call: call), PlaceRequest(call: call)))
    let state = CallState(call: call, callee: "bob", phase: .placed)
    machine.reply(call.low + 1, .place(PlaceRequest(call: call)), .call(state))
  }

  private func deliver(_ event: Delivery.Event, of call: CallID, in machine: inout SessionMachine) {
    let delivery = Delivery(
      call: call, callee: "bob", version: 1, at: machine.turn.now, event: event)
    let isDelivered = machine.session.willDeliver(delivery)
    #expect(isDelivered)
    if machine.session.mayReportTalking { machine.session.reportTalking(&machine.turn) }
  }

  private func answer(_ call: CallID, in machine: inout SessionMachine) {
    let by = Party(user: "bob", device: "b1")
    deliver(.answered(Answered(by: by)), of: call, in: &machine)
  }

  @Test func itTellsWhatIsAnsweredAndWhatIsOver() {
    var machine = attached()
    place(one, in: &machine)
    place(two, in: &machine)
    #expect(reports(&machine).isEmpty)
    answer(one, in: &machine)
    answer(two, in: &machine)
    deliver(.stop(Stop(reason: .hungUp)), of: one, in: &machine)
    #expect(
      reports(&machine) == [
        Talking(number: 1, calls: [one]), Talking(number: 2, calls: [one, two]),
        Talking(number: 3, calls: [two]),
      ])
    machine.say(9, .call(CallAddress(callee: "bob", call: two), .hangUp))
    machine.reply(9, .call(two, .hangUp), .done)
    #expect(reports(&machine) == [Talking(number: 4, calls: [])])
  }

  @Test func aCallThatRingsIsNoTalk() {
    var machine = attached()
    place(one, in: &machine)
    deliver(.ringing(by: Party(user: "bob", device: "b1")), of: one, in: &machine)
    deliver(.stop(Stop(reason: .declined)), of: one, in: &machine)
    #expect(reports(&machine).isEmpty)
  }

  @Test("second calls that ring say that they are such ones where the app has chosen so")
  func secondCallsThatRing() {
    for (choice, isTold) in [(nil, false), (.allow, true), (.busy, true)] as [(SecondCalls?, Bool)]
    {
      let gates = AppGates(
        ["demo": AppTerms(secondCalls: choice)], usersMax: 10, registry: nil,
        now: SessionMachine.start)
      var machine = SessionMachine.attached(apps: gates) { $0.limits.busyWhileInCall = false }
      place(one, in: &machine)
      answer(one, in: &machine)
      let expected = isTold ? [Talking(number: 1, calls: [one])] : []
      #expect(reports(&machine) == expected, "\(String(describing: choice))")
    }
  }

  @Test func aNewOwnerIsToldWithTheSession() {
    var machine = attached()
    place(one, in: &machine)
    answer(one, in: &machine)
    guard case .attach(let attach) = machine.session.announcement else {
      Issue.record("not announced")
      return
    }
    #expect(attach.talking == Talking(number: 1, calls: [one]))
  }

  @Test func whatFailsIsToldAgain() {
    var machine = attached()
    place(one, in: &machine)
    answer(one, in: &machine)
    #expect(reports(&machine).count == 1)
    let report = Talking(number: 1, calls: [one])
    machine.reply(1 << 63 | 1, .talking(report), .error(CallError(.tryAgain)))
    #expect(reports(&machine).isEmpty)
    machine.pass(.seconds(1))
    #expect(reports(&machine) == [Talking(number: 2, calls: [one])])
    machine.reply(1 << 63 | 2, .talking(Talking(number: 2, calls: [one])), .done)
    machine.pass(.seconds(1))
    // And the device hears nothing of it.
    #expect(machine.take().isEmpty)
  }

  @Test func aDeviceThatResumesItsCallIsInIt() {
    var machine = attached()
    machine.say(3, .call(CallAddress(callee: "bob", call: one), .resume))
    let state = CallState(call: one, callee: "bob", phase: .answered)
    machine.reply(3, .call(one, .resume), .call(state))
    #expect(reports(&machine) == [Talking(number: 1, calls: [one])])
  }

  /// The shard still counts what the session before this one has said.
  @Test(arguments: [CallVerb.resume, .hangUp])
  func whoComesBackAfterTheEndSaysSo(verb: CallVerb) {
    var machine = attached()
    machine.say(3, .call(CallAddress(callee: "bob", call: one), verb))
    let state = CallState(call: one, callee: "bob", phase: .ended, reason: .hungUp)
    machine.reply(3, .call(one, verb), .call(state))
    #expect(reports(&machine) == [Talking(number: 1, calls: [])])
  }
}

extension SessionMachine {
  /// The reports of answered calls, and no longer kept.
  mutating func takeReports() -> [Talking] {
    take().compactMap { if case .reportTalking(_, let talking) = $0 { talking } else { nil } }
  }
}
