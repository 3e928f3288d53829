/// Users with an unregistered device whose session broke shortly after it had replaced another one.
///
/// The shard knows such a device by its session alone, so without one it is gone (R19). But an attach that was delayed
/// by an outage may replace the session that the device still uses, and then break with the old socket on which it
/// was sent. The device is about to attach again, so a call to its user waits for it.
package struct BrokenSessions: Sendable {
  package init() {}

  private var times: [UserKey: Timestamp] = [:]
  /// At this size the entries whose time is over are dropped.
  private var sweepAt = Self.sweepAtLeast
  private static let sweepAtLeast = 64

  package var count: Int { times.count }

  /// - Parameter grace: how long a user is remembered.
  package mutating func note(_ user: UserKey, at now: Timestamp, grace: Span) {
    times[user] = now
    guard times.count >= sweepAt else { return }
    times = times.filter { now < $0.value + grace }
    sweepAt = max(Self.sweepAtLeast, 2 * times.count)
  }

  /// The user has a session again.
  mutating func forget(_ user: UserKey) {
    if !times.isEmpty { times[user] = nil }
  }

  /// Until when a device of the user may come back; nil where none is expected.
  func awaited(_ user: UserKey, now: Timestamp, grace: Span) -> Timestamp? {
    guard let until = times[user].map({ $0 + grace }), now < until else { return nil }
    return until
  }
}
