public import CallBus
public import CallCore

/// The histories of users: one stream, with a subject for each user.
public final class JetStreamHistories: HistoryStream {
  private let api: JetStreamAPI
  private let names: Subjects
  private let writer: StreamWriter
  private let options: HistoryOptions

  fileprivate init(_ bus: NATSBus, _ options: HistoryOptions) {
    names = bus.thread.options.subjects
    self.options = options
    api = JetStreamAPI(bus)
    writer = StreamWriter(bus, timeout: options.addTimeout)
  }

  public func create(followingLimits: Bool) async throws {
    try await StreamSpecification(
      name: names.historyStream, subjects: [names.histories],
      messagesPerSubject: options.messagesPerUser, replicas: options.replicas,
      inMemory: options.inMemory, maximumAge: options.kept, bytesMax: options.bytesMax,
      dropsOldest: true, existingLimits: followingLimits ? .changed : .kept
    ).create(api)
  }

  public func add(
    _ user: UserKey, id: String, _ bytes: [UInt8], completion: @escaping AppendCompletion
  ) {
    writer.write(
      names.history(of: user), bytes, expecting: nil, messageID: id, completion: completion)
  }

  public func messages(of user: UserKey) async throws -> [StoredRecord] {
    try await SubjectRead(
      api, stream: names.historyStream, subject: names.history(of: user)
    ).run()
  }
}

extension NATSBus {
  public func openHistories(_ options: HistoryOptions) async throws -> JetStreamHistories {
    JetStreamHistories(self, options)
  }
}
