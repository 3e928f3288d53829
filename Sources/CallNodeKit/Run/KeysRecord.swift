package import CallAuth
package import CallBus
internal import CallTelemetry
internal import CallWire
internal import Logging

/// Keys that the cluster makes for itself: 32 random bytes, written by the first node that needs them and
/// may make them. Nodes follow the record, so that a new key in front of it is in force everywhere at once.
package enum KeysRecord {
  /// In the configuration bucket: for what pushes allow. Edges and gateways follow it.
  package static let push = "push-keys"
  /// In a bucket of its own, that coordinators alone may read: for session tickets.
  package static let tickets = "keys"

  /// Sees that there is a record. Of several nodes that make one, one wins.
  package static func ensure(_ key: String, in bucket: some KeyValueBucket) async throws {
    for _ in 0..<5 {
      if try await bucket.get(key) != nil { return }
      let record = PushKeys(keys: [(0..<PushKeys.keyBytes).map { _ in UInt8.random(in: 0...255) }])
      let result = await withCheckedContinuation { continuation in
        bucket.put(key, ClusterCodec.encode(record), expecting: 0) {
          continuation.resume(returning: $0)
        }
      }
      if case .appended = result { return }
    }
    throw BusError.notReady("the record \(key) cannot be written")
  }

  /// Fills the ring, now and whenever the record changes. A record that cannot be read leaves the
  /// ring as it is.
  package static func follow<Keys>(
    _ key: String, in bucket: some KeyValueBucket, _ ring: Keyring<Keys>,
    _ make: @escaping @Sendable ([[UInt8]]) throws -> Keys,
    unreadable: @escaping @Sendable (String) -> Void
  ) async throws -> any BusSubscription {
    try await bucket.watch(key) { entry in
      guard let value = entry.value else { return }
      do {
        ring.replace(with: try make(try ClusterCodec.pushKeys(value).keys))
      } catch {
        unreadable("\(error)")
      }
    }
  }
}
