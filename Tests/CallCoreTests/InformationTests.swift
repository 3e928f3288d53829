import CallCore
import Testing

/// Messages of the apps in an answered call. They share one stream with descriptions and candidates.
@Suite struct InformationTests {
  private func ringing(limits: CallLimits = CallLimits()) -> Bench {
    var bench = Bench(limits: limits)
    bench.attach("b1", "b2")
    bench.place()
    bench.acknowledgeAll()
    _ = bench.take()
    return bench
  }

  private func answered(limits: CallLimits = CallLimits()) -> Bench {
    var bench = ringing(limits: limits)
    bench.say(.call(Bench.callID, .answer(description: "sdp")), device: "b1")
    bench.acknowledgeAll()
    _ = bench.take()
    return bench
  }

  private func signal(_ kind: SignalKind, _ body: String) -> Command.Body {
    .call(Bench.callID, .signal(kind, body: body))
  }

  private func information(_ body: String) -> Command.Body { signal(.information, body) }

  @Test("both sides, in one order with descriptions and candidates") func oneStream() {
    var bench = answered()
    let kinds: [SignalKind] = [.candidate, .information, .description, .information, .candidate]
    for (index, kind) in kinds.enumerated() {
      #expect(bench.caller(signal(kind, "a\(index)")) == .done)
      #expect(bench.say(signal(kind, "b\(index)"), device: "b1") == .done)
    }
    for (device, letter) in [("b1", "a"), ("alice1", "b")] {
      let signals = bench.signals(device)
      #expect(signals.map(\.kind) == kinds)
      #expect(signals.map(\.body) == kinds.indices.map { "\(letter)\($0)" })
      #expect(signals.map(\.index) == [1, 2, 3, 4, 5])
    }
    #expect(bench.signals("b2").isEmpty)
  }

  @Test("one that nobody acknowledges is retransmitted, and what follows waits behind it")
  func retransmitted() {
    var bench = answered()
    bench.caller(information("hello"))
    bench.caller(signal(.candidate, "c"))
    bench.pass(.milliseconds(500))
    #expect(bench.signals("b1").map(\.body) == ["hello", "c", "hello", "c"])
    let deliveries = bench.deliveries(to: "b1")
    #expect(deliveries[1].after == deliveries[0].version)
    bench.acknowledgeAll()
    _ = bench.take()
    bench.pass(.seconds(10))
    #expect(bench.signals("b1").isEmpty)
  }

  @Test("before the answer it is refused, and leaves no trace") func beforeTheAnswer() {
    var bench = ringing()
    let facts = bench.journal.count
    let replies = [
      bench.caller(information("x")), bench.say(information("x"), device: "b1"),
      bench.say(information("x"), device: "b3"),
    ]
    for reply in replies {
      #expect(reply?.error == .wrongState)
      guard case .error(let error)? = reply else { continue }
      #expect(error.message == "Nobody has answered yet.")
    }
    #expect(bench.journal.count == facts)
    bench.say(.call(Bench.callID, .answer(description: "sdp")), device: "b1")
    #expect(bench.answers().first?.signals.isEmpty == true)
    #expect(bench.signals("b1").isEmpty)
  }

  @Test("what follows one that was refused is taken once the refusal is known")
  func afterARefusal() {
    var bench = ringing()
    #expect(bench.caller(information("x"), number: 31)?.error == .wrongState)
    #expect(bench.caller(signal(.candidate, "c"), number: 32, after: 31) == nil)
    #expect(bench.caller(signal(.candidate, "c"), number: 32) == .done)
  }

  @Test("after the end, and of a device that lost, it is dropped like the others")
  func afterTheEnd() {
    var bench = answered()
    #expect(bench.say(information("x"), device: "b2") == .done)
    #expect(bench.signals("alice1").isEmpty)
    bench.caller(.call(Bench.callID, .hangUp))
    _ = bench.take()
    #expect(bench.caller(information("x")) == .done)
    #expect(bench.say(information("x"), device: "b1") == .done)
    #expect(bench.signals("alice1").isEmpty && bench.signals("b1").isEmpty)
  }

  @Test("a stranger learns nothing") func strangers() {
    var bench = answered()
    let reply = bench.say(information("x"), user: "eve", device: "e1", callee: "bob")
    #expect(reply?.error == .unknownCall)
  }

  @Test("the shard checks the size itself, and names the limit", arguments: [4096, 20])
  func size(limit: Int) {
    var limits = CallLimits()
    limits.informationBytes = limit
    var bench = answered(limits: limits)
    #expect(bench.caller(information(String(repeating: "x", count: limit))) == .done)
    let reply = bench.caller(information(String(repeating: "x", count: limit + 1)))
    guard case .error(let error)? = reply else {
      Issue.record("not refused: \(String(describing: reply))")
      return
    }
    #expect(error.code == .informationTooLarge)
    #expect(error.message == "An information is at most \(limit) bytes.")
    #expect(bench.caller(signal(.candidate, String(repeating: "x", count: limit + 1))) == .done)
    #expect(CallLimits().informationBytes == 4096)
  }

  @Test("the same text as a candidate is no repetition of it") func kindsDiffer() {
    var bench = answered()
    bench.caller(signal(.candidate, "x"), number: 31)
    bench.caller(information("x"), number: 32)
    bench.caller(information("x"), number: 32)
    #expect(bench.signals("b1").map(\.kind) == [.candidate, .information])
  }

  @Test("R10: a new owner delivers what was not acknowledged, once", arguments: [false, true])
  func aNewOwner(checkpoint: Bool) {
    var bench = answered()
    bench.caller(information("to b1"), number: 31)
    bench.say(information("to alice"), device: "b1", number: 41)
    var next = checkpoint ? bench.restoredFromCheckpoint() : bench.takenOver()
    next.say(.attach(Attach(announce: true)), device: "b1")
    next.run { $0.begin(now: $1, into: &$2) }
    next.caller(.call(Bench.callID, .resume))
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
    let deliveries = bench.deliveries(to: Bench.session("b1", edge: 2))
    let bodies = deliveries.compactMap {
      if case .signal(let signal) = $0.event { signal.body } else { nil }
    }
    #expect(bodies == ["hello"])
  }
}
