/// Calls of other shards that were diverted to users of this one. Their shards ask every few seconds, so an entry that
/// was not renewed is dropped.
struct Visits: Sendable {
  struct Visit: Sendable {
    var call: CallID
    var callee: String
    var caller: String
    var callerName: String
    var answeredBy: DeviceID?
    var answeredAt: Timestamp?
    /// It has stopped ringing here, and was not answered here.
    var isOver: Bool
    var round: UInt8
    /// The number of the newest question about it.
    var number: UInt64
    /// The caller has called this user too often: it does not ring.
    var isRefused: Bool
    /// Since when it is known here.
    var since: Timestamp
    var until: Timestamp
  }

  /// A call's shard gets another owner sooner.
  private static let memory = Guest.answerTimeout
  /// Visits kept for one user. Policy: one that is over goes, or else the oldest that rings. A user would count as free
  /// without the visit of a call that the user has answered.
  private static let countMax = 256
  private static let sweepAtLeast = 64

  private var byUser: [UserKey: [Visit]] = [:]
  private var sweepAt = Self.sweepAtLeast

  var isEmpty: Bool { byUser.isEmpty }

  /// - Parameter admits: asked once, when a call is new.
  /// - Returns: what is known of the call now.
  mutating func note(
    _ user: UserKey, _ request: VisitRequest, now: Timestamp, admits: () -> Bool
  ) -> Visit {
    var known = visit(request.call, to: user, now: now)
    // A question that was retransmitted may be older than the last one.
    if let known, request.number != 0, request.number < known.number { return known }
    if let round = known?.round, request.round > round { known = nil }
    let visit = Visit(
      call: request.call, callee: request.callee, caller: request.caller,
      callerName: request.callerName,
      answeredBy: request.isOver ? nil : request.answeredBy, answeredAt: request.answeredAt,
      isOver: request.isOver,
      round: max(request.round, known?.round ?? 0), number: request.number,
      isRefused: known?.isRefused
        ?? (request.answeredBy == nil && !request.isOver && !admits()),
      since: known?.since ?? now, until: now + Self.memory)
    var visits = byUser[user, default: []].filter { now < $0.until && $0.call != request.call }
    if visits.count >= Self.countMax {
      visits.remove(
        at: visits.firstIndex(where: \.isOver) ?? visits.firstIndex { $0.answeredBy == nil } ?? 0)
    }
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

  /// The calls that the user has answered.
  func answered(_ user: UserKey, now: Timestamp) -> [Visit] {
    byUser[user, default: []].filter { $0.answeredBy != nil && now < $0.until }
  }
}
