/// A shard's decisions: facts for the journal, and effects to carry out once the journal has them.
///
/// One buffer is used again and again; it keeps its capacity.
public struct Outcome: Sendable {
  public var entries: [JournalEntry] = []
  public var effects: [Effect] = []
  /// For each call all of whose invited devices have now acknowledged their invites: how long that took from its
  /// placing. For metrics; it does not wait for the journal.
  public var ringLatencies: [Span] = []
  /// Faults that only a bug in Callmesh causes. They are counted and logged without waiting for the journal.
  public var faults: [MachineFault] = []
  /// How soon the entries must be in the journal.
  public var urgency = Urgency.idle

  public enum Urgency: Int, Comparable, Sendable {
    /// With the next append that happens anyway, or within a second.
    case idle
    /// No command waits for it: may wait a tenth of a second.
    case slow
    /// May wait four times as long as `lazy`, which a person does not notice.
    case relaxed
    /// May wait a few milliseconds (`CallLimits.lazyAppend`), to share an append.
    case lazy
    case urgent
    public static func < (a: Self, b: Self) -> Bool { a.rawValue < b.rawValue }
  }

  public init() {}

  /// Whether there is nothing for the journal, and nothing that waits for it.
  public var isEmpty: Bool { entries.isEmpty && effects.isEmpty }

  public mutating func removeAll() {
    // Removing from an empty array is not free, and most are empty.
    if !entries.isEmpty { entries.removeAll(keepingCapacity: true) }
    if !effects.isEmpty { effects.removeAll(keepingCapacity: true) }
    if !ringLatencies.isEmpty { ringLatencies.removeAll(keepingCapacity: true) }
    if !faults.isEmpty { faults.removeAll(keepingCapacity: true) }
    urgency = .idle
  }

  /// Raises the urgency, never lowers it.
  public mutating func raise(to urgency: Urgency) {
    if urgency > self.urgency { self.urgency = urgency }
  }
}

/// A fault that cannot happen unless Callmesh itself has a bug.
///
/// Input that does not fit is of three kinds. A peer's mistake is refused with a `CallError` that says so.
/// Input that comes legitimately late, or again, is ignored or gets the reply of before. Only the rest is a fault.
public struct MachineFault: Sendable, Equatable {
  public enum Kind: String, Sendable, CaseIterable {
    /// A command about a call or a registration before `begin`; the driver has to queue those.
    case commandBeforeBegin
    /// A fact was decided that does not fit the state of its call.
    case decisionRefused
    /// A result for a write to the store that no step waits for.
    case unexpectedStoreResult
    /// A result that does not fit the step by which a registration claims a token.
    case unexpectedTokenResult
    /// A call stayed due at one moment, however often its due steps were carried out.
    case dueWithoutEnd
  }

  public var kind: Kind
  /// nil: no call is concerned.
  public var call: CallID?

  public init(_ kind: Kind, call: CallID? = nil) {
    self.kind = kind
    self.call = call
  }
}
