internal import CallCore
internal import DequeModule

/// A bounded set whose elements expire. Policy when full: drop oldest. The time counts from the first insertion; an
/// expired element is removed at the next one.
struct RecentSet<Element: Hashable & Sendable>: Sendable {
  private let capacity: Int
  private let kept: Span
  private var elements: Set<Element> = []
  private var ages: Deque<(element: Element, until: Timestamp)> = []

  init(capacity: Int, kept: Span) {
    self.capacity = capacity
    self.kept = kept
  }

  func contains(_ element: Element) -> Bool { elements.contains(element) }

  mutating func insert(_ element: Element, now: Timestamp) {
    while let first = ages.first, first.until <= now || elements.count >= capacity {
      ages.removeFirst()
      elements.remove(first.element)
    }
    guard elements.insert(element).inserted else { return }
    ages.append((element, now + kept))
  }
}
