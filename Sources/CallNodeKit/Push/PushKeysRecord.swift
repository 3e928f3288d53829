package import CallAuth
package import CallBus
internal import CallTelemetry
internal import CallWire
internal import Logging

/// The cluster's keys for what pushes allow: 32 random bytes that the first coordinator or gateway
/// makes, kept in the configuration bucket. Edges and gateways follow the record, so that a new key in
/// front of it is in force everywhere at once.
package enum PushKeysRecord {
  package static let key = "push-keys"

  /// Sees that there is a record. Of several nodes that make one, one wins.
  package static func ensure(_ bucket: some KeyValueBucket) async throws {
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
  package static func follow(
    _ bucket: some KeyValueBucket, _ ring: PushKeyring,
    unreadable: @escaping @Sendable (String) -> Void
  ) async throws -> any BusSubscription {
    try await bucket.watch(key) { entry in
      guard let value = entry.value else { return }
      do {
        ring.replace(with: try PushCapabilityKeys(try ClusterCodec.pushKeys(value).keys))
      } catch {
        unreadable("\(error)")
      }
    }
  }
}
