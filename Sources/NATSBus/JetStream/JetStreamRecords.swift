public import CallBus
internal import CallCore

/// The stream of call records: one subject, since a message holds records of several shards, and readers want those of
/// all shards.
public final class JetStreamRecords: RecordStream {
  private let api: JetStreamAPI
  private let stream: String
  private let subject: String
  private let writer: StreamWriter
  private let options: RecordOptions
  private static let readsAtOnce: UInt64 = 64

  fileprivate init(_ bus: NATSBus, _ options: RecordOptions) {
    let names = bus.thread.options.subjects
    self.options = options
    api = JetStreamAPI(bus)
    (stream, subject) = (names.recordStream, names.records)
    writer = StreamWriter(bus, timeout: options.addTimeout)
  }

  public func create(followingLimits: Bool) async throws {
    try await StreamSpecification(
      name: stream, subjects: [subject], replicas: options.replicas, inMemory: options.inMemory,
      maximumAge: options.kept, bytesMax: options.bytesMax, dropsOldest: true,
      existingLimits: followingLimits ? .changed : .kept
    ).create(api)
  }

  public func add(id: String, _ bytes: [UInt8], completion: @escaping AppendCompletion) {
    writer.write(subject, bytes, expecting: nil, messageID: id, completion: completion)
  }

  public func range() async throws -> ClosedRange<UInt64>? {
    try await api.range(of: stream)
  }

  public func messages(_ sequences: ClosedRange<UInt64>) async throws -> [StoredRecords] {
    var found: [StoredRecords] = []
    var from = sequences.lowerBound
    while from <= sequences.upperBound {
      let end = min(sequences.upperBound, from + Self.readsAtOnce - 1)
      let (api, stream) = (api, stream)
      found += try await withThrowingTaskGroup(of: StoredRecords?.self) { group in
        for sequence in from...end {
          group.addTask {
            guard let message = try await api.message(stream: stream, sequence: sequence),
              let storedAt = Timestamp(iso8601: message.time)
            else { return nil }
            return StoredRecords(sequence: sequence, bytes: message.bytes, storedAt: storedAt)
          }
        }
        return try await group.reduce(into: []) { if let message = $1 { $0.append(message) } }
      }
      from = end + 1
    }
    return found.sorted { $0.sequence < $1.sequence }
  }
}

extension NATSBus {
  public func openRecords(_ options: RecordOptions) async throws -> JetStreamRecords {
    JetStreamRecords(self, options)
  }
}
