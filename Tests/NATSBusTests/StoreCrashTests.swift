import CallBus
import CallProcesses
import NATSBus
import Synchronization
import TestSupport
import Testing

/// Appends whose fate is unknown, on real servers that are killed under them: alone, and three with
/// replicas; the usual version, and a newer one where NATS_SERVER_NEWER names it.
@Suite(.timeLimit(.minutes(5)), .serialized)
struct StoreCrashTests {
  static let shards = 4

  /// Writes records 1, 2, 3 … into one shard, one at a time, as a coordinator does: when an answer
  /// is lost, the journal's end tells whether the record is there.
  final class Writer: Sendable {
    struct State {
      var sequence: UInt64 = 0
      /// The number of the last record that is known to be stored.
      var acknowledged: UInt64 = 0
      var unknown = 0
      var settledAsOurs = 0
      var refused = 0
      var purges = 0
      var failed = false
    }
    let shard: Int
    let journal: JetStreamJournal
    let state = Mutex(State())
    init(_ shard: Int, _ journal: JetStreamJournal) {
      self.shard = shard
      self.journal = journal
    }

    static func bytes(_ number: UInt64) -> [UInt8] { Array("record \(number)".utf8) }

    /// - Throws: what must never be: the record is not there, and another one is.
    func write(until stop: () -> Bool) async throws {
      do {
        while !stop() { try await writeOne() }
      } catch {
        state.withLock { $0.failed = true }
        throw error
      }
    }

    private func writeOne() async throws {
      let (expecting, number) = state.withLock { ($0.sequence, $0.acknowledged + 1) }
      while true {
        let result = await journal.append(shard: shard, expecting: expecting, Self.bytes(number))
        if case .appended(let sequence) = result { return stored(number, sequence) }
        state.withLock {
          if result == .refused { $0.refused += 1 } else { $0.unknown += 1 }
        }
        // A new leader that has not applied all yet may refuse also a first attempt.
        let last = try await end()
        if last?.sequence ?? 0 <= expecting {
          try Task.checkCancellation()
          await lookAgain()
          continue
        }
        guard let last, last.bytes == Self.bytes(number) else {
          throw BusError.failed("another write came first")
        }
        state.withLock { $0.settledAsOurs += 1 }
        return stored(number, last.sequence)
      }
    }

    func end() async throws -> StoredRecord? {
      try await answer { try await $0.last(shard: $1) }
    }

    func records(from sequence: UInt64) async throws -> [StoredRecord] {
      try await answer { try await $0.records(shard: $1, from: sequence, limit: 64) }
    }

    /// The journal's answer, as soon as it gives one: after a kill its stream has no leader for a while.
    private func answer<Answer>(
      _ question: (JetStreamJournal, Int) async throws -> Answer
    ) async throws -> Answer {
      while true {
        do {
          return try await question(journal, shard)
        } catch {
          try Task.checkCancellation()
          await lookAgain()
        }
      }
    }

    /// Purges what lies before its newest record, over and over, as checkpoints do now and then.
    func purge(until stop: () -> Bool) async throws {
      while !stop() {
        try Task.checkCancellation()
        let newest = state.withLock { $0.sequence }
        if newest > 1 {
          do {
            try await journal.purge(shard: shard, through: newest - 1)
            state.withLock { $0.purges += 1 }
          } catch {
            // The server is away: that is what is tested.
          }
        }
        await lookAgain()
      }
    }

    private func stored(_ number: UInt64, _ sequence: UInt64) {
      state.withLock {
        $0.acknowledged = number
        $0.sequence = sequence
      }
    }
  }

  private func open(_ bus: NATSBus, replicas: Int) async throws -> JetStreamJournal {
    var options = JournalOptions()
    options.shardCount = Self.shards
    options.replicas = replicas
    options.appendTimeout = .seconds(1)
    let deadline = ContinuousClock.now + .seconds(60)
    while true {
      do { return try await bus.openJournal(options) } catch {
        // A cluster that has just started has no leader yet.
        guard ContinuousClock.now < deadline else { throw error }
      }
    }
  }

  /// Writes into all shards while `disturb` runs, then some records more, and looks at all of it.
  private func writeThrough(
    _ bus: NATSBus, replicas: Int, _ disturb: ([Writer]) async throws -> Void
  ) async throws {
    let journal = try await open(bus, replicas: replicas)
    let writers = (0..<Self.shards).map { Writer($0, journal) }
    let over = Inbox<Never>(capacity: 1)
    try await withThrowingTaskGroup(of: Void.self) { group in
      for writer in writers {
        group.addTask { try await writer.write { over.isClosed } }
      }
      try await disturb(writers)
      // All of them still get somewhere.
      try await progress(writers, by: 50)
      over.close()
      try await group.waitForAll()
    }
    for writer in writers {
      let state = writer.state.withLock { $0 }
      var read: [StoredRecord] = []
      while true {
        let next = try await writer.records(from: (read.last?.sequence ?? 0) + 1)
        if next.isEmpty { break }
        read += next
      }
      // Each once, in order, none that was acknowledged missing.
      #expect(read.map(\.bytes) == (1...state.acknowledged).map(Writer.bytes))
    }
  }

  /// Until every writer has stored some records more.
  private func progress(_ writers: [Writer], by count: UInt64 = 100) async throws {
    let goals = writers.map { $0.state.withLock { $0.acknowledged } + count }
    while zip(writers, goals).contains(where: { $0.state.withLock { $0.acknowledged } < $1 }) {
      if writers.contains(where: { $0.state.withLock { $0.failed } }) {
        throw BusError.failed("a writer found another's record")
      }
      await lookAgain()
    }
  }

  @Test(arguments: NATSServerProcess.programs)
  func aServerKilledUnderAppendsLosesNothing(program: String) async throws {
    try await withServer(program: program) { server, bus in
      try await writeThrough(bus, replicas: 1) { writers in
        for _ in 0..<4 {
          try await progress(writers)
          server.kill()
          try await server.relaunch()
        }
      }
    }
  }

  /// The records that a purge leaves must be there whenever the server dies in it.
  @Test(arguments: NATSServerProcess.programs)
  func aServerKilledUnderPurgesKeepsWhatIsBehindThem(program: String) async throws {
    let server = try await NATSServerProcess.start(program: program)
    defer { server.stop() }
    let bus = try await NATSBus.test(server.url)
    let journal = try await open(bus, replicas: 1)
    let writers = (0..<Self.shards).map { Writer($0, journal) }
    let over = Inbox<Never>(capacity: 1)
    try await withThrowingTaskGroup(of: Void.self) { group in
      for writer in writers {
        group.addTask { try await writer.write { over.isClosed } }
        group.addTask { try await writer.purge { over.isClosed } }
      }
      for _ in 0..<20 {
        try await progress(writers, by: 20)
        let known = writers.map { $0.state.withLock { $0.sequence } }
        server.kill()
        try await server.relaunch()
        for (writer, sequence) in zip(writers, known) {
          let end = try await writer.end()?.sequence ?? 0
          #expect(end >= sequence, "shard \(writer.shard) ends at \(end)")
          // Its writer would wait for ever.
          if end < sequence { throw BusError.failed("records are lost") }
        }
      }
      // On a slow machine each of them may have been cut off by a kill.
      while !writers.allSatisfy({ $0.state.withLock { $0.purges } > 0 }) { await lookAgain() }
      over.close()
      try await group.waitForAll()
    }
    await bus.close()
  }

  /// As `writeThrough`, with a cluster of three servers.
  private func writeThroughThree(
    _ program: String,
    _ disturb: ([NATSServerProcess], NATSBus, [Writer]) async throws -> Void
  ) async throws {
    let servers = try await NATSServerProcess.startCluster(of: 3, program: program)
    defer { for server in servers { server.stop() } }
    let bus = try await NATSBus.test(servers.map(\.url).joined(separator: ","))
    try await writeThrough(bus, replicas: 3) { try await disturb(servers, bus, $0) }
    await bus.close()
  }

  @Test(arguments: NATSServerProcess.programs)
  func leadersKilledUnderAppendsLoseNothing(program: String) async throws {
    try await writeThroughThree(program) { servers, bus, writers in
      try await progress(writers)
      let leader = try await leader(bus, "test-journal-0")
      servers[leader].kill()
      try await progress(writers)
      try await servers[leader].relaunch()
    }
  }

  /// All three at once, as when the power fails but the disks do not.
  @Test(arguments: NATSServerProcess.programs)
  func allServersKilledAtOnceLoseNothing(program: String) async throws {
    try await writeThroughThree(program) { servers, bus, writers in
      try await progress(writers)
      for server in servers { server.kill() }
      try await withThrowingTaskGroup(of: Void.self) { group in
        for server in servers { group.addTask { try await server.relaunch() } }
        try await group.waitForAll()
      }
    }
  }

  /// The number of the server that leads a stream.
  private func leader(_ bus: NATSBus, _ stream: String) async throws -> Int {
    while true {
      let reply = try? await bus.request("$JS.API.STREAM.INFO.\(stream)", [], timeout: .seconds(2))
      let text = String(decoding: reply?.bytes ?? [], as: UTF8.self)
      if let found = text.firstRange(of: "\"leader\":\"server-"),
        let number = text[found.upperBound...].first?.wholeNumberValue
      {
        return number
      }
      try Task.checkCancellation()
      await lookAgain()
    }
  }
}

/// Between two looks at a fact. Nothing hangs on how long it is.
func lookAgain() async {
  _ = await Inbox<Never>(capacity: 1).next(until: .now + .milliseconds(2))
}
