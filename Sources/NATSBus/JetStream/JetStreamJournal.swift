public import CallBus
internal import CallWire

/// The shards' journals: a subject per shard, and a stream per shard, up to a limit.
///
/// A stream of its own makes a shard's purge cheap. To purge one of 64 subjects in one stream of 200,000 records,
/// nats-server 2.9.10 scans all of them, and delays every append by 100 ms and more.
public final class JetStreamJournal: Journal {
  /// More shards share streams, since each stream costs the server files and, if replicated, a Raft group. Must never
  /// change, since it assigns shards to streams.
  static let streamsMax = 64

  fileprivate let api: JetStreamAPI
  private let names: Subjects
  fileprivate let streamCount: Int
  private let subjects: [String]
  private let writer: StreamWriter
  /// Concurrent reads when a journal is replayed. The server handles them one by one; this saves round trips.
  private static let readsAtOnce = 64

  fileprivate init(_ bus: NATSBus, _ options: JournalOptions) {
    let names = bus.thread.options.subjects
    self.names = names
    api = JetStreamAPI(bus)
    streamCount = min(options.shardCount, Self.streamsMax)
    subjects = (0..<options.shardCount).map { "\(names.journalStream).\($0)" }
    writer = StreamWriter(bus, timeout: options.appendTimeout)
  }

  fileprivate func stream(_ shard: Int) -> String { Self.stream(shard % streamCount, of: names) }

  static func stream(_ number: Int, of names: Subjects) -> String {
    "\(names.journalStream)-\(number)"
  }

  fileprivate func subjects(ofStream number: Int) -> [String] {
    stride(from: number, to: subjects.count, by: streamCount).map { subjects[$0] }
  }

  public func append(
    shard: Int, expecting: UInt64, _ bytes: [UInt8],
    completion: @escaping AppendCompletion
  ) {
    precondition(subjects.indices.contains(shard), "shard \(shard) of \(subjects.count)")
    writer.write(subjects[shard], bytes, expecting: expecting, completion: completion)
  }

  public func last(shard: Int) async throws -> StoredRecord? {
    try await api.last(stream: stream(shard), subject: subjects[shard])?.record
  }

  public func records(
    shard: Int, from sequence: UInt64, limit: Int
  ) async throws -> [StoredRecord] {
    let (api, stream, subject) = (api, stream(shard), subjects[shard])
    let count = max(1, min(limit, Self.readsAtOnce))
    let answers = try await withThrowingTaskGroup(
      of: (Int, JetStreamAPI.StoredMessage?).self
    ) { group in
      for offset in 0..<count {
        group.addTask {
          let from = sequence + UInt64(offset)
          return (offset, try await api.next(stream: stream, subject: subject, from: from))
        }
      }
      var answers = [JetStreamAPI.StoredMessage?](repeating: nil, count: count)
      for try await (offset, message) in group { answers[offset] = message }
      return answers
    }
    var records: [StoredRecord] = []
    for answer in answers {
      // After an empty answer there may be records that arrived later, and others before them.
      guard let answer else { break }
      // In a stream that shards share, several requests have the same answer.
      if let last = records.last, answer.sequence <= last.sequence { continue }
      records.append(answer.record)
    }
    return records
  }

  /// Purges by subject, even if the shard has a stream of its own. To truncate a whole stream, nats-server before
  /// 2.11.12 and 2.12.3 empties the block that it keeps and rewrites it: if it is killed in between, all of the shard's
  /// records are lost. Purging a subject only marks messages as removed, and deletes empty blocks.
  public func purge(shard: Int, through sequence: UInt64) async throws {
    guard let newest = try await last(shard: shard)?.sequence else { return }
    try await api.purge(
      stream: stream(shard), filter: subjects[shard],
      before: sequence < newest ? sequence + 1 : newest)
  }

  public func statistics() async throws -> JournalStatistics {
    let question = "{\"offset\":0,\"subject\":\(JSONWriter.quoted("\(names.journalStream).*"))}"
    let answer = try await api.call(JetStreamSubject.list, question).checked(
      "cannot list the journals")
    var statistics = JournalStatistics()
    for stream in answer["streams"]?.elements ?? [] {
      statistics.add(stream["state"])
    }
    return statistics
  }
}

extension NATSBus {
  public func openJournal(_ options: JournalOptions) async throws -> JetStreamJournal {
    let journal = JetStreamJournal(self, options)
    try await withThrowingTaskGroup(of: Void.self) { group in
      for number in 0..<journal.streamCount {
        let subjects = journal.subjects(ofStream: number)
        let specification = StreamSpecification(
          name: journal.stream(number), subjects: subjects, replicas: options.replicas,
          inMemory: options.inMemory,
          bytesMax: options.bytesPerShard.map { $0 * Int64(subjects.count) } ?? -1)
        group.addTask { try await specification.create(journal.api) }
      }
      try await group.waitForAll()
    }
    return journal
  }
}
