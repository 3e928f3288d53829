import CallBus
import CallTestKit
import Foundation
import NATSBus
import Testing

/// A store that has no room is no other owner: only who owns a shard may say no to its appends.
@Suite(.timeLimit(.minutes(2)))
struct FullStoreTests {
  /// Gives a stream a limit behind our back, which stands for a disk that is full: the server says
  /// the same of both.
  private func limit(_ stream: String, bytes: Int, _ bus: NATSBus) async throws {
    let reply = try await bus.request("$JS.API.STREAM.INFO.\(stream)", [], timeout: .seconds(20))
    let object = try JSONSerialization.jsonObject(with: Data(reply.bytes)) as? [String: Any]
    var configuration = try #require(object?["config"] as? [String: Any])
    configuration["max_bytes"] = bytes
    let question = try JSONSerialization.data(withJSONObject: configuration)
    let answer = try await bus.request(
      "$JS.API.STREAM.UPDATE.\(stream)", Array(question), timeout: .seconds(20))
    let text = String(decoding: answer.bytes, as: UTF8.self)
    try #require(!text.contains("\"error\""), "\(text)")
  }

  @Test(arguments: NATSServerProcess.programs)
  func anAppendWithoutRoomMayBeTriedAgain(program: String) async throws {
    let server = try await NATSServerProcess.start(program: program)
    defer { server.stop() }
    let subjects = Subjects(cluster: "test", shardCount: 4)
    let bus = try await NATSBus.connect(
      url: server.url, name: "test", options: NATSOptions(subjects: subjects))
    let contract = BusContract(bus: bus, other: bus)
    let journal = try await bus.openJournal(JournalOptions())
    let first = try await contract.append(journal, 0, expecting: 0, [1])
    let stream = subjects.journalStream + "-0"
    try await limit(stream, bytes: 4096, bus)
    let large = [UInt8](repeating: 7, count: 10_000)
    guard case .unknown(let text) = await contract.outcome(journal, 0, expecting: first, large)
    else {
      Issue.record("a full store passes for another owner")
      return
    }
    #expect(text.contains("10077"))
    // Another owner is still told from it, and so is room.
    #expect(await contract.outcome(journal, 0, expecting: first + 7, [2]) == .refused)
    try await limit(stream, bytes: -1, bus)
    _ = try await contract.append(journal, 0, expecting: first, large)
    await bus.close()
  }
}
