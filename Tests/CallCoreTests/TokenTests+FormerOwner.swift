import CallCore
import Testing

/// A device loses its token to another one.
extension TokenTests {
  // MARK: R13, the other side

  func taken(_ token: String = "v1") -> Command.Body {
    .tokenTaken(
      TokenTaken(
        fingerprint: "fp-\(token)", byUser: "carol", byDevice: "c1",
        at: Timestamp(microseconds: 1)))
  }

  @Test("R13: the former device loses the token in mid-ring, and its leg with it") func midRing() {
    var bench = Bench()
    bench.enrol("b1", voip: "v1", can: [.cancel])
    bench.attach("b2")
    bench.place()
    #expect(bench.pushes("b1") == [.ring])
    _ = bench.take()
    #expect(bench.say(taken(), device: "b1") == nil, "confirmed once it is stored")
    #expect(bench.registration("b1")?.request.voipToken == nil, "gone at once")
    let leg = bench.shard.inspect(call: Bench.callID)?.legs.first { $0.party.device == "b1" }
    #expect(leg?.state == "gone")
    bench.answerStores()
    #expect(bench.effects.contains { $0.isDone })
    bench.caller(.call(Bench.callID, .cancel))
    #expect(bench.pushes.isEmpty, "nothing goes to a token that is another's")
    #expect(bench.released.isEmpty, "the claim is the other's to write")
  }

  @Test("R13: the only leg: unreachable at once; with a session it rings on and is told")
  func onlyLeg() {
    var bench = Bench()
    bench.enrol("b1", voip: "v1", can: [])
    bench.place()
    bench.say(taken(), device: "b1")
    #expect(bench.ends.map(\.reason) == [.unreachable])
    var attached = Bench()
    attached.enrol("b1", voip: "v1", can: [])
    attached.attach("b1")
    attached.place()
    attached.say(taken(), device: "b1")
    let notices = attached.effects.compactMap { effect -> Notice? in
      if case .notice(Bench.session("b1"), let notice) = effect { return notice }
      return nil
    }
    #expect(notices.map(\.kind) == [.tokenTaken])
    attached.pass(.seconds(20))
    #expect(attached.ends.isEmpty)
    #expect(attached.pushes.isEmpty, "silence wakes nobody without a token")
  }

  @Test("R13: retransmitted, or to whoever has no such token: confirmed") func saidAgainToFormer() {
    var bench = Bench()
    #expect(bench.say(taken(), device: "nobody") == .done)
    bench.enrol("b1", voip: "v1", alert: "a1")
    bench.say(taken(), device: "b1")
    bench.answerStores()
    #expect(bench.say(taken(), device: "b1", again: true) == .done)
    #expect(bench.say(taken("x"), device: "b1") == .done)
    #expect(bench.registration("b1")?.request.alertToken?.token == "a1")
  }

  @Test("R13: its own registration is under way: that gives way, or the taker waits")
  func whileRegistering() {
    var bench = Bench()
    begin(&bench)
    #expect(bench.say(taken(), device: "b1") == .done)
    #expect(bench.effects.contains { $0.refuses(.tryAgain) }, "before it is stored it gives way")
    var storing = Bench()
    begin(&storing)
    answer(&storing, .read(nil, revision: 0))
    answer(&storing, .claimed)
    #expect(storing.say(taken(), device: "b1")?.error == .tryAgain)
    storing.answerStores()
    storing.say(taken(), device: "b1", again: true)
    storing.answerStores()
    #expect(storing.registration("b1")?.request.voipToken == nil)
  }

  @Test("R13: the former owner is in this shard: no message") func sameShard() {
    var bench = Bench()
    bench.enrol("b1", voip: "v1", can: [])
    bench.attach("b1")
    _ = bench.take()
    begin(&bench, "b9")
    answer(&bench, .read(former("bob", "b1"), revision: 4))
    #expect(bench.registration("b1")?.request.voipToken == nil)
    #expect(
      bench.effects.contains { $0.isTokenNotice })
    #expect(steps(bench).isEmpty, "first the store")
    let stores = bench.effects.filter(\.isForStore).count
    #expect(stores == 1)
    bench.answerStores()
    #expect(bench.registration("b9")?.request.voipToken?.token == "v1")
    #expect(bench.registration("b1")?.request.voipToken == nil)
  }

  @Test("R13: the same user's new device id: the old one's leg is gone in mid-ring")
  func reinstalled() {
    var bench = Bench()
    bench.enrol("b1", voip: "v1", can: [])
    bench.place()
    _ = bench.take()
    begin(&bench, "b9")
    bench.answerStores(owner: former("bob", "b1"))
    #expect(bench.ends.map(\.reason) == [.unreachable])
    #expect(bench.registration("b9")?.request.voipToken?.token == "v1")
  }
}
