internal import CallCore
internal import DequeModule

/// Sessions that ended lately, so that a shard that missed the news can be told again when it still
/// speaks to one. Bounded; forgets the oldest.
struct ClosedSessions {
  private struct Entry {
    var farewell: DeviceSession.Farewell
    var toldAt: Timestamp
  }
  private var entries: [UInt64: Entry] = [:]
  private var order: Deque<UInt64> = []

  static let capacity = 4096
  /// Not more often than this per session: what a shard repeats meanwhile was on its way.
  static let interval = Span.seconds(1)

  mutating func add(_ farewell: DeviceSession.Farewell, session: UInt64, now: Timestamp) {
    if order.count >= Self.capacity, let oldest = order.popFirst() {
      entries.removeValue(forKey: oldest)
    }
    order.append(session)
    entries[session] = Entry(farewell: farewell, toldAt: now)
  }

  /// What to tell a shard that has a delivery for a session.
  /// - Returns: the command; nil for a session that is not known, or was reported just now.
  mutating func reminder(of delivery: Delivery, session: SessionRef, now: Timestamp) -> Command? {
    guard let entry = entries[session.number], now >= entry.toldAt + Self.interval else {
      return nil
    }
    entries[session.number]?.toldAt = now
    let farewell = entry.farewell
    let callee = UserKey(app: farewell.user.app, user: delivery.callee)
    // To the callee's devices the shard speaks as to sessions; to the caller's, because of the call.
    let body: Command.Body =
      callee == farewell.user
      ? .sessionClosed(graceful: farewell.graceful) : .callerGone([delivery.call])
    var command = Command(
      session: session, request: 0, user: farewell.user, device: farewell.device, callee: callee,
      body: body)
    command.credential = farewell.credential
    return command
  }
}
