/// A rate limit: `burst` commands at once, and `perSecond` in the long run. Full at first.
package struct TokenBucket {
  /// Thousandths of a command.
  private var level: Int64
  private var filledAt: Timestamp

  package init(burst: Int, now: Timestamp) {
    level = Int64(burst) * 1000
    filledAt = now
  }

  /// Takes `cost` thousandths of a command, if they are there.
  /// - Returns: nil, or after how many milliseconds they will be.
  package mutating func take(cost: Int64 = 1000, perSecond: Int, burst: Int, now: Timestamp)
    -> UInt32?
  {
    let elapsed = max(0, (now - filledAt).microseconds)
    // More than the bucket holds is no use, and keeps the product small.
    let gained = min(elapsed, 3_600_000_000) * Int64(perSecond) / 1000
    if gained > 0 {
      level = min(Int64(burst) * 1000, level + gained)
      filledAt = now
    }
    guard level < cost else {
      level -= cost
      return nil
    }
    return UInt32(clamping: max(1, (cost - level) / Int64(max(1, perSecond))))
  }
}
