import CallCore
import Testing

/// R10 with pushes: what a shard's new owner makes of them.
@Suite struct PushRecoveryTests {
  private func sleeping(can: PushCapabilities = .cancel) -> Bench {
    var bench = Bench()
    bench.enrol("b1", voip: "v1", can: can)
    _ = bench.take()
    return bench
  }

  @Test(
    "R10: the owner dies while a pushed device is on its way: it attaches and rings",
    arguments: [false, true])
  func onItsWay(checkpoint: Bool) {
    var bench = sleeping()
    bench.place()
    var next = bench.takenOver(checkpoint: checkpoint, registered: ["b1"], after: .seconds(4))
    #expect(next.pushes.map(\.id) == bench.pushes.map(\.id), "retransmitted, under the same id")
    #expect(next.pushes.first?.ringDeadline == bench.pushes.first?.ringDeadline)
    #expect(next.journalledPushes == ["b1 ring"], "no second fact")
    #expect(next.ends.isEmpty, "it is still expected")
    next.attach("b1", edge: 2)
    #expect(next.deliveries(to: Bench.session("b1", edge: 2)).count == 1)
    let won = next.say(
      .call(Bench.callID, .answer(description: "")), device: "b1",
      session: Bench.session("b1", edge: 2))
    #expect(won?.won == true)
    #expect(next.pushes.count == 1)
  }

  @Test(
    "R10: its deadline passes meanwhile: one end, no ring, one clean-up", arguments: [false, true])
  func deadlinePasses(checkpoint: Bool) {
    var bench = sleeping()
    bench.place(seconds: 5)
    var next = bench.takenOver(checkpoint: checkpoint, registered: ["b1"], after: .seconds(6))
    #expect(next.pushes.filter { $0.purpose == .ring }.isEmpty)
    next.pass(.seconds(1))
    #expect(next.ends.map(\.reason) == [.unanswered])
    #expect(next.pushes("b1") == [.cancel])
    var third = next.takenOver(checkpoint: checkpoint, registered: ["b1"], after: .seconds(1))
    #expect(third.pushes.map(\.id) == next.pushes.map(\.id), "the same one, retransmitted")
    #expect(third.ends.count == 1)
    third.pass(.seconds(60))
    #expect(third.journalledPushes == ["b1 ring", "b1 cancel"])
    let reply = third.say(.attach(Attach(forCall: Bench.callID)), device: "b1")
    #expect(reply?.state?.reason == .unanswered)
    #expect(third.invites("b1").isEmpty)
  }

  @Test("R10: clean-ups and notices are retransmitted while they matter, and not later")
  func saidAgain() {
    var bench = Bench()
    bench.enrol("b1", voip: "v1", alert: "a1")
    bench.enrol("b2", alert: "a2")
    bench.place()
    bench.caller(.call(Bench.callID, .cancel))
    let afterEnd = bench.pushes.filter { $0.purpose != .ring }.map(\.id).sorted()
    #expect(afterEnd.count == 3)
    for checkpoint in [false, true] {
      let soon = bench.takenOver(
        checkpoint: checkpoint, registered: ["b1", "b2"], after: .seconds(3))
      #expect(soon.pushes.map(\.id).sorted() == afterEnd)
      let later = bench.takenOver(
        checkpoint: checkpoint, registered: ["b1", "b2"], after: .seconds(31))
      #expect(Set(later.pushes.map(\.purpose)) == [.missedNotice])
      #expect(later.pushes.count == 2)
      let late = bench.takenOver(
        checkpoint: checkpoint, registered: ["b1", "b2"], after: .seconds(240))
      #expect(late.pushes.isEmpty, "the work queue may have forgotten their ids")
    }
  }

  @Test("R10: also where everybody knows of the end") func settled() {
    var bench = Bench()
    bench.enrol("b2", alert: "a2")
    bench.place()
    bench.acknowledgeAll()
    #expect(bench.journal.contains { $0.change == .settled })
    let next = bench.takenOver(checkpoint: true, registered: ["b2"], after: .seconds(1))
    #expect(next.pushes.map(\.id) == bench.pushes.map(\.id))
  }

  @Test("a push whose token went meanwhile is not retransmitted") func tokenWent() {
    let bench: Bench = {
      var bench = sleeping()
      bench.place()
      return bench
    }()
    let next = bench.takenOver(checkpoint: false, registered: [], after: .seconds(1))
    #expect(next.pushes.isEmpty)
  }

  @Test(
    "a device that attached under the former owner is not pushed again", arguments: [false, true])
  func attachedBefore(checkpoint: Bool) {
    var bench = sleeping()
    bench.place()
    bench.attach("b1")
    var next = bench.takenOver(checkpoint: checkpoint, registered: ["b1"], attached: ["b1"])
    #expect(next.pushes.isEmpty)
    #expect(next.invites("b1").count == 1)
    next.pass(.seconds(10))
    #expect(next.pushes.isEmpty, "once per call and device")
  }

  @Test("a device that was to be pushed for its silence is pushed by the new owner")
  func silenceUnderTheNewOwner() {
    var bench = sleeping()
    bench.attach("b1")
    bench.place()
    bench.pass(.seconds(1))
    var next = bench.takenOver(checkpoint: false, registered: ["b1"], attached: ["b1"])
    next.pass(.seconds(2))
    #expect(next.pushes("b1") == [.ring])
    var gone = bench.takenOver(checkpoint: false, registered: ["b1"])
    #expect(gone.pushes("b1") == [.ring], "its session went with its edge")
    gone.caller(.call(Bench.callID, .resume))
    gone.pass(.seconds(20))
    #expect(gone.ends.isEmpty)
  }

  @Test("a checkpoint keeps pushes of legs and of others; restored, it is the same checkpoint")
  func checkpoints() {
    var bench = Bench()
    bench.enrol("b1", voip: "v1", alert: "a1")
    bench.enrol("b2", alert: "a2")
    bench.place()
    bench.caller(.call(Bench.callID, .cancel))
    let entries = bench.shard.checkpointEntries()
    let pushed = entries.compactMap { entry -> String? in
      if case .pushed(let device, let purpose) = entry.change {
        return "\(device.text) \(purpose.name)"
      }
      return nil
    }
    #expect(Set(pushed) == Set(bench.journalledPushes))
    #expect(pushed.count == bench.journalledPushes.count)
    var copy = ShardMachine(shard: 0, epoch: 1, limits: CallLimits())
    copy.replay(entries, now: bench.now)
    #expect(copy.checkpointEntries() == entries)
    var replayed = ShardMachine(shard: 0, epoch: 1, limits: CallLimits())
    replayed.replay(bench.journal, now: bench.now)
    #expect(replayed.checkpointEntries() == entries)
  }

  @Test("not while a node might not read of it") func switchedOff() {
    var bench = sleeping()
    bench.place()
    var next = bench.successor(checkpoint: false, registered: ["b1"])
    next.shard.mayPush = false
    next.run { $0.begin(now: $1, into: &$2) }
    #expect(next.pushes.isEmpty)
  }

  @Test("a report comes to the new owner") func reportToTheNextOwner() {
    var bench = sleeping()
    bench.place()
    var next = bench.takenOver(checkpoint: false, registered: ["b1"], after: .seconds(1))
    next.caller(.call(Bench.callID, .resume))
    #expect(
      next.report(.tokenGone(at: next.now), "b1", token: "v1", at: next.now) == .done)
    #expect(next.registration("b1")?.request.voipToken == nil)
    next.pass(.seconds(15))
    #expect(next.ends.map(\.reason) == [.unreachable])
  }
}
