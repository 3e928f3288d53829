import CallBus
import Testing

/// The rules of a work queue that `BusContract` does not hold, on values.
@Suite struct WorkQueueMachineTests {
  private static let start = ContinuousClock.now

  /// A queue; its lane is `a` where nothing else is said. Expressions of `#expect` change no values, so it is an object.
  private final class Lanes {
    var machine: WorkQueueMachine

    init(_ change: (inout WorkQueueOptions) -> Void = { _ in }) {
      var options = WorkQueueOptions()
      options.settleWithin = .seconds(5)
      options.maxAge = .seconds(100)
      options.duplicateWindow = .seconds(50)
      change(&options)
      machine = WorkQueueMachine(options)
    }

    func at(_ seconds: Double) -> ContinuousClock.Instant {
      WorkQueueMachineTests.start + .milliseconds(Int(seconds * 1000))
    }

    @discardableResult
    func add(_ id: String, _ byte: UInt8 = 1, lane: String = "a", at seconds: Double = 0)
      -> AppendResult
    {
      machine.add(lane: lane, id: id, [byte], now: at(seconds))
    }

    /// Jobs of which each has its number.
    func add(_ numbers: Range<UInt8>) { for number in numbers { add("\(number)", number) } }

    @discardableResult
    func taker(_ inFlight: Int, lane: String = "a") -> Int {
      machine.addTaker(lane: lane, inFlight: inFlight)
    }

    func handOut(_ seconds: Double = 0) -> [WorkQueueMachine.Handout] {
      machine.handOut(now: at(seconds))
    }

    func settle(
      _ handout: WorkQueueMachine.Handout, _ settlement: WorkSettlement, at seconds: Double = 0
    ) {
      machine.settle(handout, settlement, now: at(seconds))
    }

    var depth: Int { machine.depth(lane: "a") }
  }

  @Test func aTakerHasNoMoreThanItMay() {
    let lanes = Lanes()
    lanes.taker(2)
    lanes.add(0..<5)
    let first = lanes.handOut()
    #expect(first.map(\.bytes) == [[0], [1]] && lanes.depth == 5)
    lanes.settle(first[1], .done)
    let second = lanes.handOut()
    #expect(second.map(\.bytes) == [[2]])
    // `working` keeps its place taken, `again` frees it.
    lanes.settle(second[0], .inProgress)
    #expect(lanes.handOut().isEmpty)
    lanes.settle(second[0], .retry(after: .seconds(60)))
    #expect(lanes.handOut().map(\.bytes) == [[3]])
  }

  @Test func takersTakeTurns() {
    let lanes = Lanes()
    let takers = (0..<3).map { _ in lanes.taker(2) }
    lanes.taker(2, lane: "b")
    lanes.add(0..<9)
    #expect(lanes.handOut().map(\.taker) == takers + takers)
  }

  @Test func whatIsNotSettledIsHandedOutAgain() {
    let lanes = Lanes()
    let dead = lanes.taker(1)
    lanes.add("x")
    let first = lanes.handOut()
    lanes.machine.removeTaker(dead, lane: "a")
    let next = lanes.taker(1)
    #expect(lanes.handOut(4.9).isEmpty)
    let second = lanes.handOut(5)
    #expect(second.map(\.attempt) == [2])
    #expect(second.map(\.taker) == [next])
    // The dead one's word counts where it says that the job is done, and nowhere else.
    lanes.settle(first[0], .retry(after: .zero), at: 5)
    #expect(lanes.handOut(5).isEmpty)
    lanes.settle(first[0], .inProgress, at: 9)
    #expect(lanes.handOut(10).map(\.attempt) == [3])
    lanes.settle(first[0], .done, at: 10)
    #expect(lanes.depth == 0)
    // Its successor is free for another job.
    lanes.add("y", 2, at: 10)
    #expect(lanes.handOut(10).map(\.bytes) == [[2]])
  }

  @Test func aPauseIsKept() {
    let lanes = Lanes()
    lanes.taker(1)
    lanes.add("x")
    lanes.settle(lanes.handOut()[0], .retry(after: .seconds(2)), at: 1)
    #expect(lanes.machine.nextDeadline == lanes.at(3))
    #expect(lanes.handOut(2.9).isEmpty)
    let second = lanes.handOut(3)
    #expect(second.map(\.attempt) == [2])
    lanes.settle(second[0], .retry(after: .zero), at: 3)
    #expect(lanes.handOut(3).map(\.attempt) == [3])
  }

  @Test func anIdCountsOnceWithinItsWindow() {
    let lanes = Lanes()
    lanes.taker(9)
    #expect(lanes.add("x") == .appended(sequence: 1))
    #expect(lanes.add("x", at: 1) == .appended(sequence: 1))
    let out = lanes.handOut(1)
    #expect(out.count == 1)
    lanes.settle(out[0], .done, at: 1)
    // Also when it is done.
    #expect(lanes.add("x", at: 49) == .appended(sequence: 1))
    #expect(lanes.handOut(49).isEmpty)
    #expect(lanes.add("x", at: 50) == .appended(sequence: 2))
    #expect(lanes.handOut(50).count == 1)
  }

  @Test func theOldGoUnseen() {
    let lanes = Lanes { $0.maxJobs = 1 }
    lanes.add("1")
    #expect(lanes.add("2", 2, at: 99) == .refused)
    #expect(lanes.add("2", 2, at: 100) != .refused)
    lanes.taker(9)
    #expect(lanes.handOut(100).map(\.bytes) == [[2]])
    #expect(lanes.depth == 1)
  }

  @Test func noMoreThanTheMaximumIsUnsettled() {
    let lanes = Lanes { $0.maxUnsettled = 3 }
    for _ in 0..<2 { lanes.taker(9) }
    lanes.add(0..<5)
    let out = lanes.handOut()
    #expect(out.count == 3)
    lanes.settle(out[0], .done)
    #expect(lanes.handOut().count == 1)
  }

  /// Random takers, deaths and settlements: every job is done once it was added, none is lost, none
  /// comes behind its end.
  @Test(arguments: 0..<20) func nothingIsLost(seed: UInt64) throws {
    var random = Steps(state: seed &* 0x9e37_79b9_7f4a_7c15 &+ 1)
    let lanes = Lanes { $0.maxAge = .seconds(100_000) }
    var takers: [Int] = []
    var held: [WorkQueueMachine.Handout] = []
    var added = Set<UInt64>()
    var done = Set<UInt64>()
    var now = 0.0
    for step in 0..<3000 {
      now += Double(random.below(100)) / 100
      switch random.below(10) {
      case 0...3:
        guard case .appended(let sequence) = lanes.add("\(step)", at: now) else {
          throw BusError.failed("not added")
        }
        added.insert(sequence)
      case 4: if takers.count < 4 { takers.append(lanes.taker(5)) }
      case 5:
        if let taker = takers.popLast() {
          lanes.machine.removeTaker(taker, lane: "a")
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
        lanes.settle(handout, settlement, at: now)
      default: break
      }
      let out = lanes.handOut(now)
      for handout in out { #expect(!done.contains(handout.sequence)) }
      held += out
    }
    // Whatever became of the takers: a new one gets all that is left.
    for taker in takers { lanes.machine.removeTaker(taker, lane: "a") }
    lanes.taker(10_000)
    for handout in lanes.handOut(now + 6) {
      #expect(!done.contains(handout.sequence))
      done.insert(handout.sequence)
      lanes.settle(handout, .done, at: now + 6)
    }
    #expect(done == added)
    #expect(lanes.depth == 0)
  }

  private struct Steps {
    var state: UInt64
    mutating func below(_ bound: Int) -> Int {
      state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
      return Int((state >> 33) % UInt64(bound))
    }
  }
}
