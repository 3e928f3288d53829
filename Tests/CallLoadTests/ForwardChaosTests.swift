import CallCore
import CallLoadKit
import CallWire
import Testing

/// User 2 is called and sends the call on to user 1, whose devices are 3 to 5: two shards have to answer.
@Suite("The judge, faults, and calls that go on") struct ForwardChaosTests {
  private func shard(of user: Int) -> Int {
    ShardHash.shard(
      of: UserKey(app: "load", user: "u\(user)"), count: JudgedCall.shardCount)
  }

  private func forwarded() -> JudgedCall {
    JudgedCall(attached: [3, 4, 5], route: .forwarded(by: 2))
  }

  /// Device 5 never rings, and device 3 answers at `answer`. A fault of the shards lasts from 9 to 12 s.
  private func notRung(_ shards: [Int], answer: Double) throws -> Int {
    var call = forwarded()
    if !shards.isEmpty { call.outage(.killCoordinator, from: 9, to: 12, shards: shards) }
    call.accept()
    for device in [3, 4] { call.tell(device, .invite(call.invite), 10.1) }
    call.say(3, .call(call.address, .answer(description: "")), answer)
    return try call.count(.attachedNotRung)
  }

  @Test("a device rings late where either shard had no owner, and another second later")
  func lateRing() throws {
    let (own, other) = (shard(of: 2), shard(of: 1))
    try #require(Set([own, other, shard(of: 0)]).count == 3)
    for shards in [[own], [other]] {
      #expect(try notRung(shards, answer: 13.9) == 0)
      #expect(try notRung(shards, answer: 14.1) == 1)
    }
    #expect(try notRung([shard(of: 0)], answer: 11.2) == 1)
    #expect(try notRung([], answer: 11.2) == 1)
  }

  /// The call ends as unreachable at 26 s, while a shard has no owner.
  private func unreachable(
    shard: Int, from: Double, to: Double
  ) throws -> (broken: Bool, explained: ChaosKind?) {
    var call = forwarded()
    call.outage(.killCoordinator, from: from, to: to, shards: [shard])
    call.accept()
    call.tell(0, .stop(Stop(reason: .unreachable)), 26)
    let verdict = try call.judge()
    return (call.checker.counts[.unreachableThoughAttached] != 0, verdict.explainedBy)
  }

  @Test("a call waits 15 s for the shard of whom it goes to, and may find nobody then")
  func unreachable() throws {
    let waited = try unreachable(shard: shard(of: 1), from: 10, to: 30)
    #expect(!waited.broken && waited.explained == .killCoordinator)
    // It was back in time, or was another one.
    #expect(try unreachable(shard: shard(of: 1), from: 10, to: 15).broken)
    #expect(try unreachable(shard: shard(of: 1), from: 20, to: 30).broken)
    #expect(try unreachable(shard: shard(of: 0), from: 10, to: 30).broken)
  }

  @Test("nobody waits for another user's shard where the call goes to nobody else")
  func direct() throws {
    var call = JudgedCall(attached: [3, 4, 5])
    call.outage(.killCoordinator, from: 10, to: 30, shards: [shard(of: 1)])
    call.accept()
    call.tell(0, .stop(Stop(reason: .unreachable)), 26)
    #expect(try call.count(.unreachableThoughAttached) == 1)
  }

  /// The call is unanswered. The caller and device 3 are away at the ring timeout, and device 3 is back at 45 s.
  @Test("the call knows of another user's new session up to a second later")
  func newSession() throws {
    for (told, broken) in [(46.9, 0), (47.1, 1)] {
      var call = forwarded()
      call.accept()
      call.tell(3, .invite(call.invite), 10.1)
      for device in [0, 3] { call.checker.detached(device: device, from: [call.id], at: at(39)) }
      call.checker.attached(device: 3, in: [call.id], at: at(45))
      call.checker.attached(device: 0, in: [call.id], at: at(50))
      call.tell(3, .stop(Stop(reason: .unanswered, missed: true)), told)
      call.tell(0, .stop(Stop(reason: .unanswered)), 50.1)
      #expect(try call.count(.timeoutLate) == broken)
    }
  }
}
