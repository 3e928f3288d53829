package import CallCore

/// Rate limits by user or by address: one bucket for each, whichever connection a request comes on. Users
/// share connections behind a proxy, and one user may open many.
///
/// Whoever is silent until its bucket is full again is as one who never spoke, and is forgotten: there
/// are two tables, and when the older one's time is over it is dropped whole. Policy where too many
/// speak within that time: the older table goes early, and those in it begin with full buckets.
package struct RateTable<Key: Hashable & Sendable> {
  private var young: [Key: TokenBucket] = [:]
  private var old: [Key: TokenBucket] = [:]
  private var turnsAt: Timestamp
  private let perSecond: Int
  private let burst: Int
  private let entriesMax: Int
  /// How long an empty bucket takes to be full.
  private let fill: Span

  /// Those that were forgotten before their time.
  package private(set) var forgottenEarly: UInt64 = 0
  package var count: Int { young.count + old.count }

  /// - Parameter entriesMax: of each of the two tables.
  package init(perSecond: Int, burst: Int, entriesMax: Int, now: Timestamp) {
    self.perSecond = max(1, perSecond)
    self.burst = burst
    self.entriesMax = max(1, entriesMax)
    fill = .seconds(Int64(burst / self.perSecond) + 1)
    turnsAt = now + fill
  }

  /// Takes one request, or `cost` thousandths of one.
  /// - Returns: nil, or after how many milliseconds it will be taken.
  package mutating func take(_ key: Key, cost: Int64 = 1000, now: Timestamp) -> UInt32? {
    if turnsAt <= now { turn(now: now) }
    var bucket = young[key] ?? old.removeValue(forKey: key) ?? newcomer(now: now)
    let wait = bucket.take(cost: cost, perSecond: perSecond, burst: burst, now: now)
    if young[key] == nil, young.count >= entriesMax {
      forgottenEarly += UInt64(old.count)
      turn(now: now)
    }
    young[key] = bucket
    return wait
  }

  /// What `take` would return; takes nothing.
  package func wait(_ key: Key, cost: Int64 = 1000, now: Timestamp) -> UInt32? {
    guard var bucket = young[key] ?? old[key] else { return nil }
    return bucket.take(cost: cost, perSecond: perSecond, burst: burst, now: now)
  }

  private func newcomer(now: Timestamp) -> TokenBucket { TokenBucket(burst: burst, now: now) }

  private mutating func turn(now: Timestamp) {
    // Nobody spoke for two turns: the young are as stale as the old.
    old = turnsAt + fill <= now ? [:] : young
    young = [:]
    turnsAt = now + fill
  }
}

/// Who is counted as one for the rate of HTTP requests with a credential.
package struct RateKey: Hashable, Sendable {
  package var user: UserKey
  /// The device that the credential is bound to; empty where it is good for all of the user's. What
  /// a request merely calls itself does not count, or it would escape by another name each time.
  package var device: DeviceID

  package init(user: UserKey, device: DeviceID) {
    self.user = user
    self.device = device
  }
}
