import CallBus
import CallProcesses
import Foundation
import NATSBus
import TestSupport
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

  /// The server keeps to the limit that each stream is made with. A write that it refuses there does not pass for
  /// another owner's write.
  @Test(arguments: NATSServerProcess.programs)
  func everyStreamHasItsLimit(program: String) async throws {
    let server = try await NATSServerProcess.start(program: program)
    defer { server.stop() }
    let subjects = Subjects(cluster: "test", shardCount: 100)
    let bus = try await NATSBus.connect(
      url: server.url, name: "test", options: NATSOptions(subjects: subjects))
    let contract = BusContract(bus: bus, other: bus)
    var journalOptions = JournalOptions()
    (journalOptions.shardCount, journalOptions.bytesPerShard) = (100, 50_000)
    let journal = try await bus.openJournal(journalOptions)
    var bucketOptions = BucketOptions()
    bucketOptions.bytesMax = 30_000
    let bucket = try await bus.openBucket("full", bucketOptions)
    var queueOptions = WorkQueueOptions()
    queueOptions.bytesMax = 20_000
    let queue = try await bus.openWorkQueue(queueOptions)
    var auditOptions = AuditOptions(role: "edge")
    (auditOptions.createsMissing, auditOptions.bytesMax) = (true, 10_000)
    let audit = try await bus.openAudit(auditOptions)
    let large = [UInt8](repeating: 7, count: 8000)

    // Shards 0 and 64 share a stream, and its room.
    var last: UInt64 = 0
    for _ in 0..<12 { last = try await contract.append(journal, 0, expecting: last, large) }
    for shard in [0, 64] {
      guard
        case .unknown(let text) = await contract.outcome(
          journal, shard, expecting: shard == 0 ? last : 0, large)
      else {
        Issue.record("shard \(shard)'s journal takes more than it may, or tells a lie")
        return
      }
      #expect(text.contains("10077"))
    }
    try await journal.purge(shard: 0, through: last - 1)
    last = try await contract.append(journal, 0, expecting: last, large)
    _ = try await contract.append(journal, 1, expecting: 0, large)

    for key in ["a", "b", "c"] {
      _ = try await contract.revision(await bucket.put(key, large, expecting: 0))
    }
    guard case .unknown = await bucket.put("d", large, expecting: 0) else {
      Issue.record("the bucket takes more than it may")
      return
    }
    func add(_ id: Int) async -> AppendResult {
      await withCheckedContinuation { continuation in
        queue.add(lane: "fcm", id: "\(id)", large) { continuation.resume(returning: $0) }
      }
    }
    let added = [await add(1), await add(2), await add(3)]
    #expect(added.count { $0 == .refused } == 1 && added[2] == .refused)

    // The oldest orders give way.
    for number in UInt8(0)..<20 {
      guard case .appended = await audit.append([number] + large.prefix(2000)) else {
        Issue.record("a record is refused")
        return
      }
    }
    let records = try await audit.records(limit: 100)
    #expect((2..<6).contains(records.count) && records.last?.bytes.first == 19)
    #expect(try await audit.records(limit: 2).map(\.bytes.first) == [18, 19])
    await bus.close()
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
