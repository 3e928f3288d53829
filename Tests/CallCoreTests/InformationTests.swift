import CallCore
import Testing

/// Messages of the apps in an answered call. They share one stream with descriptions and candidates.
@Suite struct InformationTests {
  private func ringing(limits: CallLimits = CallLimits()) -> Bench {
    var bench = Bench.ringing("b1", "b2", limits: limits)
    bench.acknowledgeAll()
    _ = bench.take()
    return bench
  }

  private func answered(limits: CallLimits = CallLimits()) -> Bench {
    var bench = ringing(limits: limits)
    bench.say(.answer(description: "sdp"), "b1")
    bench.acknowledgeAll()
    _ = bench.take()
    return bench
  }

  private func information(_ body: String) -> CallVerb { .signal(.information, body: body) }

  @Test("both sides, in one order with descriptions and candidates") func oneStream() {
    var bench = answered()
    let kinds: [SignalKind] = [.candidate, .information, .description, .information, .candidate]
    for (index, kind) in kinds.enumerated() {
      #expect(bench.caller(.signal(kind, body: "a\(index)")) == .done)
      #expect(bench.say(.signal(kind, body: "b\(index)"), "b1") == .done)
    }
    for (device, letter) in [("b1", "a"), ("alice1", "b")] {
      let signals = bench.signals(device)
      #expect(signals.map(\.kind) == kinds)
      #expect(signals.map(\.body) == kinds.indices.map { "\(letter)\($0)" })
      #expect(signals.map(\.index) == [1, 2, 3, 4, 5])
    }
    #expect(bench.signals("b2").isEmpty)
  }

  @Test("before the answer it is refused, and leaves no trace") func beforeTheAnswer() {
    var bench = ringing()
    let facts = bench.journal.count
    let early = information("x")
    for reply in [bench.caller(early), bench.say(early, "b1"), bench.say(early, "b3")] {
      #expect(reply?.error == .wrongState && reply?.message == "Nobody has answered yet.")
    }
    #expect(bench.journal.count == facts)
    bench.say(.answer(description: "sdp"), "b1")
    #expect(bench.answers().first?.signals.isEmpty == true)
    #expect(bench.signals("b1").isEmpty)
  }

  @Test("what follows one that was refused is taken once the refusal is known")
  func afterARefusal() {
    var bench = ringing()
    #expect(bench.caller(information("x"), number: 31)?.error == .wrongState)
    #expect(bench.caller(.signal(.candidate, body: "c"), number: 32, after: 31) == nil)
    #expect(bench.caller(.signal(.candidate, body: "c"), number: 32) == .done)
  }

  @Test("after the end, and of a device that lost, it is dropped like the others")
  func afterTheEnd() {
    var bench = answered()
    #expect(bench.say(information("x"), "b2") == .done)
    #expect(bench.signals("alice1").isEmpty)
    bench.caller(.hangUp)
    _ = bench.take()
    #expect(bench.caller(information("x")) == .done)
    #expect(bench.say(information("x"), "b1") == .done)
    #expect(bench.signals("alice1").isEmpty && bench.signals("b1").isEmpty)
  }

  @Test("a stranger learns nothing") func strangers() {
    var bench = answered()
    let body = Command.Body.call(Bench.callID, information("x"))
    #expect(bench.say(body, user: "eve", device: "e1")?.error == .unknownCall)
  }

  @Test("the shard checks the size itself, and names the limit", arguments: [4096, 20])
  func size(limit: Int) {
    var bench = answered(limits: .with { $0.informationBytes = limit })
    let long = String(repeating: "x", count: limit + 1)
    #expect(bench.caller(information(String(long.dropLast()))) == .done)
    let reply = bench.caller(information(long))
    #expect(reply?.error == .informationTooLarge)
    #expect(reply?.message == "An information is at most \(limit) bytes.")
    #expect(bench.caller(.signal(.candidate, body: long)) == .done)
    #expect(CallLimits().informationBytes == 4096)
  }

  @Test("the same text as a candidate is no repetition of it") func kindsDiffer() {
    var bench = answered()
    bench.caller(.signal(.candidate, body: "x"), number: 31)
    bench.caller(information("x"), number: 32)
    bench.caller(information("x"), number: 32)
    #expect(bench.signals("b1").map(\.kind) == [.candidate, .information])
  }

  @Test("R10: a new owner delivers what was not acknowledged, once", arguments: [false, true])
  func aNewOwner(checkpoint: Bool) {
    var bench = answered()
    bench.caller(information("to b1"), number: 31)
    bench.say(information("to alice"), "b1", number: 41)
    var next = checkpoint ? bench.restoredFromCheckpoint() : bench.takenOver()
    next = next.begun(announcing: "b1")
    next.caller(.resume)
    // The edge had no reply, and retransmits the command.
    #expect(next.caller(information("to b1"), number: 31) == .done)
    #expect(next.signals("b1").map(\.body) == ["to b1"])
    #expect(next.signals("alice1").map(\.body) == ["to alice"])
    #expect(next.signals("b1").map(\.kind) == [.information])
  }

  @Test("a side that lost its socket gets it when it is back") func aLostSocket() {
    var bench = answered()
    bench.say(.sessionClosed(graceful: false), device: "b1")
    #expect(bench.caller(information("hello")) == .done)
    #expect(bench.signals("b1").isEmpty)
    bench.attach("b1", edge: 2)
    #expect(bench.signals(Bench.session("b1", edge: 2)).map(\.body) == ["hello"])
  }
}
