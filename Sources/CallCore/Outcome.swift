/// What a shard decided: facts for the journal, and what to do once the journal has them.
///
/// One buffer is used again and again; it keeps its capacity.
public struct Outcome: Sendable {
  public var entries: [JournalEntry] = []
  public var effects: [Effect] = []
  /// Whether the next append need not wait for company.
  public var urgent = false

  public init() {}

  public var isEmpty: Bool { entries.isEmpty && effects.isEmpty }

  public mutating func removeAll() {
    entries.removeAll(keepingCapacity: true)
    effects.removeAll(keepingCapacity: true)
    urgent = false
  }
}
