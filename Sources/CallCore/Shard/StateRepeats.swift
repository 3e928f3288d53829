/// When a board's state is sent to a session, until the session's edge acknowledges it.
///
/// A state has no deadline, and its next change may come in a week, so the repeats go on as long as the session does.
struct StateRepeats: Sendable {
  private var attempts = 0
  /// When to send it next.
  private(set) var nextAt = Timestamp(microseconds: 0)

  /// The pause after those of `CallLimits.deliveryRepeats`.
  private static let laterPause: Span = .seconds(8)

  /// Whether the state is sent in this turn. While the shard is held back, nothing is sent a second time.
  mutating func isDue(_ turn: borrowing Turn) -> Bool {
    guard nextAt <= turn.now else { return false }
    let repeats = turn.limits.deliveryRepeats
    guard attempts == 0 || !turn.isHeldBack else {
      nextAt = turn.now + (repeats.first ?? .seconds(1))
      return false
    }
    nextAt = turn.now + (attempts < repeats.count ? repeats[attempts] : Self.laterPause)
    attempts += 1
    return true
  }

  var isRepeated: Bool { attempts > 1 }
}
