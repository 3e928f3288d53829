import CallCore
import CallEdge
import Testing

private let call = CallID(high: 1, low: 1)
private let b1 = Party(user: "bob", device: "b1")
private let dave = Party(user: "dave", device: "d1")
private let pull = PullRequest(from: "a9", description: "offer")

/// R26 at an edge: the session of ann's phone hands a call over, takes one that is transferred to ann, or
/// pulls one from another device of hers. It has placed the call from then on if that is the caller's side.
@Suite struct TransferSessionTests {
  @Test("the call in which somebody was asked may have been to the user itself") func consulted() {
    func forwarded(_ request: TransferRequest) -> TransferRequest? {
      var machine = SessionMachine.attached()
      machine.say(5, .transfer(request), call, of: "")
      for case .forward(5, _, .call(call, .transfer(let request))) in machine.take() {
        return request
      }
      return nil
    }
    let asked = ConsultedCall(call: CallID(high: 2, low: 2), callee: "")
    let request = TransferRequest(to: "dave", device: "d1", consulted: asked)
    var expected = request
    expected.consulted?.callee = "ann"
    #expect(forwarded(request) == expected)
    expected.consulted?.callee = "dave"
    #expect(forwarded(expected) == expected)
    let blind = TransferRequest(to: "dave")
    #expect(forwarded(blind) == blind)
  }

  @Test("what is told of a transfer leaves a placed call the session's; its stop does not")
  func handsOver() {
    var machine = SessionMachine.attached()
    machine.placed(call)
    machine.deliver(.answered(Answered(by: b1)), of: call)
    machine.deliver(.transfer(TransferNews(to: "dave", number: 1, by: dave)), of: call)
    machine.deliver(
      .transfer(TransferNews(to: "dave", number: 1, reason: .busy, by: dave)), of: call)
    #expect(machine.session.liveCallsPlaced == 1 && machine.callsPlaced == [bob: [call]])
    machine.deliver(.stop(Stop(reason: .transferred, by: dave)), of: call)
    #expect(machine.session.liveCallsPlaced == 0 && machine.callsPlaced.isEmpty)
  }

  @Test("the shard is told the device's name") func deviceName() {
    var machine = SessionMachine.attached()
    machine.say(5, .pull(pull), call)
    var expected = pull
    expected.deviceName = "Ann's phone"
    #expect(machine.take() == [.forward(request: 5, callee: bob, .call(call, .pull(expected)))])
  }

  private static let verbs: [CallVerb] = [.answer(description: "offer"), .pull(pull)]

  private func take(
    _ verb: CallVerb, of callee: String = "bob", _ machine: inout SessionMachine, _ reply: Reply
  ) {
    machine.say(5, verb, call, of: callee)
    machine.reply(5, .call(call, verb), reply)
  }

  private func won(_ won: Bool = true, by party: Party) -> Reply {
    .answer(won: won, .of(call, .answered, by: party))
  }

  @Test("the caller's side is the session's as if it had placed the call", arguments: verbs)
  func callersSide(verb: CallVerb) {
    var machine = SessionMachine.attached()
    var invite = Invite(caller: b1, deadline: machine.turn.now + .seconds(30))
    invite.transferredBy = dave
    if case .answer = verb { machine.deliver(.invite(invite), of: call) }
    // The answer once more, and its reply.
    for _ in 0..<2 {
      take(verb, &machine, won(by: b1))
      #expect(machine.session.liveCallsPlaced == 1 && machine.callsPlaced == [bob: [call]])
    }
    let moved = Party(user: "ann", device: "a2")
    for reason in [EndReason.hungUp, .moved] {
      var machine = machine
      machine.deliver(.stop(Stop(reason: reason, by: moved)), of: call)
      #expect(machine.session.liveCallsPlaced == 0 && machine.callsPlaced.isEmpty)
    }
  }

  @Test("the call's end comes before the reply that the device has it: it has placed nothing")
  func endsBeforeTheReply() {
    var machine = SessionMachine.attached()
    let verb = Self.verbs[0]
    machine.say(5, verb, call)
    machine.deliver(.stop(Stop(reason: .hungUp, by: b1)), of: call)
    var state = CallState.of(call, .answered, by: b1)
    machine.reply(5, .call(call, verb), .answer(won: true, state))
    #expect(machine.session.liveCallsPlaced == 0 && machine.callsPlaced.isEmpty)
    // The end of an earlier ringing says nothing of this one.
    machine.say(6, verb, call)
    machine.deliver(.stop(Stop(reason: .unanswered)), of: call)
    state.version = 2
    machine.reply(6, .call(call, verb), .answer(won: true, state))
    #expect(machine.session.liveCallsPlaced == 1)
  }

  @Test("a device of the same name of the other user is not this one", arguments: verbs)
  func sameName(verb: CallVerb) {
    var machine = SessionMachine.attached()
    take(verb, &machine, won(by: Party(user: "bob", device: "phone")))
    #expect(machine.callsPlaced == [bob: [call]])
  }

  @Test("the callee's side, and what is taken in vain, leave nothing", arguments: verbs)
  func notPlaced(verb: CallVerb) {
    var machine = SessionMachine.attached()
    let own = Party(user: "ann", device: "phone")
    for (callee, reply) in [
      ("", won(by: own)), ("bob", won(by: own)), ("bob", won(false, by: b1)),
      ("bob", .error(CallError(.wrongState))),
    ] {
      take(verb, of: callee, &machine, reply)
      #expect(machine.session.liveCallsPlaced == 0 && machine.callsPlaced.isEmpty)
    }
  }

  @Test(
    "a call that is pulled in vain is no live one, also where its shard took other commands about it"
  )
  func signalsMeanwhile() {
    var machine = SessionMachine.attached()
    machine.say(5, .pull(pull), call)
    machine.reply(4, .call(call, .signal(.candidate, body: "c")), .done)
    machine.reply(5, .call(call, .pull(pull)), won(false, by: b1))
    #expect(machine.session.liveCallsPlaced == 0 && machine.callsPlaced.isEmpty)
  }

  /// A device had the call, lost it, and takes it again: what it hears of the end of the former part may come late.
  @Test(arguments: verbs, [true, false])
  func lateEndOfTheFormerPart(verb: CallVerb, isDelivered: Bool) {
    func end(_ version: UInt64, _ machine: inout SessionMachine) {
      let by = Party(user: "ann", device: "a9")
      if isDelivered {
        machine.deliver(.stop(Stop(reason: .moved, by: by)), of: call, version: version)
      } else {
        var state = CallState.of(call, .ended, by: by)
        (state.version, state.reason) = (version, .moved)
        machine.reply(4, .call(call, .resume), .call(state))
      }
    }
    var state = CallState.of(call, .answered, by: b1)
    state.version = 8
    for isBeforeTheReply in [true, false] {
      var machine = SessionMachine.attached()
      machine.placed(call)
      machine.say(4, .resume, call)
      machine.say(5, verb, call)
      if isBeforeTheReply { end(7, &machine) }
      machine.reply(5, .call(call, verb), .answer(won: true, state))
      if !isBeforeTheReply { end(7, &machine) }
      #expect(machine.session.liveCallsPlaced == 1 && machine.callsPlaced == [bob: [call]])
      end(9, &machine)
      #expect(machine.session.liveCallsPlaced == 0 && machine.callsPlaced.isEmpty)
    }
  }

  @Test("a candidate overtakes the pull, and is refused: the device has the call all the same")
  func overtaken() {
    var machine = SessionMachine.attached()
    machine.say(5, .pull(pull), call)
    machine.reply(
      6, .call(call, .signal(.candidate, body: "c")), .error(CallError(.notParty)))
    machine.reply(5, .call(call, .pull(pull)), won(by: b1))
    #expect(machine.session.liveCallsPlaced == 1 && machine.callsPlaced == [bob: [call]])
  }

  @Test("a device that may not cancel the other side's transfer has the call as before")
  func othersTransfer() {
    var machine = SessionMachine.attached()
    machine.placed(call)
    machine.deliver(.answered(Answered(by: b1)), of: call)
    machine.say(5, .cancelTransfer, call)
    machine.reply(5, .call(call, .cancelTransfer), .error(CallError(.notParty)))
    #expect(machine.session.liveCallsPlaced == 1 && machine.callsPlaced == [bob: [call]])
  }

  /// Its shard took other commands about it, and the device may ring for it.
  @Test(
    arguments: [
      (.signal(.candidate, body: "c"), .done),
      (.alerting, .call(CallState.of(call, .ringing))),
    ] as [(CallVerb, Reply)])
  func pulledInVain(verb: CallVerb, reply: Reply) {
    var machine = SessionMachine.attached()
    machine.say(5, .pull(pull), call)
    machine.reply(4, .call(call, verb), reply)
    machine.reply(5, .call(call, .pull(pull)), .error(CallError(.wrongState)))
    #expect(machine.session.liveCallsPlaced == 0 && machine.callsPlaced.isEmpty)
  }

  @Test("a winner that pulls its own call in vain has not placed it, whatever it is told meanwhile")
  func winnerPulls() {
    var machine = SessionMachine.attached()
    machine.say(5, .pull(pull), call)
    let own = Party(user: "ann", device: "phone")
    machine.deliver(.answered(Answered(by: own)), of: call, version: 1)
    machine.deliver(.ringing(by: own), of: call, version: 2)
    machine.reply(5, .call(call, .pull(pull)), won(by: own))
    #expect(machine.session.liveCallsPlaced == 0 && machine.callsPlaced.isEmpty)
  }
}
