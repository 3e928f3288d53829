import CallBus
import Testing

/// The rules of a work queue, on values.
@Suite struct WorkQueueMachineTests {
  static let start = ContinuousClock.now
  static func at(_ seconds: Double) -> ContinuousClock.Instant {
    start + .milliseconds(Int(seconds * 1000))
  }

  static func options(_ change: (inout WorkQueueOptions) -> Void = { _ in }) -> WorkQueueOptions {
    var options = WorkQueueOptions()
    options.settleWithin = .seconds(5)
    options.maxAge = .seconds(100)
    options.duplicateWindow = .seconds(50)
    change(&options)
    return options
  }

  @Test func handsJobsOutInTheirOrder() {
    var lanes = WorkQueueMachine(Self.options())
    let taker = lanes.addTaker(lane: "a", inFlight: 10)
    for number in UInt8(0)..<4 {
      #expect(
        lanes.add(lane: "a", id: "\(number)", [number], now: Self.at(0))
          == .appended(sequence: UInt64(number) + 1))
    }
    let out = lanes.handOut(now: Self.at(0))
    #expect(out.map(\.bytes) == [[0], [1], [2], [3]])
    #expect(out.allSatisfy { $0.taker == taker && $0.attempt == 1 && $0.lane == "a" })
    #expect(lanes.handOut(now: Self.at(1)).isEmpty)
    #expect(lanes.depth(lane: "a") == 4)
    for handout in out { lanes.settle(handout, .done, now: Self.at(1)) }
    #expect(lanes.depth(lane: "a") == 0)
    #expect(lanes.handOut(now: Self.at(90)).isEmpty)
  }

  @Test func aTakerHasNoMoreThanItMay() {
    var lanes = WorkQueueMachine(Self.options())
    _ = lanes.addTaker(lane: "a", inFlight: 2)
    for number in UInt8(0)..<5 {
      _ = lanes.add(lane: "a", id: "\(number)", [number], now: Self.at(0))
    }
    let first = lanes.handOut(now: Self.at(0))
    #expect(first.count == 2)
    lanes.settle(first[1], .done, now: Self.at(0))
    let second = lanes.handOut(now: Self.at(0))
    #expect(second.map(\.bytes) == [[2]])
    // `working` keeps its place taken, `again` frees it.
    lanes.settle(second[0], .inProgress, now: Self.at(0))
    #expect(lanes.handOut(now: Self.at(0)).isEmpty)
    lanes.settle(second[0], .retry(after: .seconds(60)), now: Self.at(0))
    #expect(lanes.handOut(now: Self.at(0)).map(\.bytes) == [[3]])
  }

  @Test func takersTakeTurns() {
    var lanes = WorkQueueMachine(Self.options())
    let takers = (0..<3).map { _ in lanes.addTaker(lane: "a", inFlight: 2) }
    let other = lanes.addTaker(lane: "b", inFlight: 2)
    for number in UInt8(0)..<9 {
      _ = lanes.add(lane: "a", id: "\(number)", [number], now: Self.at(0))
    }
    let out = lanes.handOut(now: Self.at(0))
    #expect(out.map(\.taker) == takers + takers)
    #expect(!out.contains { $0.taker == other })
  }

  @Test func whatIsNotSettledIsHandedOutAgain() {
    var lanes = WorkQueueMachine(Self.options())
    let dead = lanes.addTaker(lane: "a", inFlight: 1)
    _ = lanes.add(lane: "a", id: "x", [1], now: Self.at(0))
    let first = lanes.handOut(now: Self.at(0))
    lanes.removeTaker(dead, lane: "a")
    let next = lanes.addTaker(lane: "a", inFlight: 1)
    #expect(lanes.handOut(now: Self.at(4.9)).isEmpty)
    let second = lanes.handOut(now: Self.at(5))
    #expect(second.map(\.attempt) == [2])
    #expect(second.map(\.taker) == [next])
    // The dead one's word counts where it says that the job is done, and nowhere else.
    lanes.settle(first[0], .retry(after: .zero), now: Self.at(5))
    #expect(lanes.handOut(now: Self.at(5)).isEmpty)
    lanes.settle(first[0], .inProgress, now: Self.at(9))
    #expect(lanes.handOut(now: Self.at(10)).map(\.attempt) == [3])
    lanes.settle(first[0], .done, now: Self.at(10))
    #expect(lanes.depth(lane: "a") == 0)
    // Its successor is free for another job.
    _ = lanes.add(lane: "a", id: "y", [2], now: Self.at(10))
    #expect(lanes.handOut(now: Self.at(10)).map(\.bytes) == [[2]])
  }

  @Test func workingBuysTime() {
    var lanes = WorkQueueMachine(Self.options())
    _ = lanes.addTaker(lane: "a", inFlight: 1)
    _ = lanes.add(lane: "a", id: "x", [1], now: Self.at(0))
    let out = lanes.handOut(now: Self.at(0))
    for second in 1...20 {
      lanes.settle(out[0], .inProgress, now: Self.at(Double(second)))
      #expect(lanes.handOut(now: Self.at(Double(second))).isEmpty)
    }
    #expect(lanes.handOut(now: Self.at(24.9)).isEmpty)
    #expect(lanes.handOut(now: Self.at(25)).map(\.attempt) == [2])
  }

  @Test func aPauseIsKept() {
    var lanes = WorkQueueMachine(Self.options())
    _ = lanes.addTaker(lane: "a", inFlight: 1)
    _ = lanes.add(lane: "a", id: "x", [1], now: Self.at(0))
    lanes.settle(lanes.handOut(now: Self.at(0))[0], .retry(after: .seconds(2)), now: Self.at(1))
    #expect(lanes.nextDeadline == Self.at(3))
    #expect(lanes.handOut(now: Self.at(2.9)).isEmpty)
    let second = lanes.handOut(now: Self.at(3))
    #expect(second.map(\.attempt) == [2])
    lanes.settle(second[0], .retry(after: .zero), now: Self.at(3))
    #expect(lanes.handOut(now: Self.at(3)).map(\.attempt) == [3])
  }

  @Test func anIdCountsOnceWithinItsWindow() {
    var lanes = WorkQueueMachine(Self.options())
    _ = lanes.addTaker(lane: "a", inFlight: 9)
    #expect(lanes.add(lane: "a", id: "x", [1], now: Self.at(0)) == .appended(sequence: 1))
    #expect(lanes.add(lane: "a", id: "x", [1], now: Self.at(1)) == .appended(sequence: 1))
    let out = lanes.handOut(now: Self.at(1))
    #expect(out.count == 1)
    lanes.settle(out[0], .done, now: Self.at(1))
    // Also when it is done.
    #expect(lanes.add(lane: "a", id: "x", [1], now: Self.at(49)) == .appended(sequence: 1))
    #expect(lanes.handOut(now: Self.at(49)).isEmpty)
    #expect(lanes.add(lane: "a", id: "x", [1], now: Self.at(50)) == .appended(sequence: 2))
    #expect(lanes.handOut(now: Self.at(50)).count == 1)
  }

  @Test func aFullQueueRefuses() {
    var lanes = WorkQueueMachine(
      Self.options {
        $0.maxJobs = 3
        $0.maxJobsPerLane = 2
      })
    #expect(lanes.add(lane: "a", id: "1", [1], now: Self.at(0)) != .refused)
    #expect(lanes.add(lane: "a", id: "2", [2], now: Self.at(0)) != .refused)
    #expect(lanes.add(lane: "a", id: "3", [3], now: Self.at(0)) == .refused)
    #expect(lanes.add(lane: "b", id: "4", [4], now: Self.at(0)) != .refused)
    #expect(lanes.add(lane: "b", id: "5", [5], now: Self.at(0)) == .refused)
    // A job that was refused may be tried again under its id.
    _ = lanes.addTaker(lane: "a", inFlight: 1)
    lanes.settle(lanes.handOut(now: Self.at(0))[0], .done, now: Self.at(0))
    #expect(lanes.add(lane: "a", id: "3", [3], now: Self.at(0)) != .refused)
  }

  @Test func theOldGoUnseen() {
    var lanes = WorkQueueMachine(Self.options { $0.maxJobs = 1 })
    _ = lanes.add(lane: "a", id: "1", [1], now: Self.at(0))
    #expect(lanes.add(lane: "a", id: "2", [2], now: Self.at(99)) == .refused)
    #expect(lanes.add(lane: "a", id: "2", [2], now: Self.at(100)) != .refused)
    _ = lanes.addTaker(lane: "a", inFlight: 9)
    #expect(lanes.handOut(now: Self.at(100)).map(\.bytes) == [[2]])
    #expect(lanes.depth(lane: "a") == 1)
  }

  @Test func noMoreThanTheMaximumIsUnsettled() {
    var lanes = WorkQueueMachine(Self.options { $0.maxUnsettled = 3 })
    for _ in 0..<2 { _ = lanes.addTaker(lane: "a", inFlight: 9) }
    for number in UInt8(0)..<5 {
      _ = lanes.add(lane: "a", id: "\(number)", [number], now: Self.at(0))
    }
    let out = lanes.handOut(now: Self.at(0))
    #expect(out.count == 3)
    lanes.settle(out[0], .done, now: Self.at(0))
    #expect(lanes.handOut(now: Self.at(0)).count == 1)
  }

  /// Random takers, deaths and settlements: every job is done once it was added, none is lost, none
  /// comes behind its end.
  @Test(arguments: 0..<20) func nothingIsLost(seed: UInt64) throws {
    var random = Steps(state: seed &* 0x9e37_79b9_7f4a_7c15 &+ 1)
    var lanes = WorkQueueMachine(Self.options { $0.maxAge = .seconds(100_000) })
    var takers: [Int] = []
    var held: [WorkQueueMachine.Handout] = []
    var added = Set<UInt64>()
    var done = Set<UInt64>()
    var now = 0.0
    for step in 0..<3000 {
      now += Double(random.below(100)) / 100
      switch random.below(10) {
      case 0...3:
        guard
          case .appended(let sequence) = lanes.add(
            lane: "a", id: "\(step)", [], now: Self.at(now))
        else { throw BusError.failed("not added") }
        added.insert(sequence)
      case 4: if takers.count < 4 { takers.append(lanes.addTaker(lane: "a", inFlight: 5)) }
      case 5:
        if let taker = takers.popLast() {
          lanes.removeTaker(taker, lane: "a")
          held.removeAll { $0.taker == taker && random.below(2) == 0 }
        }
      case 6...8:
        guard !held.isEmpty else { break }
        let handout = held.remove(at: random.below(held.count))
        let settlements: [WorkSettlement] = [
          .done, .done, .retry(after: .zero), .retry(after: .seconds(3)), .inProgress,
        ]
        let settlement = settlements[random.below(settlements.count)]
        if settlement == .done { done.insert(handout.sequence) }
        lanes.settle(handout, settlement, now: Self.at(now))
      default: break
      }
      let out = lanes.handOut(now: Self.at(now))
      for handout in out { #expect(!done.contains(handout.sequence)) }
      held += out
    }
    // Whatever became of the takers: a new one gets all that is left.
    for taker in takers { lanes.removeTaker(taker, lane: "a") }
    _ = lanes.addTaker(lane: "a", inFlight: 10_000)
    for handout in lanes.handOut(now: Self.at(now + 6)) {
      #expect(!done.contains(handout.sequence))
      done.insert(handout.sequence)
      lanes.settle(handout, .done, now: Self.at(now + 6))
    }
    #expect(done == added)
    #expect(lanes.depth(lane: "a") == 0)
  }

  private struct Steps {
    var state: UInt64
    mutating func below(_ bound: Int) -> Int {
      state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
      return Int((state >> 33) % UInt64(bound))
    }
  }
}
