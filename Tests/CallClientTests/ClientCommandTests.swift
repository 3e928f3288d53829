import CallClient
import CallCore
import CallWire
import Testing

@Suite struct ClientMachineCommandTests {
  let call = CallID(high: 1, low: 2)

  /// An outage fills the queue of commands; the call that the device placed before must be resumed all the same.
  @Test func aFullQueueDoesNotKeepACallFromBeingResumed() {
    var device = Device()
    device.attach()
    let address = CallAddress(callee: "you", call: call)
    let place = device.say(.place(address, PlaceRequest(call: call)))!
    device.hear(
      .reply(id: place, .call(CallState(call: call, callee: "you", phase: .ringing, version: 1))))
    device.close()
    while device.say(.call(address, .signal(.candidate, body: ""))) != nil {}
    _ = device.take()
    device.comeBack()
    #expect(device.take().frames.contains { $0.command == .call(address, .resume) })
  }

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
      device.machine.noteContact(now: device.now)
      device.pass(.seconds(7))
      #expect(device.take().events.isEmpty)
    }
    device.pass(.seconds(7))
    #expect(
      device.take().events == [
        .gaveUp(request: request!, .call(CallAddress(call: call), .alerting))
      ])
  }

  @Test("what ends a call here is retransmitted for as long as a call may ring")
  func anEndThatIsNeverAnswered() {
    var device = Device()
    device.attach()
    let command = ClientCommand.call(CallAddress(call: call), .hangUp)
    let request = device.say(command)!
    #expect(device.take().frames.map(\.command) == [command])
    for _ in 0..<25 {
      device.machine.noteContact(now: device.now)
      device.pass(.seconds(7))
      #expect(device.take().frames == [ClientFrame(id: request, command: command)])
    }
    device.machine.noteContact(now: device.now)
    device.pass(.seconds(7))
    #expect(device.take().events == [.gaveUp(request: request, command)])
  }

  /// No user expects a call that begins a minute late.
  @Test("a place that finds no connection is given up, with what waits behind it")
  func aPlaceWithoutAConnection() {
    var device = Device()
    device.attach()
    device.close()
    _ = device.take()
    let address = CallAddress(callee: "you", call: call)
    let place = ClientCommand.place(address, PlaceRequest(call: call))
    let signal = ClientCommand.call(address, .signal(.candidate, body: "c"))
    let requests = [place, signal].map { device.say($0)! }
    device.pass(.seconds(29))
    #expect(device.machine.nextDeadline.map { $0 <= device.now + .seconds(1) } == true)
    #expect(device.take().events.isEmpty)
    device.pass(.seconds(1))
    #expect(
      device.take().events == [
        .gaveUp(request: requests[0], place), .gaveUp(request: requests[1], signal),
      ])
    #expect(device.machine.calls[call]?.isEnded == true)
    device.comeBack()
    #expect(device.take().frames.isEmpty, "nothing is placed, and nothing cancelled")
  }

  @Test("an app that places a call again before it is placed: what follows waits for both")
  func placedTwice() {
    var device = Device()
    device.attach()
    let address = CallAddress(callee: "you", call: call)
    let place = ClientCommand.place(address, PlaceRequest(call: call))
    let signal = ClientCommand.call(address, .signal(.candidate, body: "c"))
    let requests = [place, place, signal].map { device.say($0)! }
    #expect(device.take().frames.map(\.id) == [requests[0]])
    device.hear(.reply(id: requests[0], .error(CallError(.tooManyCalls))))
    #expect(device.take().frames.map(\.id) == [requests[1]])
    let state = CallState(call: call, callee: "you", phase: .placed)
    device.hear(.reply(id: requests[1], .call(state)))
    #expect(device.take().frames.map(\.id) == [requests[2]])
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
