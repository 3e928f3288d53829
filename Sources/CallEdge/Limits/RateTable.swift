package import CallCore

/// Rate limits by user or by address: one token bucket for each key, on whichever connection a request comes.
/// Behind a proxy users share connections, and one user may open many.
///
/// A key that is silent until its bucket is full again is forgotten. For that there are two tables, and the older
/// one is dropped as a whole when its time is over. Policy where too many keys come within that time: the older
/// table is dropped early, and its keys begin with full buckets.
package struct RateTable<Key: Hashable & Sendable> {
  private var young: [Key: TokenBucket] = [:]
  private var old: [Key: TokenBucket] = [:]
  private var turnsAt: Timestamp
  private let perSecond: Int
  private let burst: Int
  private let entriesMax: Int
  /// How long it takes to fill an empty bucket.
  private let fill: Span

  /// How many keys were forgotten before their time.
  package private(set) var forgottenEarly: UInt64 = 0
  package var count: Int { young.count + old.count }

  /// - Parameter entriesMax: the size of each of the two tables.
  package init(perSecond: Int, burst: Int, entriesMax: Int, now: Timestamp) {
    self.perSecond = max(1, perSecond)
    self.burst = burst
    self.entriesMax = max(1, entriesMax)
    fill = .seconds(Int64(burst / self.perSecond) + 1)
    turnsAt = now + fill
  }

  /// Takes one request, or `cost` thousandths of one.
  /// - Parameter mayOverdraw: as in `TokenBucket`.
  /// - Returns: nil; or the milliseconds to wait where the rate is exceeded.
  package mutating func charge(
    _ key: Key, cost: Int64 = 1000, mayOverdraw: Bool = false, now: Timestamp
  ) -> UInt32? {
    if turnsAt <= now { turn(now: now) }
    if let known = young.index(forKey: key) {
      return young.values[known].consume(
        cost: cost, mayOverdraw: mayOverdraw, perSecond: perSecond, burst: burst, now: now)
    }
    var bucket = old.removeValue(forKey: key) ?? newcomer(now: now)
    let wait = bucket.consume(
      cost: cost, mayOverdraw: mayOverdraw, perSecond: perSecond, burst: burst, now: now)
    if young.count >= entriesMax {
      forgottenEarly += UInt64(old.count)
      turn(now: now)
    }
    young[key] = bucket
    return wait
  }

  /// The result that `take` would return.
  package func wait(_ key: Key, cost: Int64 = 1000, now: Timestamp) -> UInt32? {
    guard var bucket = young[key] ?? old[key] else { return nil }
    return bucket.consume(cost: cost, perSecond: perSecond, burst: burst, now: now)
  }

  private func newcomer(now: Timestamp) -> TokenBucket { TokenBucket(burst: burst, now: now) }

  private mutating func turn(now: Timestamp) {
    // No request came for two turns: the young table is as stale as the old one.
    old = turnsAt + fill <= now ? [:] : young
    young = [:]
    turnsAt = now + fill
  }
}

/// The key by which the rate of HTTP requests with a credential counts.
package struct RateKey: Hashable, Sendable {
  package var user: UserKey
  /// The device that the credential is bound to; empty where it is good for all of the user's devices. The device
  /// that a request names does not count, since it could name another one each time.
  package var device: DeviceID

  package init(user: UserKey, device: DeviceID) {
    self.user = user
    self.device = device
  }
}
