/// A shard's calls, close together in memory and changed in place: a dictionary of such large values
/// would copy them when it is read and move them when it grows.
struct CallTable: Sendable {
  /// In no order. Slots move when a call is removed.
  private(set) var slots: [Call] = []
  private var index: [CallID: Int] = [:]

  var count: Int { slots.count }

  func slot(of id: CallID) -> Int? { index[id] }

  func contains(_ id: CallID) -> Bool { index[id] != nil }

  subscript(slot: Int) -> Call {
    _read { yield slots[slot] }
    _modify { yield &slots[slot] }
  }

  /// - Precondition: there is no call of this id.
  mutating func insert(_ call: Call) {
    index[call.id] = slots.count
    slots.append(call)
  }

  mutating func remove(_ id: CallID) -> Call? {
    guard let slot = index.removeValue(forKey: id) else { return nil }
    if slot != slots.count - 1 {
      slots.swapAt(slot, slots.count - 1)
      index[slots[slot].id] = slot
    }
    return slots.removeLast()
  }
}
