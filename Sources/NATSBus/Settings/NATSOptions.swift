public import CallBus

/// How a node uses NATS. Every limit says what happens when it is reached.
public struct NATSOptions: Sendable {
  /// The names of the streams and buckets.
  public var subjects: Subjects
  /// How long each server may take to be reached and to greet.
  public var connectTimeout: Duration = .seconds(2)
  /// Who the node is to servers, and by what it knows them.
  public var access = NATSAccess()
  /// How many messages may wait for the connection's thread, and as many again while the server
  /// does not read. Policy: refuse, and count.
  public var outboxMessagesMax = 65_536
  /// How many bytes of payload may wait. Policy: refuse, and count.
  public var outboxBytesMax = 64 << 20
  /// How many messages the library may hold for one subscription, between two runs of the
  /// connection's thread. Policy: drop the newest, and count.
  public var subscriptionMessagesMax: Int32 = 65_536
  public var subscriptionBytesMax: Int32 = 64 << 20
  /// How many writes to one stream may wait for their acknowledgement. Policy: refuse.
  public var streamWritesMax = 262_144
  /// How long a question to JetStream (create a stream, purge, information), and a write to a bucket, waits for
  /// its answer.
  public var managementTimeout: Duration = .seconds(5)
  /// The same for reading one message. A stream without a leader does not answer at all, and whoever
  /// asks again soon after there is one does not wait for the end of a long time.
  public var readTimeout: Duration = .seconds(1)
  /// The same for making a consumer, which listing a bucket and watching it need. In a cluster that is for
  /// the leader of all servers to do: while there is none nobody answers.
  public var consumerTimeout: Duration = .seconds(2)
  /// How long `close` tries to send what is queued.
  public var closeTimeout: Duration = .seconds(1)
  /// Hears what operators should read in the log. Called on threads of the bus: short, no waiting.
  public var onEvent: @Sendable (NATSEvent) -> Void = { _ in }

  /// As whom it takes answers: servers let each role hear its own only. nil: as anybody.
  public var role: String?

  public init(subjects: Subjects) {
    self.subjects = subjects
  }
}

public enum NATSEvent: Sendable, Equatable {
  case connected(server: String)
  case disconnected
  case reconnected(server: String)
  /// The connection is over and will not come back: the server refused the credentials, or `close`.
  case closed
  /// What the library reports beside the calls: a permission that is missing, a slow consumer.
  case failure(String)
}
