import CallBus
import CallProcesses
import Glibc
import NATSBus
import Testing

/// Taking jobs from a queue whose server does not answer.
@Suite(.timeLimit(.minutes(2)))
struct PullConsumerTests {
  private func connect(_ server: NATSServerProcess, _ events: Inbox<NATSEvent>) async throws
    -> NATSBus
  {
    var options = NATSOptions(subjects: Subjects(cluster: "test", shardCount: 4))
    options.onEvent = { events.offer($0) }
    return try await NATSBus.connect(url: server.url, name: "test", options: options)
  }

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
    let events = Inbox<NATSEvent>(capacity: 1000)
    let bus = try await connect(server, events)
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
    #expect(contract.isAppended(await contract.add(queue, "one", "job", [1])))
    #expect(await contract.collect(1, from: seen).map(\.bytes) == [[1]])
    taker.cancel()
    await bus.close()
  }
}
