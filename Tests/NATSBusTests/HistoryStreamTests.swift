import CallBus
import CallCore
import CallProcesses
import Foundation
import NATSBus
import TestSupport
import Testing

/// The stream of users' histories on real servers, and its twin in memory.
@Suite(.timeLimit(.minutes(2)))
struct HistoryStreamTests {
  private let bob = UserKey(app: "demo", user: "bob")
  /// Its subject has one token for the name, dots and stars as they may be.
  private let odd = UserKey(app: "demo", user: "b.o*b >ö")

  private func connect(_ server: NATSServerProcess) async throws -> NATSBus {
    try await NATSBus.connect(
      url: server.url, name: "test",
      options: NATSOptions(subjects: Subjects(cluster: "test", shardCount: 4)))
  }

  private func add(
    _ stream: some HistoryStream, _ user: UserKey, _ id: String, _ bytes: [UInt8]
  ) async -> AppendResult {
    await withCheckedContinuation { continuation in
      stream.add(user, id: id, bytes) { continuation.resume(returning: $0) }
    }
  }

  private func configuration(_ bus: NATSBus) async throws -> [String: Any] {
    let reply = try await bus.request(
      "$JS.API.STREAM.INFO.test-history", [], timeout: .seconds(20))
    let object = try JSONSerialization.jsonObject(with: Data(reply.bytes)) as? [String: Any]
    return try #require(object?["config"] as? [String: Any])
  }

  /// The contract of every store of histories.
  private func fulfills(_ stream: some HistoryStream) async throws {
    #expect(try await stream.messages(of: bob).isEmpty)
    #expect(await add(stream, bob, "a", [1, 0, 255]) == .appended(sequence: 1))
    #expect(await add(stream, odd, "b", [2]) == .appended(sequence: 2))
    #expect(await add(stream, bob, "c", [3]) == .appended(sequence: 3))
    #expect(await add(stream, bob, "a", [1, 0, 255]) == .appended(sequence: 1), "repeated")
    #expect(
      try await stream.messages(of: bob) == [
        StoredRecord(sequence: 1, bytes: [1, 0, 255]), StoredRecord(sequence: 3, bytes: [3]),
      ])
    #expect(try await stream.messages(of: odd) == [StoredRecord(sequence: 2, bytes: [2])])
    #expect(try await stream.messages(of: UserKey(app: "other", user: "bob")).isEmpty)
    for number in 4...250 { _ = await add(stream, bob, "n\(number)", [UInt8(number % 256)]) }
    let all = try await stream.messages(of: bob)
    // As many as twice the entries are kept, the newest.
    #expect(all.map(\.sequence) == Array(51...250))
    #expect(all.last?.bytes == [250])
  }

  private var options: HistoryOptions {
    var options = HistoryOptions()
    options.entriesPerUser = 100
    return options
  }

  @Test func inMemory() async throws {
    let bus = InProcessBus()
    let stream = try await bus.openHistories(options)
    try await stream.create(followingLimits: true)
    try await fulfills(stream)
    await bus.close()
  }

  @Test(arguments: NATSServerProcess.programs)
  func whatIsAddedIsRead(program: String) async throws {
    let server = try await NATSServerProcess.start(program: program)
    defer { server.stop() }
    let bus = try await connect(server)
    let stream = try await bus.openHistories(options)
    await #expect(throws: BusError.self) { _ = try await stream.messages(of: bob) }
    guard case .unknown = await add(stream, bob, "early", [1]) else {
      Issue.record("a stream that is not there takes entries")
      return
    }
    try await stream.create(followingLimits: true)
    try await fulfills(stream)
    // Several reads at once do not mix.
    let counts = try await withThrowingTaskGroup(of: Int.self) { group in
      for user in [bob, odd, bob, odd] {
        group.addTask { try await stream.messages(of: user).count }
      }
      return try await group.reduce(into: []) { $0.append($1) }
    }
    #expect(counts.sorted() == [1, 1, 200, 200])
    await bus.close()
  }

  @Test(arguments: NATSServerProcess.programs)
  func limitsFollowTheSettings(program: String) async throws {
    let server = try await NATSServerProcess.start(program: program)
    defer { server.stop() }
    let bus = try await connect(server)
    try await bus.openHistories(options).create(followingLimits: true)
    #expect(try await configuration(bus)["max_msgs_per_subject"] as? Int == 200)
    #expect(try await configuration(bus)["max_bytes"] as? Int == 1 << 30)
    #expect(try await configuration(bus)["max_age"] as? Int64 == 30 * 86_400 * 1_000_000_000)
    var later = options
    (later.bytesMax, later.kept, later.entriesPerUser) = (20_000_000, .seconds(7 * 86_400), 50)
    let stream = try await bus.openHistories(later)
    try await stream.create(followingLimits: false)
    #expect(try await configuration(bus)["max_msgs_per_subject"] as? Int == 200)
    try await stream.create(followingLimits: true)
    #expect(try await configuration(bus)["max_msgs_per_subject"] as? Int == 100)
    #expect(try await configuration(bus)["max_bytes"] as? Int == 20_000_000)
    #expect(try await configuration(bus)["max_age"] as? Int64 == 7 * 86_400 * 1_000_000_000)
    await bus.close()
  }
}
