/// The calls of a user whose end every device acknowledged, kept for late questions, in the order in which they
/// were settled. They are forgotten in nearly that order, so one is found near the front.
package struct SettledCalls: Sendable {
  package init() {}

  private var items: [CallID] = []
  /// Before this, all are forgotten.
  private var head = 0
  /// Entries that `remove` has visited.
  package private(set) var visits = 0

  package var isEmpty: Bool { head == items.count }
  package var all: ArraySlice<CallID> { items[head...] }

  package mutating func append(_ id: CallID) { items.append(id) }

  package mutating func remove(_ id: CallID) {
    guard let index = items[head...].firstIndex(of: id) else {
      visits += items.count - head
      return
    }
    visits += index - head + 1
    // Those before it move up by one: there are few.
    for place in stride(from: index, to: head, by: -1) { items[place] = items[place - 1] }
    head += 1
    if head == items.count {
      items = []
      head = 0
    } else if head > 32, 2 * head > items.count {
      items.removeFirst(head)
      head = 0
    }
  }
}
