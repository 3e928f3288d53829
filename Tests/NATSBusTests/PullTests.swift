import CallBus
import CallProcesses
import Glibc
import NATSBus
import Synchronization
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

/// A taker's requests for its consumer, which stay without an answer while a leader is dead.
@Suite(.timeLimit(.minutes(2)))
struct PullConsumerRequestTests {
  /// A server with a queue. Its consumer is gone when the first pull request comes.
  private final class Script: Sendable {
    private struct State {
      var wire = FalseProtocol()
      var creations = 0
      var pulls = 0
    }
    private final class Arc: Sendable { let state = Mutex(State()) }
    private let arc: Arc
    let server: FalseServer
    /// Gets an element for each pull request.
    let pulls: Inbox<Int>

    /// - Parameter unanswered: these requests for the consumer, counted from 1, get no answer.
    init(unanswered: Set<Int>) throws {
      let (arc, pulls) = (Arc(), Inbox<Int>(capacity: 100))
      (self.arc, self.pulls) = (arc, pulls)
      server = try FalseServer { unread in
        arc.state.withLock { Self.serve(&unread, unanswered, pulls, &$0) }
      }
    }

    /// How often the consumer was asked for.
    var creations: Int { arc.state.withLock { $0.creations } }

    private static func serve(
      _ unread: inout [UInt8], _ unanswered: Set<Int>, _ pulls: Inbox<Int>, _ state: inout State
    ) -> [UInt8] {
      let (said, requests) = state.wire.read(&unread)
      let answers = requests.map { answer(to: $0, unanswered, pulls, &state) }
      return Array((said + answers.joined()).utf8)
    }

    private static func answer(
      to request: FalseProtocol.Request, _ unanswered: Set<Int>, _ pulls: Inbox<Int>,
      _ state: inout State
    ) -> String {
      if request.subject.hasPrefix("$JS.API.CONSUMER.MSG.NEXT.") {
        state.pulls += 1
        pulls.offer(state.pulls)
        guard state.pulls == 1 else { return "" }
        return state.wire.status(["NATS/1.0 409 Consumer Deleted"], to: request.reply)
      }
      if request.subject.hasPrefix("$JS.API.CONSUMER.DURABLE.CREATE.") {
        state.creations += 1
        if unanswered.contains(state.creations) { return "" }
      }
      return state.wire.message("{}", subject: request.reply, to: request.reply)
    }
  }

  private func queue(_ script: Script, _ options: NATSOptions) async throws -> some WorkQueue {
    let bus = try await NATSBus.connect(url: script.server.url, name: "test", options: options)
    var existing = WorkQueueOptions()
    existing.createsMissing = false
    return try await bus.openWorkQueue(existing)
  }

  /// The next leader may be there soon, so it does not wait for `managementTimeout`.
  @Test func aRunningTakerRepeatsOneThatIsNotAnsweredSoon() async throws {
    let script = try Script(unanswered: [2])
    var options = NATSOptions.test()
    (options.managementTimeout, options.consumerTimeout) = (.seconds(3600), .milliseconds(50))
    let taker = try await queue(script, options).consume(lane: "one", inFlight: 1) { _ in }
    var pulls = 0
    while pulls < 2 { pulls += await script.pulls.next(until: nil).count }
    #expect(script.creations >= 3)
    taker.cancel()
  }

  /// Its caller repeats the attempt.
  @Test func anAttemptToStartAsksOnceAndWaitsForLonger() async throws {
    let script = try Script(unanswered: [1])
    var options = NATSOptions.test()
    (options.managementTimeout, options.consumerTimeout) = (.seconds(1), .seconds(3600))
    let queue = try await queue(script, options)
    await #expect(throws: BusError.self) {
      _ = try await queue.consume(lane: "one", inFlight: 1) { _ in }
    }
    #expect(script.creations == 1)
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
