public import CallBus
public import CallCore

/// The histories of users: one stream, with a subject for each user.
public final class JetStreamHistories: HistoryStream {
  private let api: JetStreamAPI
  private let names: Subjects
  private let writer: StreamWriter
  private let options: HistoryOptions
  /// How often a history is read before it counts as unreadable, and the pause between two reads.
  private static let readsMax = 10
  private static let readAgain: Duration = .milliseconds(50)

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

  /// The server places the consumer of a read at any replica. One that lags would give an older history, so each read
  /// is compared with the last message that the leader has.
  public func messages(of user: UserKey) async throws -> [StoredRecord] {
    let (stream, subject) = (names.historyStream, names.history(of: user))
    for attempt in 0..<Self.readsMax {
      if attempt > 0 { try await Task.sleep(for: Self.readAgain) }
      let found = try await SubjectRead(api, stream: stream, subject: subject).run()
      // Only now: a message must not be read from a stream that is being made (`JetStreamAPI.isBeingMade`).
      let newest = try await api.last(stream: stream, subject: subject)?.sequence ?? 0
      if newest <= found.last?.sequence ?? 0 { return found }
    }
    throw BusError.notReady("the replicas of \(stream) lag behind their leader")
  }
}

extension NATSBus {
  public func openHistories(_ options: HistoryOptions) async throws -> JetStreamHistories {
    JetStreamHistories(self, options)
  }
}
