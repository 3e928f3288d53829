package import CallCore
internal import DequeModule

/// The sessions of one event loop that ended recently. A shard that still sends deliveries to one of them has
/// missed its end, which is then reported again.
///
/// Policy when full: forget the oldest. Entries that are forgotten before `keptFor` is over are counted.
package struct ClosedSessions {
  private struct Entry {
    let end: DeviceSession.End
    let endedAt: Timestamp
    var reportedAt: Timestamp
  }
  private var entries: [UInt64: Entry] = [:]
  private var order: Deque<UInt64> = []
  /// How many entries were forgotten before `keptFor` was over.
  package private(set) var forgottenEarly: UInt64 = 0

  package static let capacity = 4096
  /// How long a session is kept at least, where there is room. A shard that has not learned of the end by
  /// then has lost the session in another way.
  package static let keptFor = Span.seconds(60)
  /// A session's end is not reported more often than this: what a shard sends meanwhile was under way.
  static let interval = Span.seconds(1)

  package init() {}

  package var count: Int { entries.count }

  package mutating func add(_ end: DeviceSession.End, session: UInt64, now: Timestamp) {
    while let oldest = order.first, let entry = entries[oldest] {
      let isOld = entry.endedAt + Self.keptFor <= now
      guard isOld || order.count >= Self.capacity else { break }
      if !isOld { forgottenEarly += 1 }
      order.removeFirst()
      entries.removeValue(forKey: oldest)
    }
    order.append(session)
    entries[session] = Entry(end: end, endedAt: now, reportedAt: now)
  }

  /// The commands that report a session's end again, since a shard has a delivery for the session: it has the session as
  /// its caller's, or knows it from the user's shard.
  /// - Returns: none for a session that is not known, or whose end was reported just now.
  mutating func reminders(of delivery: Delivery, session: SessionRef, now: Timestamp) -> [Command] {
    guard let entry = entries[session.number], now >= entry.reportedAt + Self.interval else {
      return []
    }
    entries[session.number]?.reportedAt = now
    let end = entry.end
    let callee = UserKey(app: end.user.app, user: delivery.callee)
    let ends: [(UserKey, Command.Body)] = [
      (end.user, .sessionClosed(graceful: end.isGraceful)), (callee, .callerGone([delivery.call])),
    ]
    return ends.map { callee, body in
      var command = Command(
        session: session, request: 0, user: end.user, device: end.device, callee: callee,
        body: body)
      command.credential = end.credential
      return command
    }
  }
}

/// A timer wheel: each session lies in one of its slots, and each tick handles one slot. So every session is
/// handled once in a turn of the wheel, and the work is spread over the ticks.
package struct TimerWheel<Session> {
  private var slots: [[UInt64: Session]]

  /// - Parameter slotCount: how many ticks a turn of the wheel takes.
  package init(slotCount: Int) { slots = Array(repeating: [:], count: max(1, slotCount)) }

  /// Session numbers are consecutive, so sessions that begin together are spread over all slots.
  private func slot(_ number: UInt64) -> Int {
    Int((number >> EdgeLoop.indexBits) % UInt64(slots.count))
  }

  package mutating func add(_ number: UInt64, _ session: Session) {
    slots[slot(number)][number] = session
  }

  package mutating func remove(_ number: UInt64) {
    slots[slot(number)].removeValue(forKey: number)
  }

  /// The sessions of this tick. It is a copy, since handling a session may remove it.
  package func due(at tick: UInt64) -> [Session] {
    Array(slots[Int(tick % UInt64(slots.count))].values)
  }
}
