import CallBus
import Testing

/// The contract of every work queue.
extension BusContract {
  /// A short time by default: nothing hangs on how long it is, only on what comes after it.
  static func queueOptions(settleWithin: Duration = .milliseconds(400)) -> WorkQueueOptions {
    var options = WorkQueueOptions()
    options.settleWithin = settleWithin
    return options
  }

  func isAppended(_ result: AppendResult) -> Bool {
    if case .appended = result { true } else { false }
  }

  func handsOutEveryJobOnce() async throws {
    let options = Self.queueOptions(settleWithin: .seconds(30))
    let queue = try await bus.openWorkQueue(options)
    let others = try await other.openWorkQueue(options)
    let seen = Inbox<(taker: Int, item: WorkItem)>(capacity: 10_000)
    let first = try await queue.consume(lane: "one", inFlight: 50) { seen.offer((1, $0)) }
    let second = try await others.consume(lane: "one", inFlight: 50) { seen.offer((2, $0)) }
    let stranger = try await others.consume(lane: "two", inFlight: 50) { seen.offer((3, $0)) }
    let count = 1000
    let results = Inbox<AppendResult>(capacity: count)
    for number in 0..<count {
      queue.add(lane: "one", id: "job \(number)", [UInt8(number >> 8), UInt8(number & 255)]) {
        results.offer($0)
      }
    }
    #expect(await collect(count, from: results).allSatisfy(isAppended))
    var numbers: [Int] = []
    var takers = Set<Int>()
    while numbers.count < count {
      let batch = await seen.next(until: .now + .seconds(20))
      try #require(!batch.isEmpty, "the jobs stopped at \(numbers.count)")
      for (taker, item) in batch {
        numbers.append(Int(item.bytes[0]) << 8 | Int(item.bytes[1]))
        takers.insert(taker)
        #expect(item.attempt == 1)
        item.settle(.done)
      }
    }
    #expect(numbers.sorted() == Array(0..<count))
    #expect(takers == [1, 2])
    try await isEmpty(queue, "one")
    #expect(seen.depth == 0)
    for taker in [first, second, stranger] { taker.cancel() }
  }

  /// Settling is said without waiting for an answer.
  func isEmpty(_ queue: some WorkQueue, _ lane: String) async throws {
    let deadline = ContinuousClock.now + .seconds(20)
    while try await queue.depth(lane: lane) > 0 {
      try #require(.now < deadline, "jobs are left")
    }
  }

  func addsAnIdOnce() async throws {
    let options = Self.queueOptions(settleWithin: .seconds(30))
    let queue = try await bus.openWorkQueue(options)
    let others = try await other.openWorkQueue(options)
    #expect(isAppended(await queue.add("one", "x", [1])))
    #expect(isAppended(await others.add("one", "x", [1])))
    #expect(try await queue.depth(lane: "one") == 1)
    #expect(try await queue.depth(lane: "two") == 0)
    let seen = Inbox<WorkItem>(capacity: 10)
    let taker = try await queue.consume(lane: "one", inFlight: 5) { seen.offer($0) }
    let item = try #require(await collect(1, from: seen).first)
    #expect(item.bytes == [1])
    // Under way, it is still there; done, it is known all the same.
    #expect(try await queue.depth(lane: "one") == 1)
    item.settle(.done)
    try await isEmpty(queue, "one")
    #expect(isAppended(await queue.add("one", "x", [1])))
    #expect(isAppended(await queue.add("one", "y", [2])))
    #expect(await collect(1, from: seen).map(\.bytes) == [[2]])
    #expect(seen.depth == 0)
    taker.cancel()
  }

  func handsOutAgainWhatATakerLeft() async throws {
    let queue = try await bus.openWorkQueue(Self.queueOptions())
    let others = try await other.openWorkQueue(Self.queueOptions())
    let left = Inbox<WorkItem>(capacity: 10)
    let seen = Inbox<WorkItem>(capacity: 10)
    let dying = try await queue.consume(lane: "one", inFlight: 1) { left.offer($0) }
    _ = await others.add("one", "x", [7])
    let first = try #require(await collect(1, from: left).first)
    dying.cancel()
    let taker = try await others.consume(lane: "one", inFlight: 1) { seen.offer($0) }
    let again = try #require(await collect(1, from: seen).first)
    #expect(again.bytes == [7])
    // The one that is dying may have got it more than once.
    #expect(again.attempt > first.attempt)
    again.settle(.done)
    try await isEmpty(others, "one")
    taker.cancel()
  }

  func settlesAsItIsTold() async throws {
    let queue = try await bus.openWorkQueue(Self.queueOptions(settleWithin: .seconds(4)))
    let seen = Inbox<WorkItem>(capacity: 100)
    let taker = try await queue.consume(lane: "one", inFlight: 2) { seen.offer($0) }
    _ = await queue.add("one", "a", [1])
    var item = try #require(await collect(1, from: seen).first)
    item.settle(.retry(after: .milliseconds(1)))
    item = try #require(await collect(1, from: seen).first)
    #expect(item.attempt == 2)
    item.settle(.retry(after: .zero))
    item = try #require(await collect(1, from: seen).first)
    #expect(item.attempt == 3)
    // Longer than it may sit on it, with a word now and then: its neighbour, of which nothing is
    // said, comes again meanwhile.
    _ = await queue.add("one", "b", [2])
    var neighbours = 0
    let deadline = ContinuousClock.now + .seconds(60)
    while neighbours < 3 {
      try #require(.now < deadline, "what is not settled does not come again")
      item.settle(.inProgress)
      for other in await seen.next(until: .now + .milliseconds(20)) {
        #expect(other.bytes == [2], "handed out again while it was worked on")
        neighbours += 1
        if neighbours == 3 { other.settle(.done) }
      }
    }
    item.settle(.done)
    item.settle(.done)
    try await isEmpty(queue, "one")
    _ = await queue.add("one", "c", [3])
    #expect(await collect(1, from: seen).map(\.bytes) == [[3]])
    taker.cancel()
  }

  func givesNoMoreThanATakerMayHave() async throws {
    let queue = try await bus.openWorkQueue(Self.queueOptions(settleWithin: .seconds(30)))
    let seen = Inbox<WorkItem>(capacity: 100)
    let taker = try await queue.consume(lane: "one", inFlight: 3) { seen.offer($0) }
    for number in UInt8(0)..<10 { _ = await queue.add("one", "\(number)", [number]) }
    var held = await collect(3, from: seen)
    try #require(held.count == 3)
    // Answered behind what the queue would have handed out.
    #expect(try await queue.depth(lane: "one") == 10)
    #expect(seen.depth == 0)
    var numbers = held.map { $0.bytes[0] }
    while numbers.count < 10 {
      held.removeFirst().settle(.done)
      let next = await collect(1, from: seen)
      try #require(next.count == 1)
      numbers += next.map { $0.bytes[0] }
      held += next
      #expect(held.count <= 3)
    }
    #expect(numbers.sorted() == Array(0..<10))
    for item in held { item.settle(.done) }
    taker.cancel()
  }

  func refusesWhenFull() async throws {
    var options = Self.queueOptions()
    (options.maxJobs, options.maxJobsPerLane) = (5, 3)
    let queue = try await bus.openWorkQueue(options)
    for number in UInt8(0)..<3 {
      #expect(isAppended(await queue.add("one", "1.\(number)", [number])))
    }
    #expect(await queue.add("one", "1.3", [3]) == .refused)
    #expect(isAppended(await queue.add("two", "2.0", [0])))
    #expect(isAppended(await queue.add("two", "2.1", [1])))
    #expect(await queue.add("two", "2.2", [2]) == .refused)
    // Where a job went there is room again, for the same id as well.
    let seen = Inbox<WorkItem>(capacity: 10)
    let taker = try await queue.consume(lane: "one", inFlight: 5) { seen.offer($0) }
    for item in await collect(3, from: seen) { item.settle(.done) }
    try await isEmpty(queue, "one")
    #expect(isAppended(await queue.add("one", "1.3", [3])))
    #expect(await collect(1, from: seen).map(\.bytes) == [[3]])
    taker.cancel()
  }

  func namesOfLanesAreChecked() async throws {
    let queue = try await bus.openWorkQueue(Self.queueOptions())
    for lane in ["", "a.b", "*", ">", "a b", String(repeating: "x", count: 65)] {
      #expect(await queue.add(lane, "x", [1]).doubt != nil, "\(lane)")
      await #expect(throws: BusError.self) {
        _ = try await queue.consume(lane: lane, inFlight: 1) { _ in }
      }
    }
  }
}
