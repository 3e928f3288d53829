import CallCore
import CallEdge
import Testing

private let low = CallID(high: 0, low: 1)
private let high = CallID(high: 0, low: 2)
private let laptop = Party(user: "bob", device: "laptop")

/// R8 at an edge: ann's phone has placed a call to bob, and a call from bob rings here.
@Suite struct CrossingSessionTests {
  @Test("R8: the call placed here gives way to a lower one")
  func thePlacedCallGivesWay() {
    var machine = SessionMachine.attached()
    machine.placed(high)
    machine.ring(low, from: laptop)
    let crossed = CrossedCall(call: high, caller: "ann", survivor: low, by: "laptop")
    #expect(machine.crossings() == [.reportCrossing(callee: bob, crossed)])
  }

  @Test("R8: the call that rings here gives way to a lower one")
  func theRungCallGivesWay() {
    var machine = SessionMachine.attached()
    machine.placed(low)
    machine.ring(high, from: laptop)
    let crossed = CrossedCall(call: high, caller: "bob", survivor: low, by: "phone")
    #expect(machine.crossings() == [.reportCrossing(callee: ann, crossed)])
  }

  @Test("R8: a call is placed while one rings: its shard must know it first")
  func itRingsAlready() {
    var machine = SessionMachine.attached()
    machine.ring(high, from: laptop)
    machine.say(2, .place(low))
    #expect(machine.crossings().isEmpty)
    machine.reply(2, .place(PlaceRequest(call: low)), .error(CallError(.overloaded)))
    #expect(machine.crossings().isEmpty)
    machine.placed(low)
    #expect(machine.crossings().count == 1)
  }

  @Test("R8: a device that comes back resumes its call after the invite")
  func resumed() {
    var machine = SessionMachine.attached()
    machine.ring(low, from: laptop)
    machine.say(3, .resume, high)
    #expect(machine.crossings().isEmpty)
    machine.reply(3, .call(high, .resume), .call(.of(high, .ringing)))
    #expect(machine.crossings().count == 1)
  }

  @Test("R8: three who call each other in a ring have three calls", arguments: [true, false])
  func aRing(ringsFirst: Bool) {
    let carol = Party(user: "carol", device: "laptop")
    var machine = SessionMachine.attached()
    if ringsFirst { machine.ring(low, from: carol) }
    machine.placed(high)
    if !ringsFirst { machine.ring(low, from: carol) }
    #expect(machine.crossings().isEmpty)
  }

  @Test(
    "R8 neither ringing of a call that the app's server placed crosses a call",
    arguments: [("", "ann"), ("laptop", "bob")])
  func thatOfAServer(device: String, callee: String) {
    var machine = SessionMachine.attached()
    machine.placed(low)
    machine.ring(high, from: Party(user: "bob", device: DeviceID(device)), callee: callee)
    #expect(machine.crossings().isEmpty)
  }

  /// Because of what the device said, or received, or because its time is over. A new owner may invite the device once more
  /// before it decides what was sent to the former one.
  @Test(
    arguments: [
      (.answer(description: ""), nil, false), (.decline(.here), nil, false), (.busy, nil, false),
      (.answer(description: ""), nil, true), (.decline(.here), nil, true), (.hangUp, nil, true),
      (nil, .stop(Stop(reason: .cancelled)), false),
      (nil, .answered(Answered(by: Party(user: "ann", device: "phone"))), false), (nil, nil, false),
    ] as [(CallVerb?, Delivery.Event?, Bool)])
  func aCallThatRingsNoLongerDoesNotCross(
    said: CallVerb?, heard: Delivery.Event?, ringsAgain: Bool
  ) {
    var machine = SessionMachine.attached()
    machine.ring(low, from: laptop)
    if let said {
      machine.say(3, said, low, of: "")
      if ringsAgain {
        machine.ring(low, from: laptop)
        let state = CallState(call: low, callee: "ann", phase: .ended, reason: .declined)
        machine.reply(3, .call(low, said), .call(state))
      }
    } else if let heard {
      machine.deliver(heard, of: low, callee: "ann", version: 2)
    } else {
      machine.turn.now = machine.turn.now + .seconds(91)
    }
    machine.placed(high)
    #expect(machine.crossings().isEmpty)
  }

  /// A message of the shard's former owner may come behind those of the present one.
  @Test(
    arguments: [
      (nil, .stop(Stop(reason: .cancelled))), (.decline(.here), nil),
      (.answer(description: ""), nil),
    ] as [(CallVerb?, Delivery.Event?)])
  func anInviteThatComesLateDoesNotCross(said: CallVerb?, heard: Delivery.Event?) {
    var machine = SessionMachine.attached()
    machine.ring(low, from: laptop)
    if let said {
      machine.say(3, said, low, of: "")
      let state = CallState(call: low, callee: "ann", phase: .ended, version: 3, reason: .declined)
      machine.reply(3, .call(low, said), .call(state))
    } else if let heard {
      machine.deliver(heard, of: low, callee: "ann", version: 3)
    }
    machine.ring(low, from: laptop, version: 2)
    machine.placed(high)
    #expect(machine.crossings().isEmpty)
    machine.ring(low, from: laptop, version: 4)
    #expect(machine.crossings().count == 1, "it rings anew")
  }

  @Test func aCallThatIsAnsweredDoesNotCross() {
    var machine = SessionMachine.attached()
    machine.placed(low)
    machine.deliver(.answered(Answered(by: laptop)), of: low, version: 2)
    machine.ring(high, from: laptop)
    #expect(machine.crossings().isEmpty)
  }

  /// Its shard takes a command about it before the reply shows that it is answered.
  @Test(arguments: [.pull(PullRequest(from: "a9", description: "offer")), .resume] as [CallVerb])
  func aCallOfWhichADeviceTakesASideDoesNotCross(verb: CallVerb) {
    var machine = SessionMachine.attached()
    machine.say(3, verb, low)
    machine.reply(4, .call(low, .signal(.candidate, body: "c")), .done)
    machine.ring(high, from: laptop)
    #expect(machine.crossings().isEmpty)
  }

  @Test("a call that is transferred to the user crosses none", arguments: [true, false])
  func transferred(isTransferred: Bool) {
    var machine = SessionMachine.attached()
    machine.placed(high)
    var invite = Invite(caller: laptop, deadline: machine.turn.now + .seconds(30))
    if isTransferred { invite.transferredBy = Party(user: "dave", device: "d1") }
    let callee = isTransferred ? "bob" : "ann"
    let delivery = machine.deliver(.invite(invite), of: low, callee: callee)
    if machine.session.mayCross(delivery) {
      machine.session.reportCrossings(of: low, &machine.turn)
    }
    #expect(machine.crossings().count == (isTransferred ? 0 : 1))
  }
}
