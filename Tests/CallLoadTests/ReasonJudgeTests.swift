import CallCore
import CallLoadKit
import CallWire
import Testing

/// Which reasons of ends, and which missed calls, the judge accepts.
@Suite("The judge and reasons") struct ReasonJudgeTests {
  /// One device declines for itself, and the call rings out: missed, unless the shard has the decline.
  @Test(
    "a missed call is excused by a decline that no shard could take, and by nothing else",
    arguments: [
      // The shard has no owner from when until when (nil: always one), of the callee or not.
      (9.0, 42.0, true, 0), (9.0, 12.0, true, 0), (nil, 0, true, 1), (9.0, 42.0, false, 1),
      // The fault was over when the device declined, or began when the call was.
      (2.0, 5.0, true, 1), (46.0, 48.0, true, 1),
    ] as [(Double?, Double, Bool, Int)])
  func declineUnderWay(from: Double?, to: Double, isCallees: Bool, broken: Int) throws {
    let roster = Roster(devices: 30, devicesPerUser: 3)
    var timeline = FaultTimeline.quiet()
    let shard = ShardHash.shard(of: UserKey(app: "load", user: roster.userName(1)), count: 12)
    if let from {
      let shards = [isCallees ? shard : (shard + 1) % 12]
      timeline.begin(
        ChaosFault.test(1, .killCoordinator, shards: shards), carried: [], at: at(from))
      timeline.answered(shard: shards[0], fault: 1, at: at(to))
    }
    #expect(try reasonsBroken(roster, timeline, declines: true) == broken)
  }

  @Test(
    "a device that sleeps declines over HTTP, and any edge that stands still may hold that up",
    arguments: [(true, 9.0, 0), (true, 2, 1), (false, 9, 1)] as [(Bool, Double, Int)])
  func declineOverHTTP(sleeps: Bool, from: Double, broken: Int) throws {
    var call = JudgedCall(attached: sleeps ? [0, 4] : [0, 3, 4])
    call.outage(.freezeEdge, from: from, to: from + 5, carried: [8])
    call.accept()
    for device in sleeps ? 4..<5 : 3..<5 { call.tell(device, .invite(call.invite), 10.1) }
    call.say(3, .call(call.address, .decline(.here)), 10.5)
    for device in [4, 0] {
      call.tell(device, .stop(Stop(reason: .unanswered, missed: device == 4)), 40.1)
    }
    #expect(try call.count(.wrongReason) == broken)
  }

  @Test("a missed call is one where nobody declined, whatever was out of order")
  func missedWithoutDecline() throws {
    let roster = Roster(devices: 30, devicesPerUser: 3)
    var timeline = FaultTimeline.quiet()
    timeline.begin(
      ChaosFault.test(1, .killCoordinator, shards: Array(0..<12)), carried: [], at: at(9))
    #expect(try reasonsBroken(roster, timeline, declines: false) == 0)
    #expect(try reasonsBroken(roster, timeline, declines: false, missed: false) > 0)
    // The cluster has the decline, and its stop shows that: right with and without faults.
    #expect(try reasonsBroken(roster, timeline, declines: true, missed: false) == 0)
  }

  /// A busy device that attaches again while the call rings elsewhere is notified of its own part's end.
  @Test(
    "the end of a busy device's own part is no missed call, and every other one of a busy user is",
    arguments: [
      // The notified device, whether it was busy, the device that the end names, whether it is missed.
      (3, true, 3, false, 0), (3, true, 3, true, 0), (4, false, 3, false, 1),
      (4, false, 3, true, 0),
      (3, true, 4, false, 1), (3, true, 4, true, 0), (3, false, 3, false, 1),
    ] as [(Int, Bool, Int, Bool, Int)])
  func ownBusy(told: Int, wasBusy: Bool, by: Int, missed: Bool, broken: Int) throws {
    let roster = Roster(devices: 6, devicesPerUser: 3)
    var checker = CallChecker(roster: roster, seed: 1)
    let call = CallID(high: 1, low: 2)
    checker.planned(
      CallChecker.Facts(
        call: call, part: .busy, caller: 0, callees: 3..<6, placedAt: at(10),
        ringTimeout: .seconds(30)))
    let address = CallAddress(callee: "", call: call)
    for device in 3..<6 where device != told || wasBusy {
      checker.sent(device: device, ClientFrame(id: 1, command: .call(address, .busy)), at: at(10.2))
    }
    let stop = Stop(reason: .busy, by: roster.party(by), missed: missed)
    checker.received(
      device: told,
      .delivery(Delivery(call: call, callee: "", version: 5, at: at(11), event: .stop(stop))),
      at: at(11))
    _ = try #require(checker.judge(call, at: at(20)) { _ in false })
    let count = try #require(checker.counts[.wrongReason])
    #expect(min(count, 1) == broken, "\(checker.examples)")
  }

  /// Counts wrong reasons in a call from 10 s to its ring timeout at 40 s. The device that did not decline is
  /// notified of a missed call, or not.
  private func reasonsBroken(
    _ roster: Roster, _ timeline: FaultTimeline, declines: Bool, missed: Bool = true
  ) throws -> Int {
    var history = History(roster, timeline, .declinedHere)
    let invite = Invite(caller: roster.party(0), deadline: at(40))
    history.tell(3, 2, .invite(invite), 10.1)
    history.tell(4, 2, .invite(invite), 10.1)
    if declines {
      let frame = ClientFrame(
        id: 1, command: .call(CallAddress(call: history.call), .decline(.here)))
      history.checker.sent(device: 3, frame, at: at(10.5))
    }
    history.tell(4, 5, .stop(Stop(reason: .unanswered, missed: missed)), 40.1)
    history.tell(0, 5, .stop(Stop(reason: .unanswered)), 40.1)
    return try history.count(.wrongReason) { $0 != 3 }
  }
}
