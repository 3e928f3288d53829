/// A rate limit: `burst` commands at once, and `perSecond` in the long run. Full at first.
package struct TokenBucket {
  /// Thousandths of a command.
  private var level: Int64
  private var filledAt: Timestamp

  package init(burst: Int, now: Timestamp) {
    level = Int64(burst) * 1000
    filledAt = now
  }

  /// Consumes `cost` thousandths of a command, if they are there.
  /// - Parameter mayOverdraw: as much again as the bucket holds, for what must not wait behind the rest.
  /// - Returns: nil, or after how many milliseconds they will be.
  package mutating func consume(
    cost: Int64 = 1000, mayOverdraw: Bool = false, perSecond: Int, burst: Int, now: Timestamp
  ) -> UInt32? {
    let elapsed = max(0, (now - filledAt).microseconds)
    // More than the bucket holds is no use, and keeps the product small.
    let gained = min(elapsed, 3_600_000_000) * Int64(perSecond) / 1000
    if gained > 0 {
      level = min(Int64(burst) * 1000, level + gained)
      filledAt = now
    }
    let reserve = mayOverdraw ? Int64(burst) * 1000 : 0
    guard level + reserve < cost else {
      level -= cost
      return nil
    }
    return UInt32(clamping: max(1, (cost - level - reserve) / Int64(max(1, perSecond))))
  }
}

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
    let admits = times[caller, default: []].admits(now, since: since, max: perMinute)
    if times.count >= sweepAt { sweep(since: since) }
    return admits
  }

  private mutating func sweep(since: Timestamp) {
    visits += times.count
    times = times.filter { $0.value.contains { $0 > since } }
    sweepAt = max(Self.sweepAtLeast, 2 * times.count)
  }
}

extension [Timestamp] {
  fileprivate mutating func admits(_ now: Timestamp, since: Timestamp, max: Int) -> Bool {
    removeAll { $0 <= since }
    if count >= max { return false }
    append(now)
    return true
  }
}
