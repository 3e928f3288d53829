public import Logging

/// The keys of log metadata. One vocabulary, so that a query that finds a call in one node's log
/// finds it in all of them.
///
/// Ids of users, devices and calls go to logs, never to metric labels. Tokens go nowhere.
public enum LogKey: String, CaseIterable, Sendable {
  // The place.
  case node, role, cluster, version, shard, shards, epoch, edge, session, subject, bucket
  // The subject.
  case app, user, device, call, callee, request, reason, state, purpose, topic, order
  case operatorName = "operator"
  // The event.
  case error, count, sessions, commands, code, milliseconds, sequence, owner, signal
  // The environment.
  case nats, host, port, path, key, client, address

  /// Whether the value is a number in JSON. Ids are text, even if they look like numbers.
  package var isNumber: Bool { Self.numbers.contains(self) }

  private static let numbers: Set<LogKey> = [
    .shard, .shards, .epoch, .count, .sessions, .commands, .code, .milliseconds, .sequence, .port,
  ]
}

extension Dictionary where Key == String, Value == Logger.MetadataValue {
  /// Metadata from typed keys: `metadata: .keys([.shard: "\(shard)"])`.
  public static func keys(_ pairs: KeyValuePairs<LogKey, Logger.MetadataValue>) -> Self {
    var out = Self(minimumCapacity: pairs.count)
    for (key, value) in pairs { out[key.rawValue] = value }
    return out
  }
}

extension Logger {
  /// Metadata that every line of this logger carries.
  public subscript(key: LogKey) -> Logger.MetadataValue? {
    get { self[metadataKey: key.rawValue] }
    set { self[metadataKey: key.rawValue] = newValue }
  }

  /// This logger with more metadata on every line.
  public func with(_ pairs: KeyValuePairs<LogKey, Logger.MetadataValue>) -> Logger {
    var copy = self
    for (key, value) in pairs { copy[key] = value }
    return copy
  }
}
