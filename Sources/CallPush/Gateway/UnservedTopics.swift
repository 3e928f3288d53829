package import CallCore
internal import DequeModule

/// Determines the sender of a token: provider, environment and topic.
package struct PushTopic: Sendable, Hashable {
  package var provider: PushProvider
  package var environment: String
  package var topic: String

  package init(_ token: PushToken) {
    provider = token.provider
    environment = token.environment
    topic = token.topic
  }
}

/// The topics for which jobs were rejected since no gateway has a sender. Bounded, since devices choose topics.
package struct UnservedTopics: Sendable {
  package struct Entry: Sendable {
    package var topic: PushTopic
    /// Jobs that were rejected.
    package var jobs: UInt64
    package var newestAt: Timestamp
    var log = LogOnce()
  }

  private let capacity: Int
  private var entries: [PushTopic: Entry] = [:]
  /// Due log lines.
  private var lines: [(topic: PushTopic, jobs: Int)] = []

  init(capacity: Int) { self.capacity = capacity }

  mutating func note(_ token: PushToken, now: Timestamp) {
    let topic = PushTopic(token)
    if entries[topic] == nil, entries.count >= capacity {
      let oldest = entries.values.min { $0.newestAt < $1.newestAt }
      if let oldest { entries[oldest.topic] = nil }
    }
    var entry = entries[topic] ?? Entry(topic: topic, jobs: 0, newestAt: now)
    entry.jobs += 1
    entry.newestAt = now
    if let jobs = entry.log.admit(now) { lines.append((topic, jobs)) }
    entries[topic] = entry
  }

  /// Returns the topics that need a log line now, each with the number of jobs that the line stands for. A topic gets
  /// one line per window.
  mutating func takeLines() -> [(topic: PushTopic, jobs: Int)] {
    defer { lines.removeAll() }
    return lines
  }

  /// The newest first.
  package var all: [Entry] { entries.values.sorted { $0.newestAt > $1.newestAt } }
}

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

  /// Its age stays until its time is over: a search for it would take as long as the set is large.
  mutating func remove(_ element: Element) { elements.remove(element) }

  mutating func insert(_ element: Element, now: Timestamp) {
    while let first = ages.first, first.until <= now || ages.count >= capacity {
      ages.removeFirst()
      elements.remove(first.element)
    }
    guard elements.insert(element).inserted else { return }
    ages.append((element, now + kept))
  }
}
