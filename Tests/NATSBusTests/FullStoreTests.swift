import CallBus
import CallProcesses
import Foundation
import NATSBus
import TestSupport
import Testing

/// A store that has no room is no other owner: only who owns a shard may say no to its appends.
@Suite(.timeLimit(.minutes(2)))
struct FullStoreTests {
  private let large = [UInt8](repeating: 7, count: 8000)

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
    try await withServer(program: program) { _, bus in
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

      // Shards 0 and 64 share a stream, and its room.
      var last: UInt64 = 0
      for _ in 0..<12 { last = try await contract.append(journal, 0, expecting: last, large) }
      for (shard, end) in [(0, last), (64, 0)] {
        let result = await journal.append(shard: shard, expecting: end, large)
        #expect(result.doubt?.contains("10077") == true, "shard \(shard): \(result)")
      }
      try await journal.purge(shard: 0, through: last - 1)
      last = try await contract.append(journal, 0, expecting: last, large)
      _ = try await contract.append(journal, 1, expecting: 0, large)

      for key in ["a", "b", "c"] {
        try await contract.put(bucket, key, large, expecting: 0)
      }
      #expect(await bucket.put("d", large, expecting: 0).doubt != nil)
      var added: [AppendResult] = []
      for id in 1...3 { added.append(await queue.add("fcm", "\(id)", large)) }
      #expect(added.count { $0 == .refused } == 1 && added[2] == .refused)

      // The oldest orders give way.
      for number in UInt8(0)..<20 {
        let result = await audit.append([number] + large.prefix(2000))
        #expect(contract.isAppended(result), "\(result)")
      }
      let records = try await audit.records(limit: 100)
      #expect((2..<6).contains(records.count) && records.last?.bytes.first == 19)
      #expect(try await audit.records(limit: 2).map(\.bytes.first) == [18, 19])
    }
  }

  @Test(arguments: NATSServerProcess.programs)
  func anAppendWithoutRoomMayBeTriedAgain(program: String) async throws {
    try await withServer(program: program) { _, bus in
      let contract = BusContract(bus: bus, other: bus)
      let journal = try await bus.openJournal(JournalOptions())
      let first = try await contract.append(journal, 0, expecting: 0, [1])
      try await limit("test-journal-0", bytes: 4096, bus)
      let result = await journal.append(shard: 0, expecting: first, large)
      #expect(result.doubt?.contains("10077") == true, "\(result)")
      // Another owner is still told from it, and so is room.
      #expect(await journal.append(shard: 0, expecting: first + 7, [2]) == .refused)
      try await limit("test-journal-0", bytes: -1, bus)
      _ = try await contract.append(journal, 0, expecting: first, large)
    }
  }
}
