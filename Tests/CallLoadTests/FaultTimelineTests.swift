import CallCore
import CallLoadKit
import CallProcesses
import Testing

/// The disturbances that faults cause: where, and for how long.
@Suite("The timeline of faults") struct FaultTimelineTests {
  @Test("what befell a shard is told by the moment that matters")
  func story() {
    var timeline = FaultTimeline.quiet()
    timeline.begin(ChaosFault.test(1, .killCoordinator, shards: [3]), carried: [], at: at(10))
    timeline.lifted(fault: 1, at: at(11))
    timeline.answered(shard: 3, fault: 1, at: at(12.5))
    timeline.begin(ChaosFault.test(2, .killNATS, shards: [4]), carried: [], at: at(49))
    #expect(
      timeline.story(shard: 3, around: at(20)) == [
        "kill-coordinator n, -10.0 to -9.0 s; shard 3 was back at -7.5 s"
      ])
    #expect(
      timeline.story(shard: 4, around: at(50.5)) == [
        "kill-nats n, -1.5 to … s; shard 4 was back at … s"
      ])
    #expect(
      timeline.story(shard: 3, around: at(38)) == [
        "kill-coordinator n, -28.0 to -27.0 s; shard 3 was back at -25.5 s"
      ])
  }

  @Test("a fault excuses nothing at other times and at other shards")
  func excusesByTimeAndPlace() throws {
    // A known fault of other shards, a few seconds before the silence.
    var timeline = FaultTimeline.quiet()
    timeline.begin(ChaosFault.test(1, .killCoordinator, shards: [3]), carried: [], at: at(10))
    timeline.answered(shard: 3, fault: 1, at: at(12))
    timeline.end(shardsOf: 1, at: at(12))
    #expect(timeline.disturbed(.shard(3), from: at(11), to: at(11)) != nil)
    #expect(timeline.disturbed(.shard(3), from: at(5), to: at(9)) == nil)
    #expect(timeline.disturbed(.shard(3), from: at(14), to: at(20)) == nil)
    #expect(timeline.disturbed(.shard(4), from: at(5), to: at(20)) == nil)
    #expect(timeline.disturbed(.device(0), from: at(5), to: at(20)) == nil)
  }

  @Test("busy processors excuse lateness everywhere, for as long as they are busy")
  func busy() {
    func excused(_ due: Double) -> Timestamp {
      var timeline = FaultTimeline.quiet()
      timeline.processorsWereBusy(from: at(10), until: at(10.5))
      timeline.processorsWereBusy(from: at(10.5), until: at(12))
      return timeline.excuse(shards: [3], device: 0, due: at(due), slack: .seconds(1))
    }
    #expect(excused(11) == at(16.5))
    #expect(excused(8.5) == at(8.5))
    #expect(excused(17) == at(17))
  }

  @Test("a timeout is excused to the end of the take-over, and by the next one from there")
  func excuse() {
    var timeline = FaultTimeline.quiet()
    func excused(_ due: Double) -> Timestamp {
      timeline.excuse(shards: [3], device: 0, due: at(due), slack: .seconds(1))
    }
    #expect(excused(11) == at(11))
    timeline.begin(ChaosFault.test(1, .killCoordinator, shards: [3]), carried: [], at: at(10))
    #expect(excused(11) == .distantFuture)
    timeline.answered(shard: 3, fault: 1, at: at(12.5))
    #expect(excused(11) == at(12.5))
    #expect(excused(8) == at(8))
    #expect(excused(13) == at(13))
    timeline.begin(ChaosFault.test(2, .killCoordinator, shards: [3]), carried: [], at: at(13))
    timeline.answered(shard: 3, fault: 2, at: at(15))
    #expect(excused(11) == at(15))
    // Where messages get lost they are retransmitted, which takes a while longer.
    timeline.begin(ChaosFault.test(3, .killNATS, shards: [3]), carried: [], at: at(20))
    timeline.lifted(fault: 3, at: at(20.5))
    timeline.answered(shard: 3, fault: 3, at: at(21))
    #expect(excused(20) == at(25.5))
    // One of three servers is away: anything that the shard needs next may lack its leader.
    timeline.begin(ChaosFault.test(4, .killNATS, shards: [3]), carried: [], at: at(40))
    timeline.answered(shard: 3, fault: 4, at: at(40.1))
    #expect(excused(43) == .distantFuture)
    timeline.lifted(fault: 4, at: at(45))
    #expect(excused(43) == at(49.5))
  }

  @Test("when faults of a kind began") func beginnings() {
    var timeline = FaultTimeline.quiet()
    timeline.begin(ChaosFault.test(1, .killPush, shards: []), carried: [], at: at(10))
    #expect(timeline.began({ $0 == .killPush }, from: at(9), to: at(10)))
    #expect(timeline.began({ $0 == .killPush }, from: at(10), to: at(11)))
    #expect(!timeline.began({ $0 == .killPush }, from: at(10.1), to: at(11)))
    #expect(!timeline.began({ $0 == .killPush }, from: at(9), to: at(9.9)))
    #expect(!timeline.began({ $0 == .killEdge }, from: at(9), to: at(11)))
  }

  @Test("a device is disturbed by its edge until it has a new session")
  func devices() {
    var timeline = FaultTimeline.quiet()
    var killed = ChaosFault.test(1, .killEdge, shards: [])
    killed.edges = [0]
    timeline.begin(killed, carried: [1, 2], at: at(10))
    timeline.lifted(fault: 1, at: at(11))
    timeline.attached(device: 1, at: at(12))
    #expect(timeline.disturbed(.device(1), from: at(14), to: at(15)) == nil)
    #expect(timeline.disturbed(.device(2), from: at(14), to: at(15))?.kind == .killEdge)
    #expect(timeline.disturbed(.device(3), from: at(10), to: at(15)) == nil)
    var frozen = ChaosFault.test(2, .freezeEdge, shards: [])
    frozen.edges = [0]
    timeline.begin(frozen, carried: [3], at: at(20))
    #expect(timeline.disturbed(.device(3), from: at(22), to: at(23)) != nil)
    timeline.lifted(fault: 2, at: at(25))
    #expect(timeline.disturbed(.device(3), from: at(29), to: at(29)) != nil)
    #expect(timeline.disturbed(.device(3), from: at(30), to: at(31)) == nil)
  }

  @Test("a device that kept its session in a drain, or sleeps, is not disturbed when that is over")
  func devicesThatStay() {
    var timeline = FaultTimeline.quiet()
    var drain = ChaosFault.test(1, .drain, shards: [])
    drain.edges = [0]
    timeline.begin(drain, carried: [1, 2], at: at(10))
    timeline.lifted(fault: 1, at: at(12)) { $0 == 1 }
    #expect(timeline.disturbed(.device(1), from: at(11), to: at(11)) != nil)
    #expect(timeline.disturbed(.device(1), from: at(20), to: at(21)) == nil)
    #expect(timeline.disturbed(.device(2), from: at(20), to: at(21)) != nil)
  }

  @Test(
    "edges in trouble, and its own shard, keep a device away if they last for half of its absence")
  func hindrance() {
    var timeline = FaultTimeline.quiet()
    timeline.begin(ChaosFault.test(1, .killCoordinator, shards: [1]), carried: [], at: at(5))
    timeline.answered(shard: 1, fault: 1, at: at(7))
    var killed = ChaosFault.test(2, .killEdge, shards: [])
    killed.edges = [0]
    timeline.begin(killed, carried: [1], at: at(10))
    func kind(_ from: Double, _ to: Double, shard: Int = 2) -> ChaosKind? {
      timeline.hindrance(shard: shard, from: at(from), to: at(to))?.kind
    }
    #expect(kind(9, 11) == .killEdge)
    #expect(kind(8, 11) == nil)
    #expect(kind(8, 11, shard: 1) == .killCoordinator)
    timeline.lifted(fault: 2, at: at(13))
    // A device that failed to connect retries a little later.
    #expect(kind(10, 20) == .killEdge)
    #expect(kind(10, 21) == nil)
    #expect(kind(16, 17) == nil)
    // Two that lie over each other count once.
    killed.id = 3
    timeline.begin(killed, carried: [1], at: at(12))
    timeline.lifted(fault: 3, at: at(13))
    #expect(kind(10, 21) == nil)
  }

  @Test("a fault in which messages get lost is found beside another")
  func lostMessages() {
    var timeline = FaultTimeline.quiet()
    timeline.begin(ChaosFault.test(1, .freezeCoordinator, shards: [1]), carried: [], at: at(5))
    timeline.begin(ChaosFault.test(2, .killNATS, shards: [1]), carried: [], at: at(6))
    for fault in [1, 2] { timeline.lifted(fault: fault, at: at(7)) }
    for fault in [1, 2] { timeline.answered(shard: 1, fault: fault, at: at(10)) }
    #expect(timeline.disturbed(.shard(1), from: at(11), to: at(11))?.kind == .freezeCoordinator)
    #expect(timeline.lostMessages(shard: 1, from: at(11), to: at(11))?.kind == .killNATS)
    #expect(timeline.lostMessages(shard: 1, from: at(15), to: at(16)) == nil)
    #expect(timeline.lostMessages(shard: 2, from: at(11), to: at(11)) == nil)
  }

  @Test("who attached to an edge that stood still was kept waiting by it, and by no other")
  func attachesToAFrozenEdge() {
    var timeline = FaultTimeline.quiet()
    var frozen = ChaosFault.test(1, .freezeEdge, shards: [])
    frozen.edges = [1]
    timeline.begin(frozen, carried: [], at: at(10))
    timeline.lifted(fault: 1, at: at(14.5))
    timeline.attached(device: 1, through: 1, at: at(14.6))
    timeline.attached(device: 2, through: 0, at: at(14.6))
    timeline.attached(device: 3, through: 1, at: at(17))
    #expect(timeline.mayComeLate(to: 1, at: at(14.6)))
    #expect(timeline.disturbed(.device(1), from: at(5), to: at(9)) == nil)
    #expect(!timeline.mayComeLate(to: 2, at: at(14.6)))
    #expect(!timeline.mayComeLate(to: 3, at: at(17)))
    var killed = ChaosFault.test(2, .killEdge, shards: [])
    killed.edges = [0]
    timeline.begin(killed, carried: [], at: at(20))
    timeline.attached(device: 2, through: 0, at: at(21))
    #expect(!timeline.mayComeLate(to: 2, at: at(21)))
  }

  @Test("a device whose session begins as its edge is stopped waits until the edge goes on")
  func stoppedAtTheBeginning() {
    var timeline = FaultTimeline.quiet()
    var frozen = ChaosFault.test(1, .freezeEdge, shards: [])
    frozen.edges = [1]
    timeline.begin(frozen, carried: [], at: at(10))
    for device in 1...2 { timeline.attached(device: device, through: 1, at: at(10.05)) }
    timeline.attached(device: 2, through: 0, at: at(12))
    timeline.lifted(fault: 1, at: at(17))
    #expect(timeline.mayComeLate(to: 1, at: at(17.1)))
    #expect(!timeline.mayComeLate(to: 1, at: at(22)))
    #expect(!timeline.mayComeLate(to: 2, at: at(17.1)), "another edge has it")
  }

  @Test("a shard that came to a node just before it was killed is excused from the kill on")
  func shardThatCame() {
    var timeline = FaultTimeline.quiet()
    func excused(_ due: Double) -> Timestamp {
      timeline.excuse(shards: [4], device: 0, due: at(due), slack: .seconds(1))
    }
    let killed = ChaosFault.test(1, .killCoordinator, shards: [3])
    timeline.begin(killed, carried: [], at: at(10))
    #expect(excused(10.1) == at(10.1))
    timeline.widen(killed, by: [3, 4], since: at(10))
    #expect(excused(10.1) == .distantFuture)
    timeline.answered(shard: 3, fault: 1, at: at(11))
    timeline.answered(shard: 4, fault: 1, at: at(12))
    #expect(excused(10.1) == at(12))
    #expect(timeline.disturbed(.shard(3), from: at(13), to: at(14)) == nil)
    // It answered, and was handed to the dead node again.
    timeline.widen(killed, by: [4], since: at(14))
    #expect(excused(12.5) == at(12.5))
    #expect(excused(14.5) == .distantFuture)
    timeline.answered(shard: 4, fault: 1, at: at(16))
    #expect(excused(14.5) == at(16))
  }

  @Test(
    "what waited in a frozen edge may come late, also where another fault befell the device first")
  func twoFaultsOfADevice() {
    var timeline = FaultTimeline.quiet()
    var killed = ChaosFault.test(1, .killEdge, shards: [])
    killed.edges = [0]
    timeline.begin(killed, carried: [1], at: at(10))
    timeline.attached(device: 1, through: 1, at: at(10.5))
    var frozen = ChaosFault.test(2, .freezeEdge, shards: [])
    frozen.edges = [1]
    timeline.begin(frozen, carried: [1], at: at(11))
    #expect(timeline.disturbed(.device(1), from: at(11.5), to: at(11.5))?.kind == .killEdge)
    #expect(timeline.mayComeLate(to: 1, at: at(11.5)))
    timeline.lifted(fault: 2, at: at(15))
    #expect(timeline.mayComeLate(to: 1, at: at(15.1)))
    #expect(!timeline.mayComeLate(to: 1, at: at(20)))
    #expect(!timeline.mayComeLate(to: 1, at: at(10.2)))
  }

  @Test("old words of a frozen owner are excused when it wakes, and not for ever")
  func stale() {
    var timeline = FaultTimeline.quiet()
    timeline.begin(ChaosFault.test(1, .freezeCoordinator, shards: [3]), carried: [], at: at(10))
    timeline.answered(shard: 3, fault: 1, at: at(13))
    #expect(timeline.mayBeStale(shard: 3, at: at(14)))
    #expect(!timeline.mayBeStale(shard: 4, at: at(14)))
    timeline.lifted(fault: 1, at: at(15))
    #expect(timeline.mayBeStale(shard: 3, at: at(16)))
    #expect(!timeline.mayBeStale(shard: 3, at: at(19)))
    timeline.begin(ChaosFault.test(2, .killCoordinator, shards: [3]), carried: [], at: at(30))
    #expect(!timeline.mayBeStale(shard: 3, at: at(31)))
  }
}

extension FaultTimeline {
  /// Without faults, for ten users with three devices each and twelve shards.
  static func quiet() -> FaultTimeline {
    FaultTimeline(roster: Roster(devices: 30, devicesPerUser: 3), app: "load", shardCount: 12)
  }
}

extension ChaosFault {
  static func test(_ id: Int, _ kind: ChaosKind, shards: [Int]) -> ChaosFault {
    ChaosFault(id: id, kind: kind, node: "n", role: .coordinator, shards: shards)
  }
}

/// A time in seconds from the beginning.
func at(_ seconds: Double) -> Timestamp {
  Timestamp(microseconds: Int64(seconds * 1_000_000))
}
