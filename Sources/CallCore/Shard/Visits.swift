/// Calls of other shards that were diverted to users of this one. Their shards ask every few seconds, so an entry that
/// nobody has renewed goes.
struct Visits: Sendable {
  struct Visit: Sendable {
    var call: CallID
    var callee: String
    var answeredBy: DeviceID?
    /// The caller has called this user too often: it does not ring.
    var isRefused: Bool
    /// Since when it is known here.
    var since: Timestamp
    var until: Timestamp
  }

  /// Longer than a call's shard takes to get another owner.
  private static let memory = Guest.patience
  /// Of one user. Policy: the oldest goes.
  private static let countMax = 32
  private static let sweepAtLeast = 64

  private var byUser: [UserKey: [Visit]] = [:]
  private var sweepAt = Self.sweepAtLeast

  var isEmpty: Bool { byUser.isEmpty }

  /// - Parameter admits: asked once, when a call is new.
  /// - Returns: what is known of the call now.
  mutating func note(
    _ user: UserKey, _ request: VisitRequest, now: Timestamp, admits: () -> Bool
  ) -> Visit {
    let known = visit(request.call, to: user, now: now)
    let visit = Visit(
      call: request.call, callee: request.callee, answeredBy: request.answeredBy,
      isRefused: known?.isRefused ?? (request.answeredBy == nil && !admits()),
      since: known?.since ?? now, until: now + Self.memory)
    var visits = byUser[user, default: []].filter { now < $0.until && $0.call != request.call }
    if visits.count >= Self.countMax { visits.removeFirst() }
    visits.append(visit)
    byUser[user] = visits
    guard byUser.count >= sweepAt else { return visit }
    byUser = byUser.filter { $0.value.contains { now < $0.until } }
    sweepAt = max(Self.sweepAtLeast, 2 * byUser.count)
    return visit
  }

  func visit(_ call: CallID, to user: UserKey, now: Timestamp) -> Visit? {
    byUser[user]?.first { $0.call == call && now < $0.until }
  }

  /// Whether the user has answered one of them.
  func isInCall(_ user: UserKey, now: Timestamp) -> Bool {
    byUser[user]?.contains { $0.answeredBy != nil && now < $0.until } ?? false
  }
}
