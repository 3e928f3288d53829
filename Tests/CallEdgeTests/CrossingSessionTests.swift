import CallCore
import CallEdge
import CallWire
import Testing

private let low = CallID(high: 0, low: 1)
private let high = CallID(high: 0, low: 2)
private let ann = UserKey(app: "demo", user: "ann")
private let bob = UserKey(app: "demo", user: "bob")

/// R8 at an edge: ann's phone has placed a call to bob, and a call from bob rings here.
@Suite struct CrossingSessionTests {
  private func crossings(_ machine: inout SessionMachine) -> [DeviceSession.Action] {
    machine.take().filter { if case .reportCrossing = $0 { true } else { false } }
  }

  private func place(_ call: CallID, in machine: inout SessionMachine, known: Bool = true) {
    machine.say(2, .place(CallAddress(callee: "bob", call: call), PlaceRequest(call: call)))
    let state = CallState(call: call, callee: "bob", phase: .placed)
    if known { machine.reply(2, .place(PlaceRequest(call: call)), .call(state)) }
  }

  private func ring(_ call: CallID, from user: String = "bob", in machine: inout SessionMachine) {
    let invite = Invite(
      caller: Party(user: user, device: "laptop"), deadline: machine.turn.now + .seconds(30))
    let delivery = Delivery(
      call: call, callee: "ann", version: 1, at: machine.turn.now, event: .invite(invite))
    let isDelivered = machine.session.willDeliver(delivery)
    #expect(isDelivered)
    if machine.session.mayCross(delivery) {
      machine.session.reportCrossings(of: call, &machine.turn)
    }
  }

  @Test("R8: the call placed here gives way to a lower one")
  func thePlacedCallGivesWay() {
    var machine = SessionMachine.attached()
    place(high, in: &machine)
    ring(low, in: &machine)
    let crossed = CrossedCall(call: high, caller: "ann", survivor: low, by: "laptop")
    #expect(crossings(&machine) == [.reportCrossing(callee: bob, crossed)])
  }

  @Test("R8: the call that rings here gives way to a lower one")
  func theRungCallGivesWay() {
    var machine = SessionMachine.attached()
    place(low, in: &machine)
    ring(high, in: &machine)
    let crossed = CrossedCall(call: high, caller: "bob", survivor: low, by: "phone")
    #expect(crossings(&machine) == [.reportCrossing(callee: ann, crossed)])
  }

  @Test("R8: a call is placed while one rings: its shard must know it first")
  func itRingsAlready() {
    var machine = SessionMachine.attached()
    ring(high, in: &machine)
    place(low, in: &machine, known: false)
    #expect(crossings(&machine).isEmpty)
    let refused = CallError(.overloaded)
    machine.reply(2, .place(PlaceRequest(call: low)), .error(refused))
    #expect(crossings(&machine).isEmpty)
    place(low, in: &machine)
    #expect(crossings(&machine).count == 1)
  }

  @Test("R8: a device that comes back resumes its call after the invite")
  func resumed() {
    var machine = SessionMachine.attached()
    ring(low, in: &machine)
    machine.say(3, .call(CallAddress(callee: "bob", call: high), .resume))
    #expect(crossings(&machine).isEmpty)
    let state = CallState(call: high, callee: "bob", phase: .ringing)
    machine.reply(3, .call(high, .resume), .call(state))
    #expect(crossings(&machine).count == 1)
  }

  @Test("R8: three who call each other in a ring have three calls", arguments: [true, false])
  func aRing(ringsFirst: Bool) {
    var machine = SessionMachine.attached()
    if ringsFirst { ring(low, from: "carol", in: &machine) }
    place(high, in: &machine)
    if !ringsFirst { ring(low, from: "carol", in: &machine) }
    #expect(crossings(&machine).isEmpty)
  }

  @Test(arguments: [CallVerb.answer(description: ""), .decline(.here), .busy])
  func aCallThatTheDeviceAnsweredOrRefusedDoesNotCross(verb: CallVerb) {
    var machine = SessionMachine.attached()
    ring(low, in: &machine)
    machine.say(3, .call(CallAddress(callee: "", call: low), verb))
    place(high, in: &machine)
    #expect(crossings(&machine).isEmpty)
  }

  @Test(arguments: [true, false]) func aCallThatIsOverDoesNotCross(stopped: Bool) {
    var machine = SessionMachine.attached()
    ring(low, in: &machine)
    let event: Delivery.Event =
      stopped
      ? .stop(Stop(reason: .cancelled))
      : .answered(Answered(by: Party(user: "ann", device: "phone")))
    let over = Delivery(call: low, callee: "ann", version: 2, at: machine.turn.now, event: event)
    let isDelivered = machine.session.willDeliver(over)
    #expect(isDelivered)
    place(high, in: &machine)
    #expect(crossings(&machine).isEmpty)
  }

  /// A new owner may invite the device once more before it decides what was sent to the former one.
  @Test(arguments: [CallVerb.answer(description: ""), .decline(.here), .hangUp])
  func aCallThatRangAgainWhileItsCommandWaitedDoesNotCross(verb: CallVerb) {
    var machine = SessionMachine.attached()
    ring(low, in: &machine)
    machine.say(3, .call(CallAddress(callee: "", call: low), verb))
    ring(low, in: &machine)
    let state = CallState(call: low, callee: "ann", phase: .ended, reason: .declined)
    machine.reply(3, .call(low, verb), .call(state))
    place(high, in: &machine)
    #expect(crossings(&machine).isEmpty)
  }

  @Test func aCallThatIsAnsweredDoesNotCross() {
    var machine = SessionMachine.attached()
    place(low, in: &machine)
    let by = Party(user: "bob", device: "laptop")
    let answer = Delivery(
      call: low, callee: "bob", version: 2, at: machine.turn.now,
      event: .answered(Answered(by: by)))
    let isDelivered = machine.session.willDeliver(answer)
    #expect(isDelivered)
    ring(high, in: &machine)
    #expect(crossings(&machine).isEmpty)
  }

  @Test func aCallWhoseTimeIsOverDoesNotCross() {
    var machine = SessionMachine.attached()
    ring(low, in: &machine)
    machine.turn.now = machine.turn.now + .seconds(91)
    place(high, in: &machine)
    #expect(crossings(&machine).isEmpty)
  }
}
