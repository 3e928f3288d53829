/// How often each caller called one user in the last minute.
///
/// However many callers there are, one more costs a constant: callers without a call in that minute are dropped
/// when the table has doubled since the last sweep.
package struct PairRates: Sendable {
  package init() {}

  private var times: [UserKey: [Timestamp]] = [:]
  private var sweepAt = Self.sweepAtLeast
  private static let sweepAtLeast = 64

  package var count: Int { times.count }
  /// Entries that sweeps have visited.
  package private(set) var visits = 0

  /// Counts one more call, unless there were too many.
  package mutating func admits(_ caller: UserKey, now: Timestamp, perMinute: Int) -> Bool {
    let since = Timestamp(microseconds: now.microseconds - 60_000_000)
    var calls = (times[caller] ?? []).filter { $0 > since }
    let admits = calls.count < perMinute
    if admits { calls.append(now) }
    times[caller] = calls
    if times.count >= sweepAt { sweep(since: since) }
    return admits
  }

  private mutating func sweep(since: Timestamp) {
    visits += times.count
    times = times.filter { $0.value.contains { $0 > since } }
    sweepAt = max(Self.sweepAtLeast, 2 * times.count)
  }
}
