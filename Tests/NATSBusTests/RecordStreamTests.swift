import CallBus
import CallCore
import CallProcesses
import CallWire
import Foundation
import NATSBus
import TestSupport
import Testing

/// The stream of call records on real servers.
@Suite(.timeLimit(.minutes(2)))
struct RecordStreamTests {
  private func connect(_ server: NATSServerProcess) async throws -> NATSBus {
    try await NATSBus.connect(
      url: server.url, name: "test",
      options: NATSOptions(subjects: Subjects(cluster: "test", shardCount: 4)))
  }

  private func add(_ stream: some RecordStream, _ id: String, _ bytes: [UInt8]) async
    -> AppendResult
  {
    await withCheckedContinuation { continuation in
      stream.add(id: id, bytes) { continuation.resume(returning: $0) }
    }
  }

  private func configuration(_ bus: NATSBus) async throws -> [String: Any] {
    let reply = try await bus.request(
      "$JS.API.STREAM.INFO.test-records", [], timeout: .seconds(20))
    let object = try JSONSerialization.jsonObject(with: Data(reply.bytes)) as? [String: Any]
    return try #require(object?["config"] as? [String: Any])
  }

  @Test(arguments: NATSServerProcess.programs)
  func whatIsAddedIsReadOnce(program: String) async throws {
    let server = try await NATSServerProcess.start(program: program)
    defer { server.stop() }
    let bus = try await connect(server)
    let stream = try await bus.openRecords(RecordOptions())
    let error = await #expect(throws: BusError.self) { _ = try await stream.range() }
    #expect(error?.code == .streamNotFound)
    guard case .unknown = await add(stream, "early", [1]) else {
      Issue.record("a stream that is not there takes records")
      return
    }
    try await stream.create(followingLimits: true)
    #expect(try await stream.range() == nil)
    let begun = Timestamp(microseconds: Int64(Date().timeIntervalSince1970 * 1e6))
    #expect(await add(stream, "a", [1, 0, 255]) == .appended(sequence: 1))
    #expect(await add(stream, "b", [2]) == .appended(sequence: 2))
    #expect(await add(stream, "a", [1, 0, 255]) == .appended(sequence: 1), "repeated")
    for number in 3...150 { _ = await add(stream, "n\(number)", [UInt8(number)]) }
    #expect(try await stream.range() == 1...150)
    let all = try await stream.messages(1...150)
    #expect(all.map(\.sequence) == Array(1...150))
    #expect(all[0].bytes == [1, 0, 255] && all[149].bytes == [150])
    #expect(all.allSatisfy { $0.storedAt + .seconds(5) >= begun })
    #expect(all.allSatisfy { $0.storedAt <= begun + .seconds(120) })
    await bus.close()
  }

  @Test(arguments: NATSServerProcess.programs)
  func theOldestAreDroppedAndLimitsFollowTheSettings(program: String) async throws {
    let server = try await NATSServerProcess.start(program: program)
    defer { server.stop() }
    let bus = try await connect(server)
    var options = RecordOptions()
    options.bytesMax = 10_000
    let stream = try await bus.openRecords(options)
    try await stream.create(followingLimits: true)
    let large = [UInt8](repeating: 7, count: 3000)
    for number in 1...6 {
      #expect(await add(stream, "\(number)", large) == .appended(sequence: UInt64(number)))
    }
    let range = try #require(try await stream.range())
    #expect(range.upperBound == 6 && range.lowerBound > 3)
    #expect(try await stream.messages(1...6).map(\.sequence) == Array(range))
    #expect(try await configuration(bus)["max_age"] as? Int64 == 30 * 86_400 * 1_000_000_000)

    (options.bytesMax, options.kept) = (20_000, .seconds(7 * 86_400))
    let later = try await bus.openRecords(options)
    try await later.create(followingLimits: false)
    #expect(try await configuration(bus)["max_bytes"] as? Int == 10_000)
    try await later.create(followingLimits: true)
    #expect(try await configuration(bus)["max_bytes"] as? Int == 20_000)
    #expect(try await configuration(bus)["max_age"] as? Int64 == 7 * 86_400 * 1_000_000_000)
    #expect(try await stream.range() == range)
    await bus.close()
  }
}
