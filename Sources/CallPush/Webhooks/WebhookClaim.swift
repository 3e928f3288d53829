internal import CallAuth
internal import CallBus
package import CallCore
internal import CallWire

/// The claim of a webhook: the record of its progress, which its owner writes again before others take over.
///
/// No clocks are compared: who waits for a webhook sees whether its record changes.
package struct WebhookClaim: Sendable {
  struct Held: Sendable {
    var progress: WebhookProgress
    var revision: UInt64
  }

  /// A record that does not change for this long has no owner.
  package static let lease = Span.seconds(10)
  /// Early enough to repeat a write whose answer does not come, which is known after 5 or 6 s, within the lease.
  static let renewInterval = Span.seconds(3)
  /// The owner posts nothing while its last write was begun longer ago.
  static let postsWithin = Span.seconds(5)
  private static let lookInterval = Span.seconds(2)
  /// Before a webhook is first claimed, its events may be stored already: an edge may read new settings before a
  /// gateway does.
  static let headStart = Span.seconds(300)

  let bucket: any KeyValueBucket
  let app: String
  let endpoint: SignedEndpoint
  let owner: String
  let clock: ClusterClock

  var key: String { Self.key(app: app, endpoint: endpoint.id) }

  static func key(app: String, endpoint: String) -> String {
    "\(Subjects.keyPart(app)).\(endpoint)"
  }

  /// Waits until no gateway owns the webhook, and claims it.
  /// - Returns: nil when `isEnded` returns true.
  func wait(unless isEnded: () -> Bool) async -> Held? {
    var seen: (revision: UInt64, since: Timestamp)?
    while !Task.isCancelled, !isEnded() {
      if let entry = try? await read() {
        let now = clock.now()
        if seen?.revision != entry.revision { seen = (entry.revision, now) }
        let isSilent = seen.map { $0.since + Self.lease <= now } ?? false
        if entry.progress.owner.isEmpty || entry.progress.owner == owner || isSilent,
          let held = await claim(entry)
        {
          return held
        }
      } else {
        // Perhaps the owner cannot write either: silence counts only while this gateway can read.
        seen = nil
      }
      await clock.sleep(for: Self.lookInterval)
    }
    return nil
  }

  /// The present record. One that cannot be read counts as none.
  /// - Throws: `BusError`.
  private func read() async throws -> Held {
    let entry = try await bucket.get(key)
    let fresh = WebhookProgress(
      app: app, host: endpoint.host,
      since: clock.now() + Span(microseconds: -Self.headStart.microseconds))
    return Held(
      progress: entry?.value.flatMap { try? ClusterCodec.webhookProgress($0) } ?? fresh,
      revision: entry?.revision ?? 0)
  }

  private func claim(_ entry: Held) async -> Held? {
    var progress = entry.progress
    progress.owner = owner
    progress.writtenAt = clock.now()
    let result = await bucket.put(
      key, ClusterCodec.encode(progress), expecting: entry.revision)
    guard case .appended(let revision) = result else { return nil }
    return Held(progress: progress, revision: revision)
  }

  /// Writes progress.
  /// - Parameter isKept: whether the webhook stays this gateway's.
  func save(_ progress: WebhookProgress, isKept: Bool, expecting revision: UInt64) async
    -> AppendResult
  {
    var progress = progress
    progress.owner = isKept ? owner : ""
    progress.writtenAt = clock.now()
    let result = await bucket.put(key, ClusterCodec.encode(progress), expecting: revision)
    guard case .unknown = result else { return result }
    // Perhaps it is stored.
    guard let entry = try? await bucket.get(key), let value = entry.value,
      let found = try? ClusterCodec.webhookProgress(value)
    else { return result }
    if found == progress { return .appended(sequence: entry.revision) }
    return entry.revision == revision ? result : .refused
  }
}
