/// Calls of other shards that were diverted to users of this one. Their shards ask every few seconds, so an entry that
/// nobody has renewed goes.
struct Visits: Sendable {
  struct Visit: Sendable {
    var call: CallID
    var callee: String
    var answeredBy: DeviceID?
    var answeredAt: Timestamp?
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
  var users: Int { byUser.count }

  /// - Returns: since when the call is known.
  mutating func note(_ user: UserKey, _ request: VisitRequest, now: Timestamp) -> Timestamp {
    let since = visit(request.call, to: user, now: now)?.since ?? now
    var visits = byUser[user, default: []].filter { now < $0.until && $0.call != request.call }
    if visits.count >= Self.countMax { visits.removeFirst() }
    visits.append(
      Visit(
        call: request.call, callee: request.callee, answeredBy: request.answeredBy,
        answeredAt: request.answeredAt, since: since, until: now + Self.memory))
    byUser[user] = visits
    guard byUser.count >= sweepAt else { return since }
    byUser = byUser.filter { $0.value.contains { now < $0.until } }
    sweepAt = max(Self.sweepAtLeast, 2 * byUser.count)
    return since
  }

  func visit(_ call: CallID, to user: UserKey, now: Timestamp) -> Visit? {
    byUser[user]?.first { $0.call == call && now < $0.until }
  }

  /// Whether the user has answered one of them.
  func isInCall(_ user: UserKey, now: Timestamp) -> Bool {
    byUser[user]?.contains { $0.answeredBy != nil && now < $0.until } ?? false
  }
}
