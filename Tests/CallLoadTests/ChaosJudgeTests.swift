import CallCore
import CallLoadKit
import CallTestKit
import CallWire
import FoundationEssentials
import Testing

/// The judge excuses the consequences of faults, by time and place, and no more.
@Suite("The judge and faults") struct ChaosJudgeTests {
  @Test("a take-over that the judge knows of breaks no rule, and is measured")
  func toldOutage() throws {
    let outcome = try #require(try TwinRun(seed: 3, outage: (8, 10.5, true)).outcome())
    let result = outcome.result
    #expect(result.examples.values.flatMap { $0 } == [String]())
    #expect(result.callsAccountedFor == result.callsExpected, "\(result.failures)")
    let chaos = try #require(result.chaos)
    #expect(chaos.injected == [.killCoordinator: 1])
    let takeOver = try #require(chaos.takeOvers.first)
    #expect(takeOver.shards == 4)
    // Asked every 25 ms at first, and in steps of a fortieth of what has passed later.
    let microseconds = try #require(takeOver.microseconds)
    #expect((2_500_000...2_600_000).contains(microseconds))
    #expect(chaos.shardSilence[.killCoordinator]?.totalCount == 4)
    #expect(chaos.longestSilence > 2_000_000)
    #expect(chaos.commandsRetried > 0)
    #expect(chaos.neverAnswered == 0)
  }

  @Test("the same silence without a fault is found")
  func untoldOutage() throws {
    // Some call has to reach its timeout in these seconds.
    var found = 0
    for seed: UInt64 in 3...4 {
      var run = TwinRun(rate: 30, seed: seed, outage: (8, 10.5, false))
      run.scenario.parts = run.scenario.parts.map { part in
        var part = part
        if part.kind == .unanswered { part.weight *= 3 }
        return part
      }
      let outcome = try #require(try run.outcome())
      found += outcome.result.correctness[.timeoutLate] ?? 0
      #expect(outcome.result.chaos?.changedCount == 0)
    }
    #expect(found > 0)
  }

  /// All devices of a call from 10 s are notified late of its ring timeout at 40 s. One device was on a frozen
  /// edge, the caller was not.
  @Test("what excuses one device does not excuse the others", arguments: [(40.5, 0), (45, 1)])
  func lateForOne(toldAt: Double, broken: Int) throws {
    let roster = Roster(devices: 6, devicesPerUser: 3)
    var history = History(roster, frozenEdge(roster, from: 39, to: 44), .unanswered)
    history.tell(4, 2, .invite(Invite(caller: roster.party(0), deadline: at(40))), 10.1)
    history.tell(4, 5, .stop(Stop(reason: .unanswered, missed: true)), toldAt)
    history.tell(0, 5, .stop(Stop(reason: .unanswered)), toldAt)
    let count = try history.count(.timeoutLate) { _ in true }
    #expect(count == broken, "\(history.checker.examples)")
  }

  /// Device 3 loses its connection for a moment and is still notified of the timeout; device 5 slept.
  @Test("one that was away is told in time, if it is, and one that sleeps when it wakes")
  func lateForASleeper() throws {
    for (toldAt, broken) in [(40.2, 0), (44, 1)] {
      let roster = Roster(devices: 6, devicesPerUser: 3)
      var history = History(roster, frozenEdge(roster, from: 20, to: 21), .unanswered)
      history.tell(3, 2, .invite(Invite(caller: roster.party(0), deadline: at(40))), 10.1)
      history.checker.detached(device: 3, from: [history.call], at: at(39))
      history.checker.attached(device: 3, in: [history.call], at: at(39.5))
      history.tell(3, 5, .stop(Stop(reason: .unanswered, missed: true)), toldAt)
      history.tell(5, 6, .stop(Stop(reason: .unanswered, missed: true)), 55)
      let count = try history.count(.timeoutLate) { _ in true }
      #expect(count == broken, "\(history.checker.examples)")
    }
  }

  /// The caller loses its connection by itself, and comes back too late, or not.
  @Test(
    "a caller that an edge in trouble kept away is explained by that",
    arguments: [
      // When it comes back (nil: it was never away), from when until when the edge is in trouble.
      (27, 12, 30, true), (27, 2, 3, false), (20, 12, 30, false), (nil, 12, 30, false),
    ] as [(Double?, Double, Double, Bool)])
  func keptAway(back: Double?, from: Double, to: Double, isExplained: Bool) throws {
    let roster = Roster(devices: 6, devicesPerUser: 3)
    var history = History(roster, frozenEdge(roster, from: from, to: to), .callerReturns)
    history.tell(3, 2, .invite(Invite(caller: roster.party(0), deadline: at(40))), 10.1)
    if let back {
      history.checker.detached(device: 0, from: [history.call], at: at(11))
      history.checker.attached(device: 0, in: [history.call], at: at(back))
    }
    history.tell(3, 5, .stop(Stop(reason: .cancelled)), 26)
    history.tell(0, 5, .stop(Stop(reason: .cancelled)), 27)
    let found = history.checker.judge(history.call, at: at(60), allowed: [.answered]) { _ in true }
    #expect(try #require(found).explainedBy == (isExplained ? .freezeEdge : nil))
  }

  @Test("an end that nobody planned or explains comes with its history, and the faults then")
  func unplannedEnd() throws {
    let roster = Roster(devices: 6, devicesPerUser: 3)
    var history = History(roster, frozenEdge(roster, from: 9, to: 13), .answered)
    history.tell(3, 2, .invite(Invite(caller: roster.party(0), deadline: at(40))), 10.1)
    history.tell(3, 5, .stop(Stop(reason: .cancelled)), 14)
    history.tell(0, 5, .stop(Stop(reason: .cancelled)), 14)
    let found = history.checker.judge(history.call, at: at(60), allowed: [.answered]) { _ in true }
    let verdict = try #require(found)
    #expect(verdict.explainedBy == nil)
    let story = try #require(verdict.story)
    #expect(story.contains("stop cancelled"))
    #expect(story.contains("freeze-edge n, -5.0 to -1.0 s"), "\(story)")
  }

  @Test("a fault concerns what the node has just taken, too")
  func shardsOfANode() throws {
    let text = """
      {"registrations":0,"nodes":[{"status":{"node":"e"}},{"status":{"node":"c","coordinator":{"shards":[
      {"shard":1,"state":"serving"},{"shard":2,"state":"recovering"},{"shard":3,"state":"releasing"},
      {"shard":4,"state":"stopped"}]}}}]}
      """
    let status = try JSONDecoder().decode(CallctlRunner.Status.self, from: Data(text.utf8))
    #expect(status.shards(of: "c") == [1, 2, 3])
    #expect(status.shards(of: "e") == nil)
    #expect(status.shards(of: "nobody") == nil)
    #expect(status.unserved(by: [], of: 3) == [0, 1, 2])
    #expect(status.unserved(by: ["c"], of: 6) == [0, 2, 3, 4, 5])
    // A coordinator that did not answer may serve any shard.
    #expect(status.unserved(by: ["c", "nobody"], of: 6) == nil)
  }

  /// A device that moves between edges has two sessions for a moment. The reply that ends the call may arrive
  /// through one of them before the earlier invite arrives through the other.
  @Test(
    "an invite that an end overtook is told by its version, and only right after a new session began",
    arguments: [
      // The invite's version, when the new session begins (nil: never), when the invite comes.
      (3, 12.0, 12.1, 0), (3, 11.0, 11.1, 0), (9, 12.0, 12.1, 1), (3, nil, 12.1, 1),
      (3, 12.0, 15.0, 1), (3, 10.5, 11.5, 1),
    ] as [(UInt64, Double?, Double, Int)])
  func overtaken(version: UInt64, attaches: Double?, comes: Double, broken: Int) throws {
    let roster = Roster(devices: 6, devicesPerUser: 3)
    var checker = CallChecker(roster: roster, seed: 1)
    let call = CallID(high: 1, low: 2)
    checker.planned(
      CallChecker.Facts(
        call: call, part: .declinedEverywhere, caller: 0, callees: 3..<6, placedAt: at(10),
        ringTimeout: .seconds(30)))
    let address = CallAddress(callee: "", call: call)
    checker.sent(
      device: 3, ClientFrame(id: 1, command: .call(address, .decline(.everywhere))), at: at(10.1))
    let end = CallState(
      call: call, callee: "", phase: .ended, version: 7, reason: .declined, by: roster.party(3))
    func endIsTold(_ checker: inout CallChecker) {
      checker.received(device: 3, .reply(id: 1, .call(end)), at: at(11))
    }
    if let attaches, attaches < 11 { checker.attached(device: 3, in: [call], at: at(attaches)) }
    endIsTold(&checker)
    if let attaches, attaches >= 11 { checker.attached(device: 3, in: [call], at: at(attaches)) }
    let invite = Invite(caller: roster.party(0), deadline: at(40))
    checker.received(
      device: 3,
      .delivery(
        Delivery(call: call, callee: "", version: version, at: at(10), event: .invite(invite))),
      at: at(comes))
    _ = try #require(checker.judge(call, at: at(20)) { _ in true })
    #expect(checker.counts[.toldToRingAfterEnd] == broken)
  }
}
