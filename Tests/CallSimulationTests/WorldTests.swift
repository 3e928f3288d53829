import CallBus
import CallCore
import CallSimulation
import Testing

@Suite struct WorldTests {
  @Test func whatHasTheSameTimeHappensInOrder() {
    let world = SimWorld(seed: 1)
    var seen: [Int] = []
    world.schedule(after: .milliseconds(2)) { seen.append(3) }
    world.schedule(after: .milliseconds(1)) { seen.append(1) }
    world.schedule(after: .milliseconds(1)) { seen.append(2) }
    let cancelled = world.schedule(after: .milliseconds(1)) { seen.append(9) }
    cancelled.cancel()
    cancelled.cancel()
    world.run(until: SimWorld.beginning + .milliseconds(1))
    #expect(seen == [1, 2])
    world.run(for: .milliseconds(1))
    #expect(seen == [1, 2, 3])
    #expect(world.elapsed == .milliseconds(2))
  }

  @Test func manyEventsComeInOrder() {
    let world = SimWorld(seed: 2)
    var random = world.fork("test")
    var last = world.now
    var count = 0
    for _ in 0..<5000 {
      let token = world.schedule(after: .milliseconds(Int64(random.below(1000)))) {
        #expect(world.now >= last)
        last = world.now
        count += 1
      }
      if random.chance(0.2) {
        token.cancel()
        count += 1
      }
    }
    world.run(for: .seconds(2))
    #expect(count == 5000)
  }

  @Test func forksDoNotDisturbEachOther() {
    var first = SimWorld(seed: 7).fork("a")
    var second = SimWorld(seed: 7).fork("a")
    var other = SimWorld(seed: 7).fork("b")
    let numbers = (0..<10).map { _ in first.next() }
    #expect(numbers == (0..<10).map { _ in second.next() })
    #expect(numbers != (0..<10).map { _ in other.next() })
    for _ in 0..<1000 { #expect((3...9).contains(first.number(3...9))) }
    let mean = (0..<10_000).reduce(0.0) { sum, _ in
      sum + Double(first.exponential(mean: .milliseconds(100)).microseconds)
    }
    #expect(abs(mean / 10_000 - 100_000) < 5000)
  }

  @Test func theTraceOfACallTellsWhatBefellNodesMeanwhile() throws {
    let trace = SimTrace(isOn: true)
    let world = SimWorld(seed: 5, trace: trace)
    let call = CallID(high: 1, low: 2)
    world.incident("c1", "starts")
    world.note("u1/d1", call: call, "rings")
    world.note("u1/d1", "registers")
    world.incident("c1", "crashes")
    world.note("journal 3", call: call, "c1 writes placed")
    world.incident("journal 3", "c2 takes it over")
    world.incident("journal 4", "c2 takes it over")
    world.incident("u1/d1", "sleeps")
    world.incident("u2/d1", "sleeps")
    world.note("u2/d1", call: CallID(high: 3, low: 4), "rings")
    world.stop("two winners", call: call)
    world.incident("c1", "starts")
    let texts = trace.lines(of: call, context: true).map { "\($0.node): \($0.text)" }
    #expect(
      texts == [
        "u1/d1: rings", "c1: crashes", "journal 3: c1 writes placed",
        "journal 3: c2 takes it over", "u1/d1: sleeps", "world: STOP: two winners",
      ])
    var failure = try #require(world.failure)
    let story = trace.story(of: failure, linesMost: 4)
    #expect(story.count == 5 && story[0].hasSuffix("rings") && story[1].hasPrefix("… 2 lines"))
    #expect(story[4].hasSuffix("STOP: two winners"))
    failure.call = nil
    let last = trace.story(of: failure, linesMost: 2)
    #expect(last.count == 2 && last[0].hasSuffix("rings") && last[1].hasSuffix("two winners"))
  }

  private actor Counter {
    private nonisolated let executor: SimExecutor
    nonisolated var unownedExecutor: UnownedSerialExecutor { executor.asUnownedSerialExecutor() }
    var value = 0
    init(_ executor: SimExecutor) { self.executor = executor }
    func add() -> Int {
      value += 1
      return value
    }
  }

  private final class Log: @unchecked Sendable { var lines: [String] = [] }

  @Test func tasksWaitOnTheirNodesTime() {
    let world = SimWorld(seed: 3)
    let node = world.makeNode("n", skew: .seconds(2), drift: 100)
    let clock = node.clock()
    let log = Log()
    let counter = Counter(node.executor)
    let task = node.start {
      for _ in 0..<3 {
        await clock.sleep(for: .seconds(1))
        log.lines.append("\(await counter.add())")
      }
    }
    #expect((clock.now() - world.now) == .seconds(2))
    world.run(for: .milliseconds(2500))
    #expect(log.lines == ["1", "2"])
    node.freeze()
    world.run(for: .seconds(5))
    #expect(log.lines.count == 2)
    node.thaw()
    world.run(for: .milliseconds(1))
    #expect(log.lines == ["1", "2", "3"])
    task.cancel()
    world.run(for: .milliseconds(1))
    world.tearDown()
  }

  @Test func aDeadNodesTasksUnwindWithoutTime() {
    let world = SimWorld(seed: 4)
    let node = world.makeNode("n")
    let clock = node.clock()
    let log = Log()
    let task = node.start {
      await withTaskGroup(of: Void.self) { group in
        for _ in 0..<10 { group.addTask { await clock.sleep(for: .seconds(100)) } }
      }
      log.lines.append("ended")
    }
    world.run(for: .seconds(1))
    node.kill()
    task.cancel()
    world.runJobs()
    #expect(log.lines == ["ended"])
    #expect(world.elapsed == .seconds(1))
  }
}
