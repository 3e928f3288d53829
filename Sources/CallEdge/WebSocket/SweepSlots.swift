/// Sessions that are each looked at once in so many ticks, a part of them in each.
package struct SweepSlots<Session> {
  private var slots: [[UInt64: Session]]

  /// - Parameter count: of ticks in a sweep.
  package init(count: Int) { slots = Array(repeating: [:], count: max(1, count)) }

  /// Numbers are given in turn, so that sessions which come together lie in all slots.
  private func slot(_ number: UInt64) -> Int {
    Int((number >> EdgeLoop.indexBits) % UInt64(slots.count))
  }

  package mutating func add(_ number: UInt64, _ session: Session) {
    slots[slot(number)][number] = session
  }

  package mutating func remove(_ number: UInt64) {
    slots[slot(number)].removeValue(forKey: number)
  }

  /// Whom to look at in this tick. A copy: who is looked at may take itself off.
  package func due(at tick: UInt64) -> [Session] {
    Array(slots[Int(tick % UInt64(slots.count))].values)
  }
}
