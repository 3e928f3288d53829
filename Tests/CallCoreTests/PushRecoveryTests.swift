import CallCore
import Testing

/// R10 with pushes: what a shard's new owner makes of them.
@Suite struct PushRecoveryTests {
  /// Alice calls bob, whose b1 sleeps.
  private func ringing(seconds: UInt32 = 0) -> Bench {
    var bench = Bench.sleeping("b1", can: .cancel)
    bench.place(seconds: seconds)
    return bench
  }

  private let back = Bench.session("b1", edge: 2)

  @Test("R10: a pushed device is on its way: it attaches and rings", arguments: [false, true])
  func onItsWay(checkpoint: Bool) {
    let bench = ringing()
    var next = bench.takenOver(checkpoint: checkpoint, registered: ["b1"], after: .seconds(4))
    #expect(next.pushes.map(\.id) == bench.pushes.map(\.id), "retransmitted, under the same id")
    #expect(next.pushes.first?.ringDeadline == bench.pushes.first?.ringDeadline)
    #expect(next.journalledPushes == ["b1 ring"], "no second fact")
    #expect(next.ends.isEmpty, "it is still expected")
    next.attach("b1", edge: 2)
    #expect(next.deliveries(to: back).count == 1)
    #expect(next.answer("b1", session: back)?.won == true)
    #expect(next.pushes.count == 1)
  }

  @Test("R10: its deadline passes meanwhile: one end, one clean-up", arguments: [false, true])
  func deadlinePasses(checkpoint: Bool) {
    let bench = ringing(seconds: 5)
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
    #expect(third.wake("b1")?.state?.reason == .unanswered)
    #expect(third.invites("b1").isEmpty)
  }

  @Test("R10 R25: the clean-up of a device whose user the call has left keeps its reason")
  func leftForOthers() {
    var bench = Bench.sleeping("b1", can: .missed)
    bench.set(UserRules(onNoAnswer: .init(users: ["carol"]), noAnswerSeconds: 7), of: "bob")
    bench.place()
    bench.pass(.seconds(7))
    func reasons(_ bench: Bench) -> [EndReason?] {
      bench.pushes.filter(\.purpose.isCleanUp).map(\.reason)
    }
    #expect(reasons(bench) == [.unanswered])
    let next = bench.takenOver(checkpoint: false, registered: ["b1"], after: .seconds(1))
    #expect(reasons(next) == [.unanswered])
  }

  @Test("R10: clean-ups and notices are retransmitted while they matter") func saidAgain() {
    var bench = Bench()
    bench.enrol("b1", voip: "v1", alert: "a1")
    bench.enrol("b2", alert: "a2")
    bench.place()
    bench.caller(.cancel)
    let afterEnd = bench.pushes.filter { $0.purpose != .ring }.map(\.id).sorted()
    #expect(afterEnd.count == 3)
    for checkpoint in [false, true] {
      func pushes(after seconds: Int64) -> [PushJob] {
        bench.takenOver(
          checkpoint: checkpoint, registered: ["b1", "b2"], after: .seconds(seconds)
        ).pushes
      }
      #expect(pushes(after: 3).map(\.id).sorted() == afterEnd)
      #expect(pushes(after: 31).map(\.purpose) == [.missedNotice, .missedNotice])
      #expect(pushes(after: 240).isEmpty, "the work queue may have forgotten their ids")
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

  @Test("a push whose token went, or that may not go any more, is not retransmitted")
  func tokenWent() {
    let next = ringing().takenOver(checkpoint: false, registered: [], after: .seconds(1))
    #expect(next.pushes.isEmpty)
    var off = ringing().successor(checkpoint: false, registered: ["b1"])
    off.shard.mayPush = false
    off.begin()
    #expect(off.pushes.isEmpty)
  }

  @Test("who attached under the former owner is not pushed again", arguments: [false, true])
  func attachedBefore(checkpoint: Bool) {
    var bench = ringing()
    bench.attach("b1")
    var next = bench.takenOver(checkpoint: checkpoint, registered: ["b1"], attached: ["b1"])
    #expect(next.pushes.isEmpty)
    #expect(next.invites("b1").count == 1)
    next.pass(.seconds(10))
    #expect(next.pushes.isEmpty, "once per call and device")
  }

  @Test("who is silent is pushed by the new owner") func silenceUnderTheNewOwner() {
    var bench = Bench.sleeping("b1", can: .cancel)
    bench.attach("b1")
    bench.place()
    bench.pass(.seconds(1))
    var next = bench.takenOver(checkpoint: false, registered: ["b1"], attached: ["b1"])
    next.pass(.seconds(2))
    #expect(next.pushes("b1") == [.ring])
    var gone = bench.takenOver(checkpoint: false, registered: ["b1"])
    #expect(gone.pushes("b1") == [.ring], "its session went with its edge")
    gone.caller(.resume)
    gone.pass(.seconds(20))
    #expect(gone.ends.isEmpty)
  }

  @Test("a checkpoint keeps pushes of legs and of others, also restored") func checkpoints() {
    var bench = Bench()
    bench.enrol("b1", voip: "v1", alert: "a1")
    bench.enrol("b2", alert: "a2")
    bench.place()
    bench.caller(.cancel)
    let entries = bench.shard.checkpointEntries()
    var stored = bench
    stored.journal = entries
    #expect(stored.journalledPushes.sorted() == bench.journalledPushes.sorted())
    for journal in [entries, bench.journal] {
      var copy = ShardMachine(shard: 0, epoch: 1, limits: CallLimits())
      copy.replay(journal, now: bench.now)
      #expect(copy.checkpointEntries() == entries)
    }
  }

  @Test("a report comes to the new owner") func reportToTheNextOwner() {
    var next = ringing().takenOver(checkpoint: false, registered: ["b1"], after: .seconds(1))
    next.caller(.resume)
    #expect(next.report(.tokenGone(at: next.now), "b1", at: next.now) == .done)
    #expect(next.registration("b1")?.request.voipToken == nil)
    next.pass(.seconds(15))
    #expect(next.ends.map(\.reason) == [.unreachable])
  }
}
