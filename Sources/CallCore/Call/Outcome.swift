/// What a shard decided: facts for the journal, and what to do once the journal has them.
///
/// One buffer is used again and again; it keeps its capacity.
public struct Outcome: Sendable {
  public var entries: [JournalEntry] = []
  public var effects: [Effect] = []
  /// For each call of which all devices are now known to ring: how long that took from its placing.
  /// For metrics; nothing waits for it.
  public var ringLatencies: [Span] = []
  /// How soon the journal must have it.
  public var urgency = Urgency.idle

  public enum Urgency: Int, Comparable, Sendable {
    /// With the next append that happens anyway, or within a second.
    case idle
    /// Nobody waits for it: may wait a tenth of a second.
    case slow
    /// A person notices nothing of four times what `lazy` waits.
    case relaxed
    /// May wait a few milliseconds for company.
    case lazy
    case urgent
    public static func < (a: Self, b: Self) -> Bool { a.rawValue < b.rawValue }
  }

  public init() {}

  public var isEmpty: Bool { entries.isEmpty && effects.isEmpty }

  public mutating func removeAll() {
    entries.removeAll(keepingCapacity: true)
    effects.removeAll(keepingCapacity: true)
    ringLatencies.removeAll(keepingCapacity: true)
    urgency = .idle
  }

  /// Raises the urgency, never lowers it.
  public mutating func raise(to urgency: Urgency) {
    if urgency > self.urgency { self.urgency = urgency }
  }
}
