internal import CallCore
internal import DequeModule

/// What is remembered for a while, and at most so much of it. Policy: the oldest goes first. The time
/// counts from the first insertion; what is over goes with the next one.
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
