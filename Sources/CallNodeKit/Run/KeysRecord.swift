package import CallAuth
package import CallBus
internal import CallTelemetry
internal import CallWire
internal import Logging
internal import Synchronization

/// Keys that the cluster generates: 32 random bytes, written by the first coordinator, in buckets that only the roles
/// that need them may read. Nodes watch the records, so that a new first key takes effect everywhere at once.
package enum KeysRecord {
  /// For what pushes allow: coordinators and gateways follow them. In the version before they were in the
  /// configuration's bucket, under the same name.
  package static let push = "push-keys"
  /// In the configuration's bucket: their public halves, for edges.
  package static let publicPush = "push-verify"
  /// For session tickets; coordinators alone may read them.
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

  /// The same of the keys for pushes. A cluster of the version before keeps its keys: pushes that they signed are on
  /// their way. Edges get the public halves.
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

  /// The same of who only verifies pushes. While keys of the version before are in this bucket, so may be gateways of
  /// that version: what they sign is taken.
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
