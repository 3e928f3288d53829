public import CallBus
internal import Synchronization

/// The shards' journals in one stream with a subject per shard.
public final class JetStreamJournal: Journal {
  private let api: JetStreamAPI
  private let stream: String
  private let writer: StreamWriter
  private let checkpoints: Checkpoints
  private let subjects = Mutex<[Int: String]>([:])

  static func open(_ bus: NATSBus, _ options: JournalOptions) async throws -> JetStreamJournal {
    let api = JetStreamAPI(bus)
    let names = bus.thread.options.subjects
    try await StreamSpecification(
      name: names.journalStream, subjects: ["\(names.journalStream).*"],
      replicas: options.replicas, inMemory: options.inMemory
    ).create(api)
    try await StreamSpecification(
      name: names.checkpointStream, subjects: ["\(names.checkpointStream).>"],
      messagesPerSubject: 1, replicas: options.replicas, inMemory: options.inMemory
    ).create(api)
    return JetStreamJournal(
      api, stream: names.journalStream,
      writer: StreamWriter(bus, timeout: options.appendTimeout),
      checkpoints: Checkpoints(
        api, stream: names.checkpointStream,
        writer: StreamWriter(bus, timeout: bus.thread.options.managementTimeout)))
  }

  private init(
    _ api: JetStreamAPI, stream: String, writer: StreamWriter, checkpoints: Checkpoints
  ) {
    self.api = api
    self.stream = stream
    self.writer = writer
    self.checkpoints = checkpoints
  }

  public func append(
    shard: Int, expecting: UInt64, _ bytes: [UInt8],
    completion: @escaping @Sendable (AppendResult) -> Void
  ) {
    writer.write(subject(shard), bytes, expecting: expecting, completion: completion)
  }

  public func last(shard: Int) async throws -> StoredRecord? {
    try await api.last(stream: stream, subject: subject(shard)).map {
      StoredRecord(sequence: $0.sequence, bytes: $0.bytes)
    }
  }

  public func next(shard: Int, from sequence: UInt64) async throws -> StoredRecord? {
    try await api.next(stream: stream, subject: subject(shard), from: sequence).map {
      StoredRecord(sequence: $0.sequence, bytes: $0.bytes)
    }
  }

  public func purge(shard: Int, through sequence: UInt64) async throws {
    guard let newest = try await last(shard: shard)?.sequence else { return }
    try await api.purge(
      stream: stream, filter: subject(shard), before: sequence < newest ? sequence + 1 : newest)
  }

  public func writeCheckpoint(shard: Int, _ bytes: [UInt8]) async throws {
    try await checkpoints.write(shard: shard, bytes)
  }

  public func readCheckpoint(shard: Int) async throws -> [UInt8]? {
    try await checkpoints.read(shard: shard)
  }

  public func statistics() async throws -> JournalStatistics {
    let state = try await api.information(stream: stream)["state"]
    var statistics = JournalStatistics()
    statistics.messages = state?["messages"]?.unsigned ?? 0
    statistics.bytes = state?["bytes"]?.unsigned ?? 0
    return statistics
  }

  private func subject(_ shard: Int) -> String {
    subjects.withLock { subjects in
      if let subject = subjects[shard] { return subject }
      let subject = "\(stream).\(shard)"
      subjects[shard] = subject
      return subject
    }
  }
}

extension NATSBus {
  public func openJournal(_ options: JournalOptions) async throws -> JetStreamJournal {
    try await JetStreamJournal.open(self, options)
  }

  public func openBucket(_ name: String, _ options: BucketOptions) async throws -> JetStreamBucket {
    try await JetStreamBucket.open(self, name, options)
  }
}
