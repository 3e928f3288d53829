import CallBus
import CallProcesses
import Glibc
import NATSBus
import Testing

/// Taking jobs from a queue whose server does not answer.
@Suite(.timeLimit(.minutes(2)))
struct PullConsumerTests {
  private func take(_ queue: some WorkQueue) async -> Result<Void, any Error> {
    do {
      _ = try await queue.consume(lane: "one", inFlight: 1) { _ in }
      return .success(())
    } catch {
      return .failure(error)
    }
  }

  /// Stops a server's process, and waits until it stands still.
  private func stop(_ server: NATSServerProcess) throws {
    let process = try #require(server.processID)
    kill(process, SIGSTOP)
    var information = siginfo_t()
    try #require(waitid(P_PID, id_t(process), &information, WSTOPPED | WNOWAIT) == 0)
  }

  /// A taker learns it when the connection breaks: it does not wait for the next.
  @Test func anAttemptEndsWithItsConnection() async throws {
    let server = try await NATSServerProcess.start()
    defer { server.stop() }
    let bus = try await NATSBus.test(server.url)
    let queue = try await bus.openWorkQueue(WorkQueueOptions())
    try stop(server)
    let before = bus.statistics.messagesOut
    let result = await withTaskGroup(of: Result<Void, any Error>.self) { group in
      group.addTask { await take(queue) }
      // The question is on its way, and nobody answers it.
      while bus.statistics.messagesOut == before { await Task.yield() }
      server.kill()
      return await group.next()
    }
    guard case .failure(let error as BusError)? = result else {
      Issue.record("\(String(describing: result))")
      return
    }
    #expect(error.isTransient)
    try await server.relaunch()
    // The same queue serves as before.
    let seen = Inbox<WorkItem>(capacity: 10)
    let retry = StoreRetryPolicy(clock: ClusterClock(wallMicroseconds: 0)) { _ in }
    let taker = try await retry {
      try await queue.consume(lane: "one", inFlight: 1) { seen.offer($0) }
    }
    let contract = BusContract(bus: bus, other: bus)
    #expect(contract.isAppended(await queue.add("one", "job", [1])))
    #expect(await contract.collect(1, from: seen).map(\.bytes) == [[1]])
    taker.cancel()
    await bus.close()
  }
}

/// How many jobs a taker asks for.
@Suite struct PullCreditTests {
  private let start = ContinuousClock.now
  private func at(_ seconds: Int) -> ContinuousClock.Instant { start + .seconds(seconds) }

  /// A taker. Expressions of `#expect` change no values, so it is an object.
  private final class Taker {
    var credit: PullCredit
    init(_ inFlight: Int) {
      credit = PullCredit(inFlight: inFlight, silence: .seconds(12), settleWithin: .seconds(6))
    }

    /// The question that it asks now; nil: none.
    func pull(_ now: ContinuousClock.Instant) -> (number: UInt64, batch: Int)? {
      credit.pull(now: now, lasts: .seconds(30))
    }
    func settled(_ item: UInt64) -> Bool { credit.settled(item) }
    func inProgress(_ item: UInt64, _ now: ContinuousClock.Instant) -> Bool {
      credit.inProgress(item, now: now)
    }
  }

  @Test func asksForAllThereIsRoomForOnce() {
    let taker = Taker(3)
    let first = taker.pull(at(0))
    #expect(first?.batch == 3)
    #expect(taker.pull(at(0)) == nil)
    let items = (0..<3).map { _ in taker.credit.arrived(now: at(1)) }
    #expect(taker.pull(at(1)) == nil, "no room")
    #expect(taker.settled(items[1]))
    #expect(!taker.settled(items[1]))
    let second = taker.pull(at(1))
    #expect(second?.batch == 1 && second?.number != first?.number)
  }

  @Test func whatIsWithUsAndWhatIsAskedForNeverExceedsTheLimit() {
    let taker = Taker(4)
    _ = taker.pull(at(0))
    _ = taker.settled(taker.credit.arrived(now: at(0)))
    // Three may still come for the question that stands.
    #expect(taker.pull(at(0)) == nil)
    for _ in 0..<3 { _ = taker.credit.arrived(now: at(0)) }
    #expect(taker.pull(at(0))?.batch == 1)
  }

  @Test func aQuestionOfWhichNothingIsHeardIsAskedAgain() throws {
    let taker = Taker(4)
    let first = try #require(taker.pull(at(0))).number
    taker.credit.extended(first, now: at(5))
    taker.credit.expire(now: at(16))
    #expect(taker.pull(at(16)) == nil)
    #expect(taker.credit.deadline == at(17))
    taker.credit.expire(now: at(17))
    #expect(taker.pull(at(17))?.batch == 4)
    // The end of the former question does not end the new one.
    taker.credit.ended(first)
    taker.credit.extended(first, now: at(17))
    #expect(taker.pull(at(17)) == nil)
  }

  @Test func aQuestionDoesNotOutliveItsEndByMuch() throws {
    let taker = Taker(4)
    let number = try #require(taker.pull(at(0))).number
    for second in 1...41 {
      taker.credit.extended(number, now: at(second))
      taker.credit.expire(now: at(second))
    }
    #expect(taker.pull(at(41)) == nil)
    taker.credit.expire(now: at(42))
    #expect(taker.pull(at(42)) != nil)
  }

  @Test func whatWasNeverSettledIsSomebodyElsesInTheEnd() {
    let taker = Taker(2)
    _ = taker.pull(at(0))
    let (first, second) = (taker.credit.arrived(now: at(0)), taker.credit.arrived(now: at(0)))
    #expect(taker.inProgress(first, at(5)))
    taker.credit.expire(now: at(6))
    #expect(!taker.settled(second), "handed out to another")
    #expect(!taker.inProgress(second, at(6)))
    #expect(taker.pull(at(6))?.batch == 1)
    #expect(taker.settled(first))
  }

  @Test func aBrokenConnectionEndsTheQuestionAndKeepsTheJobs() {
    let taker = Taker(3)
    _ = taker.pull(at(0))
    let item = taker.credit.arrived(now: at(0))
    taker.credit.forgetPull()
    #expect(taker.pull(at(1))?.batch == 2)
    #expect(taker.settled(item))
  }
}
