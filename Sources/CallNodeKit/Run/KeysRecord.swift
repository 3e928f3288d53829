package import CallAuth
package import CallBus
internal import CallTelemetry
internal import CallWire
internal import Logging
internal import Synchronization

/// Keys that the cluster generates: 32 random bytes, written by the first coordinator, in buckets that only the roles
/// that need them may read. Nodes watch the records, so that a new first key takes effect everywhere at once.
package enum KeysRecord {
  /// The keys for push capabilities, which coordinators and gateways follow. The previous version kept them in the
  /// configuration's bucket, under the same name.
  package static let push = "push-keys"
  /// The public halves of those keys, in the configuration's bucket, for edges.
  package static let publicPush = "push-verify"
  /// The keys for session tickets. Only coordinators may read them.
  package static let tickets = "keys"

  /// Creates the record unless it exists. Of several nodes that create one, one wins.
  /// - Parameter former: the record's content; nil: new keys.
  /// - Throws: `BusError` where the record can neither be read nor written.
  package static func ensure(
    _ key: String, in bucket: some KeyValueBucket, former: [UInt8]? = nil
  ) async throws {
    let made = PushKeys(keys: [(0..<PushKeys.keyBytes).map { _ in UInt8.random(in: 0...255) }])
    try await write(former ?? ClusterCodec.encode(made), key, to: bucket) { $0 != nil }
  }

  /// As `ensure`, for the keys for push capabilities, and publishes their public halves for edges. A cluster of the
  /// previous version keeps its keys, since devices still use pushes that they signed.
  /// - Throws: `BusError`, or what the codec throws for a record that cannot be read.
  package static func ensurePush(
    in keys: some KeyValueBucket, configuration: some KeyValueBucket
  ) async throws {
    try await ensure(push, in: keys, former: try await configuration.get(push)?.value)
    guard let record = try await keys.get(push)?.value else {
      throw BusError.notReady("the record \(push) cannot be read")
    }
    let made = try PushCapabilityKeys(try ClusterCodec.pushKeys(record).keys)
    let wanted = ClusterCodec.encode(PushKeys(keys: made.publicKeys))
    try await write(wanted, publicPush, to: configuration) { $0?.value == wanted }
  }

  private static func write(
    _ value: [UInt8], _ key: String, to bucket: some KeyValueBucket,
    unless isWritten: (KeyValueEntry?) -> Bool
  ) async throws {
    guard try await bucket.update(key, { isWritten($0) ? nil : value }) == nil else {
      throw BusError.notReady("the record \(key) cannot be written")
    }
  }

  /// Fills the ring, now and whenever the record changes. A record that cannot be read leaves the ring unchanged.
  /// - Throws: `BusError` where the record cannot be watched.
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

  /// As `follow`, for nodes that only verify push capabilities. While this bucket has keys of the previous version,
  /// gateways of that version may still run, so those keys are accepted as well.
  /// - Throws: `BusError` where the records cannot be watched.
  package static func followPublic(
    _ configuration: some KeyValueBucket, _ ring: PushKeyring,
    unreadable: @escaping @Sendable (String) -> Void
  ) async throws -> any BusSubscription {
    let seen = Mutex<(publicKeys: [[UInt8]], former: [[UInt8]])>(([], []))
    return try await configuration.watch("*") { entry in
      guard entry.key == push || entry.key == publicPush else { return }
      do {
        let found = try entry.value.map { try ClusterCodec.pushKeys($0).keys } ?? []
        let known = seen.withLock { seen in
          if entry.key == push { seen.former = found } else { seen.publicKeys = found }
          return seen
        }
        if !known.publicKeys.isEmpty {
          ring.replace(
            with: try PushCapabilityKeys(publicKeys: known.publicKeys, former: known.former))
        }
      } catch {
        unreadable("\(error)")
      }
    }
  }
}
