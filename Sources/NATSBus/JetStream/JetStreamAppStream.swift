public import CallBus
internal import CallCore

/// A stream of what is kept for apps: one subject for each app.
public final class JetStreamAppStream: AppStream {
  private let api: JetStreamAPI
  private let stream: String
  private let kind: AppStreamKind
  private let subjects: Subjects
  private let writer: StreamWriter
  private let options: AppStreamOptions

  fileprivate init(_ bus: NATSBus, _ kind: AppStreamKind, _ options: AppStreamOptions) {
    self.kind = kind
    self.options = options
    subjects = bus.thread.options.subjects
    api = JetStreamAPI(bus)
    stream = subjects.appStream(kind)
    writer = StreamWriter(bus, timeout: options.addTimeout)
  }

  public func create(followingLimits: Bool) async throws {
    try await StreamSpecification(
      name: stream, subjects: [subjects.appStream(kind, app: "*")], replicas: options.replicas,
      inMemory: options.inMemory, maximumAge: options.kept, bytesMax: options.bytesMax,
      dropsOldest: true, existingLimits: followingLimits ? .changed : .kept
    ).create(api)
  }

  public func add(
    id: String, app: String, _ bytes: [UInt8], completion: @escaping AppendCompletion
  ) {
    writer.write(
      subjects.appStream(kind, app: app), bytes, expecting: nil, messageID: id,
      completion: completion)
  }

  public func next(of app: String, from sequence: UInt64) async throws -> StoredRecords? {
    try await api.next(
      stream: stream, subject: subjects.appStream(kind, app: app), from: sequence
    ).flatMap(Self.stored)
  }

  public func last(of app: String) async throws -> StoredRecords? {
    try await api.last(stream: stream, subject: subjects.appStream(kind, app: app))
      .flatMap(Self.stored)
  }

  public func range() async throws -> ClosedRange<UInt64>? { try await api.range(of: stream) }

  private static func stored(_ message: JetStreamAPI.StoredMessage) -> StoredRecords? {
    Timestamp(iso8601: message.time).map {
      StoredRecords(sequence: message.sequence, bytes: message.bytes, storedAt: $0)
    }
  }
}

extension NATSBus {
  public func openAppStream(
    _ kind: AppStreamKind, _ options: AppStreamOptions
  ) async throws -> JetStreamAppStream {
    JetStreamAppStream(self, kind, options)
  }
}
