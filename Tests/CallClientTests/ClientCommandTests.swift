import CallClient
import CallCore
import CallWire
import Testing

@Suite struct ClientMachineCommandTests {
  let call = CallID(high: 1, low: 2)
  private var placed: CallAddress { CallAddress(callee: "you", call: call) }
  private var alerting: ClientCommand { .call(CallAddress(call: call), .alerting) }
  private var query: ClientCommand { .call(CallAddress(call: call), .query) }
  private var place: ClientCommand { .place(placed, PlaceRequest(call: call)) }
  private var candidate: ClientCommand { .call(placed, .signal(.candidate, body: "c")) }

  private func state(_ phase: CallPhase, callee: String = "you") -> CallState {
    CallState(call: call, callee: callee, phase: phase, version: 5)
  }

  /// An outage fills the queue of commands; the call that the device placed before must be resumed all the same.
  @Test func aFullQueueDoesNotKeepACallFromBeingResumed() {
    var device = Device.attached()
    device.havePlaced(placed)
    device.close()
    while device.say(candidate) != nil {}
    _ = device.take()
    device.comeBack()
    #expect(device.said().contains(.call(placed, .resume)))
  }

  /// An app that was started anew asks which calls it left behind, and takes one of them up.
  @Test func aCallOfAFormerRunIsTakenUp() {
    var device = Device.attached()
    let id = device.say(.calls)!
    let calls = ServerReply.calls(LiveCalls(placed: [state(.ringing)]))
    device.reply(id, calls)
    #expect(device.take().events == [.replied(request: id, .calls, calls)])
    let resumed = device.say(.call(placed, .resume))
    #expect(device.machine.calls[call]?.role == .caller)
    device.reply(resumed, .call(state(.ringing)))
    _ = device.take()
    device.hear(call, 6, .answered(Answered(by: .you)))
    #expect(device.take().callEvents == [.answered(Answered(by: .you))])
    #expect(device.machine.address(call) == placed)
  }

  /// An app that was started again knows nothing of the call that it had placed, and uses its id for
  /// another one. It has that call still, and must not believe that it failed.
  @Test(arguments: [true, false])
  func aPlaceUnderATakenIDAsksForTheCallThatHasIt(isItsOwn: Bool) {
    var device = Device.attached()
    let request = device.place(placed, description: "other")
    _ = device.take()
    device.refuse(request, .callIDTaken)
    let resume = device.take().frames.last
    #expect(resume?.command == .call(placed, .resume))
    #expect(device.machine.calls[call]?.isEnded == false)
    guard isItsOwn else {
      device.refuse(resume?.id, .notParty)
      #expect(device.machine.calls[call]?.stop?.reason == .failed)
      return
    }
    device.reply(resume?.id, .call(state(.ringing)))
    #expect(device.machine.calls[call]?.phase == .ringing)
    device.hear(call, 6, .stop(Stop(reason: .hungUp)))
    #expect(device.machine.calls[call]?.stop?.reason == .hungUp)
  }

  // MARK: Retransmissions

  @Test func aCommandIsSaidAgainUnchangedUntilItIsAnswered() {
    var device = Device.attached()
    let request = device.say(alerting)!
    let first = device.take().frames
    device.pass(.seconds(7))
    #expect(device.take().frames == first)
    device.reply(request, .done)
    #expect(device.take().events == [.replied(request: request, alerting, .done)])
    device.pass(.seconds(7))
    #expect(device.take().frames.isEmpty)
  }

  @Test(
    "what is never answered is given up; what ends a call, when no call can ring any more",
    arguments: [(CallVerb.alerting, 3), (.hangUp, 25)])
  func neverAnswered(verb: CallVerb, retransmissions: Int) {
    var device = Device.attached()
    let command = ClientCommand.call(CallAddress(call: call), verb)
    let request = device.say(command)!
    #expect(device.said() == [command])
    for _ in 0..<retransmissions {
      device.passAlive(.seconds(7))
      let actions = device.take()
      #expect(actions.frames == [ClientFrame(id: request, command: command)])
      #expect(actions.events.isEmpty)
    }
    device.passAlive(.seconds(7))
    #expect(device.take().events == [.gaveUp(request: request, command)])
  }

  /// The shard that has the call is away for longer than other commands are repeated.
  @Test func aResumeIsRepeatedUntilItIsAnswered() {
    var device = Device.attached()
    device.havePlaced(placed)
    device.close()
    device.comeBack()
    let resume = device.take().frames.last
    #expect(resume?.command == .call(placed, .resume))
    for _ in 0..<10 {
      device.passAlive(.seconds(7))
      #expect(device.take().frames.last == resume)
    }
    device.reply(resume?.id, .call(state(.ended)))
    #expect(device.machine.calls[call]?.isEnded == true)
    device.passAlive(.seconds(7))
    #expect(device.take().frames.isEmpty)
  }

  /// The user hangs up, and the hang-up is given up: the caller must not count as back.
  @Test func aResumeIsNotRepeatedForLongerThanTheHangUp() {
    var device = Device.attached()
    device.havePlaced(placed)
    device.close()
    device.comeBack()
    #expect(device.said() == [.call(placed, .resume)])
    device.close()
    device.comeBack()
    #expect(device.said() == [.call(placed, .resume)])
    let hangUp = device.say(.call(placed, .hangUp))!
    var events: [ClientEvent] = []
    for _ in 0..<27 {
      device.passAlive(.seconds(7))
      events += device.take().events
    }
    #expect(events.contains(.gaveUp(request: hangUp, .call(placed, .hangUp))))
    #expect(device.machine.calls[call]?.isEnded == true)
    device.passAlive(.seconds(7))
    #expect(device.take().frames.isEmpty)
    device.close()
    device.comeBack()
    #expect(device.take().frames.isEmpty)
  }

  /// No user expects a call that begins a minute late.
  @Test("a place that finds no connection is given up, with what waits behind it")
  func aPlaceWithoutAConnection() {
    var device = Device.attached()
    device.close()
    _ = device.take()
    let requests = [place, candidate].map { device.say($0)! }
    device.pass(.seconds(29))
    #expect(device.machine.nextDeadline.map { $0 <= device.now + .seconds(1) } == true)
    #expect(device.take().events.isEmpty)
    device.pass(.seconds(1))
    #expect(
      device.take().events == [
        .gaveUp(request: requests[0], place), .gaveUp(request: requests[1], candidate),
      ])
    #expect(device.machine.calls[call]?.isEnded == true)
    device.comeBack()
    #expect(device.take().frames.isEmpty, "nothing is placed, and nothing cancelled")
  }

  @Test func tryAgainIsTriedAgainAfterItsTime() {
    var device = Device.attached()
    let request = device.say(alerting)!
    _ = device.take()
    device.reply(request, .error(CallError(.tryAgain, retryAfterMilliseconds: 1000)))
    #expect(device.take().isEmpty)
    device.pass(.milliseconds(999))
    #expect(device.take().isEmpty)
    device.pass(.milliseconds(502))
    #expect(device.take().frames.map(\.id) == [request])
  }

  // MARK: Order

  @Test("an app that places a call again before it is placed: what follows waits for both")
  func placedTwice() {
    var device = Device.attached()
    let requests = [place, place, candidate].map { device.say($0)! }
    #expect(device.take().frames.map(\.id) == [requests[0]])
    device.refuse(requests[0], .tooManyCalls)
    #expect(device.take().frames.map(\.id) == [requests[1]])
    device.reply(requests[1], .call(state(.placed)))
    #expect(device.take().frames.map(\.id) == [requests[2]])
  }

  @Test func commandsWaitForTheConnectionAndAreRepeatedOverANewOne() {
    var device = Device()
    let early = device.say(query)!
    #expect(device.take().isEmpty)
    device.start()
    device.open()
    device.reply(device.take().frames[0].id, .attached(.sample))
    #expect(device.take().frames.map(\.id) == [early])
    device.close()
    device.comeBack()
    #expect(device.take().frames.map(\.id) == [early])
  }

  @Test func nothingIsSaidOfACallBeforeItsPlaceIsAnswered() {
    var device = Device.attached()
    let (first, second) = (device.say(place)!, device.say(candidate)!)
    let other = device.say(.call(CallAddress(call: CallID(high: 5, low: 5)), .query))!
    #expect(device.take().frames.map(\.id) == [first, other])
    // The edge takes nothing new, or dies: the place is said first, also on the next connection.
    device.reply(other, .done)
    device.close()
    device.comeBack()
    #expect(device.take().frames.map(\.id) == [first])
    device.reply(first, .call(state(.placed)))
    #expect(device.take().frames.map(\.id) == [second])
    device.pass(.seconds(7))
    #expect(device.take().frames.map(\.id) == [second], "and again until it is answered")
  }

  @Test func tooManyWaitingCommandsAreRefused() {
    var device = Device()
    for _ in 0..<64 { #expect(device.say(query) != nil) }
    #expect(device.say(query) == nil)
  }
}
