import CallCore
import Testing

/// Replies that are easily taken for others, as docs/device-protocol.md describes them below each command.
@Suite struct DocumentedRepliesTests {
  @Test func aDeclineForTheUserBehindOneForTheDeviceChangesNothing() {
    var bench = Bench()
    bench.attach("b1", "b2")
    bench.place()
    for first in [Command.Body.call(Bench.callID, .decline(.here)), .call(Bench.callID, .busy)] {
      var bench = bench
      let before = bench.say(first, device: "b1")?.state
      let after = bench.say(.call(Bench.callID, .decline(.everywhere)), device: "b1")?.state
      #expect(after?.phase == .ended && after?.reason == before?.reason)
      #expect(bench.ends.isEmpty && bench.stops("b2").isEmpty)
      #expect(
        bench.say(.call(Bench.callID, .answer(description: "")), device: "b2") != nil
          && bench.answers().count == 1)
    }
  }

  @Test func anAnswerAfterOnesOwnDecline() {
    var bench = Bench()
    bench.attach("b1", "b2")
    bench.place()
    bench.say(.call(Bench.callID, .decline(.here)), device: "b1")
    let answer = Command.Body.call(Bench.callID, .answer(description: ""))
    #expect(bench.say(answer, device: "b1")?.error == .wrongState)
    bench.say(answer, device: "b2")
    guard case .answer(won: false, let state)? = bench.say(answer, device: "b1") else {
      Issue.record("no answer")
      return
    }
    #expect(state.phase == .ended)
  }

  @Test func connectedIsAnsweredByTheStateOfThingsToWhomItIsOver() {
    var bench = Bench()
    bench.attach("b1", "b2")
    bench.place()
    let connected = Command.Body.call(Bench.callID, .connected)
    #expect(bench.say(connected, device: "b1")?.error == .wrongState)
    #expect(bench.caller(connected)?.error == .wrongState)
    bench.say(.call(Bench.callID, .answer(description: "")), device: "b1")
    #expect(bench.say(connected, device: "b1") == .done)
    #expect(bench.caller(connected) == .done)
    #expect(bench.say(connected, device: "b2")?.state?.reason == .answeredElsewhere)
    bench.caller(.call(Bench.callID, .hangUp))
    for device in ["b1", "b2"] {
      #expect(bench.say(connected, device: device)?.state?.phase == .ended)
    }
    #expect(bench.caller(connected)?.state?.reason == .hungUp)
  }

  @Test func hangUpByWhoHasNoPartInTheConversation() {
    var bench = Bench()
    bench.attach("b1", "b2")
    bench.place()
    let hangUp = Command.Body.call(Bench.callID, .hangUp)
    #expect(bench.say(hangUp, device: "b2")?.error == .wrongState)
    #expect(bench.say(hangUp, device: "b9")?.error == .wrongState)
    bench.say(.call(Bench.callID, .answer(description: "")), device: "b1")
    #expect(bench.say(hangUp, device: "b2")?.state?.reason == .answeredElsewhere)
    #expect(bench.ends.isEmpty)
  }

  /// While it rings the caller's count whether they were acknowledged or not; later only those that
  /// were not do.
  @Test func signalsThatCount() {
    var bench = Bench()
    bench.attach("b1")
    bench.place()
    let candidate = Command.Body.call(Bench.callID, .signal(.candidate, body: "c"))
    for _ in 0..<128 {
      #expect(bench.caller(candidate) == .done)
      bench.acknowledgeAll()
      _ = bench.take()
    }
    #expect(bench.caller(candidate)?.error == .tooManySignals)
    bench.say(.call(Bench.callID, .answer(description: "")), device: "b1")
    bench.acknowledgeAll()
    for _ in 0..<200 {
      #expect(bench.caller(candidate) == .done)
      bench.acknowledgeAll()
      _ = bench.take()
    }
  }

  /// A candidate that is retransmitted after its connection broke goes under the id that it had.
  @Test func anotherIDIsAnotherCandidate() {
    var bench = Bench()
    bench.attach("b1")
    bench.place()
    bench.say(.call(Bench.callID, .answer(description: "")), device: "b1")
    let candidate = Command.Body.call(Bench.callID, .signal(.candidate, body: "c"))
    bench.say(candidate, device: "b1")
    bench.say(candidate, device: "b1", again: true)
    #expect(bench.signals("alice1").map(\.body) == ["c"])
    bench.say(candidate, device: "b1")
    #expect(bench.signals("alice1").map(\.body) == ["c", "c"])
  }
}
