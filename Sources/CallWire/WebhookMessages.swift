internal import CCallProto
public import CallCore

/// An event that a webhook did not take in time, in the stream of dead letters.
public struct DeadLetter: Sendable, Equatable {
  public var event: AppEvent
  /// Identifies the webhook; the same as in the key of its `WebhookProgress`.
  public var endpoint: String
  public var host: String
  /// The number of attempts of the gateway that gave it up.
  public var attempts: UInt32
  /// The outcome of the last attempt.
  public var reason: String
  public var at: Timestamp
  public init(
    event: AppEvent, endpoint: String, host: String, attempts: UInt32, reason: String, at: Timestamp
  ) {
    self.event = event
    self.endpoint = endpoint
    self.host = host
    self.attempts = attempts
    self.reason = reason
    self.at = at
  }
}

/// How far the events of an app have come to one of its webhooks. A gateway owns a webhook while it writes this record,
/// by compare-and-set.
public struct WebhookProgress: Sendable, Equatable {
  /// An event by its place in the stream.
  public struct Place: Sendable, Hashable, Comparable {
    public var sequence: UInt64
    /// In the message.
    public var index: UInt32
    public init(sequence: UInt64, index: UInt32) {
      self.sequence = sequence
      self.index = index
    }
    public static func < (left: Place, right: Place) -> Bool {
      (left.sequence, left.index) < (right.sequence, right.index)
    }
  }

  /// The run of the gateway that delivers; empty: none does.
  public var owner = ""
  public var app: String
  public var host: String
  /// Events that were stored before are not for this webhook.
  public var since: Timestamp
  /// The first sequence of the stream that was not read.
  public var next: UInt64 = 1
  /// Events before `next` that are not delivered, in order.
  public var open: [Place] = []
  public var delivered: UInt64 = 0
  /// Attempts that failed.
  public var failures: UInt64 = 0
  public var deadLetters: UInt64 = 0
  /// When the oldest open event was stored; nil: none is open.
  public var oldest: Timestamp?
  /// Empty while the webhook takes what comes.
  public var lastFailure = ""
  /// It has answered 410: it is asked once an hour whether it is back.
  public var isGone = false
  public var writtenAt: Timestamp = .zero
  public init(app: String, host: String, since: Timestamp) {
    self.app = app
    self.host = host
    self.since = since
  }
}

extension ClusterCodec {
  /// One message of the stream of events.
  public static func encode(_ events: [AppEvent]) -> [UInt8] {
    Packer.bytes(Callmesh__V1__AppEvents.self, AppEventBatch(events: events))
  }
  public static func encode(_ value: DeadLetter) -> [UInt8] {
    Packer.bytes(Callmesh__V1__DeadLetter.self, value)
  }
  public static func encode(_ value: WebhookProgress) -> [UInt8] {
    Packer.bytes(Callmesh__V1__WebhookProgress.self, value)
  }
  /// - Throws: for bytes that are no such message.
  public static func appEvents(_ bytes: [UInt8]) throws(WireError) -> AppEventBatch {
    try read(Callmesh__V1__AppEvents.self, bytes, "events")
  }
  /// - Throws: for bytes that are no such message.
  public static func deadLetter(_ bytes: [UInt8]) throws(WireError) -> DeadLetter {
    try read(Callmesh__V1__DeadLetter.self, bytes, "dead letter")
  }
  /// - Throws: for bytes that are no such message.
  public static func webhookProgress(_ bytes: [UInt8]) throws(WireError) -> WebhookProgress {
    try read(Callmesh__V1__WebhookProgress.self, bytes, "webhook progress")
  }
}
