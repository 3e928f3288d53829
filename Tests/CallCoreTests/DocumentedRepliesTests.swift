import CallCore
import Testing

/// Replies that are easily taken for others, as docs/device-protocol.md describes them below each command.
@Suite struct DocumentedRepliesTests {
  @Test(arguments: [CallVerb.decline(.here), .busy])
  func aDeclineForTheUserBehindOneForTheDeviceChangesNothing(first: CallVerb) {
    var bench = Bench.ringing("b1", "b2")
    let before = bench.say(first, "b1")?.state
    let after = bench.say(.decline(.everywhere), "b1")?.state
    #expect(after?.phase == .ended && after?.reason == before?.reason)
    #expect(bench.ends.isEmpty && bench.stops("b2").isEmpty)
    #expect(bench.say(.answer(), "b2") != nil && bench.answers().count == 1)
  }

  @Test func anAnswerAfterOnesOwnDecline() {
    var bench = Bench.ringing("b1", "b2")
    bench.say(.decline(.here), "b1")
    #expect(bench.say(.answer(), "b1")?.error == .wrongState)
    bench.say(.answer(), "b2")
    let late = bench.say(.answer(), "b1")
    #expect(late?.won == false && late?.state?.phase == .ended)
  }

  @Test func connectedIsAnsweredByTheStateOfThingsToWhomItIsOver() {
    var bench = Bench.ringing("b1", "b2")
    #expect(bench.say(.connected, "b1")?.error == .wrongState)
    #expect(bench.caller(.connected)?.error == .wrongState)
    bench.say(.answer(), "b1")
    #expect(bench.say(.connected, "b1") == .done)
    #expect(bench.caller(.connected) == .done)
    #expect(bench.say(.connected, "b2")?.state?.reason == .answeredElsewhere)
    bench.caller(.hangUp)
    for device in ["b1", "b2"] {
      #expect(bench.say(.connected, device)?.state?.phase == .ended)
    }
    #expect(bench.caller(.connected)?.state?.reason == .hungUp)
  }

  @Test func hangUpByWhoHasNoPartInTheConversation() {
    var bench = Bench.ringing("b1", "b2")
    #expect(bench.say(.hangUp, "b2")?.error == .wrongState)
    #expect(bench.say(.hangUp, "b9")?.error == .wrongState)
    bench.say(.answer(), "b1")
    #expect(bench.say(.hangUp, "b2")?.state?.reason == .answeredElsewhere)
    #expect(bench.ends.isEmpty)
  }

  /// While it rings the caller's count whether they were acknowledged or not; later only those that
  /// were not do.
  @Test func signalsThatCount() {
    var bench = Bench.ringing("b1")
    let candidate = CallVerb.signal(.candidate, body: "c")
    func say(_ count: Int) {
      for _ in 0..<count {
        #expect(bench.caller(candidate) == .done)
        bench.acknowledgeAll()
        _ = bench.take()
      }
    }
    say(128)
    #expect(bench.caller(candidate)?.error == .tooManySignals)
    bench.say(.answer(), "b1")
    bench.acknowledgeAll()
    say(200)
  }
}
