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
