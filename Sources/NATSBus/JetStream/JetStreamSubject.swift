/// The subjects of JetStream's API. `NATSPermissions` derives the roles' permissions from them.
enum JetStreamSubject {
  /// The prefix of all of them.
  static let api = "$JS.API."
  static let list = "STREAM.LIST"

  static func create(_ stream: String) -> String { "STREAM.CREATE.\(stream)" }
  static func information(_ stream: String) -> String { "STREAM.INFO.\(stream)" }
  static func message(_ stream: String) -> String { "STREAM.MSG.GET.\(stream)" }
  static func purge(_ stream: String) -> String { "STREAM.PURGE.\(stream)" }
  /// An ephemeral consumer, named by the server.
  static func follow(_ stream: String) -> String { "CONSUMER.CREATE.\(stream)" }
  static func unfollow(_ stream: String, _ consumer: String) -> String {
    "CONSUMER.DELETE.\(stream).\(consumer)"
  }
  /// The durable consumer of a work queue's lane.
  static func serve(_ stream: String, _ lane: String) -> String {
    "CONSUMER.DURABLE.CREATE.\(stream).\(lane)"
  }
  static func next(_ stream: String, _ lane: String) -> String {
    "CONSUMER.MSG.NEXT.\(stream).\(lane)"
  }

  /// The stream and the subjects of a bucket.
  static func stream(ofBucket name: String) -> String { "KV_\(name)" }
  static func prefix(ofBucket name: String) -> String { "$KV.\(name)." }
}
