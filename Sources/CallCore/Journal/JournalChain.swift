/// The chain of the records of a shard's journal that count.
///
/// Every record names the one that its writer believed to be the last that counts. It counts if that
/// is so; else it is void, whoever wrote it. All readers agree on that, since all read the same records
/// in the same order. So the journal's order alone makes it safe. The store's own check (an append
/// says which sequence it expects to be the last) spares losers the trouble, but is not relied upon: a
/// replicated nats-server makes it when a message is proposed, not when it is stored, so that two that
/// are under way at once, or on both sides of a change of leader, may both be stored (nats-server
/// issues 4320 and 8469; seen with 2.9.10).
public struct JournalChain: Sendable, Equatable {
  /// The sequence of the last record that counts; 0: there is none.
  public private(set) var position: UInt64
  /// The sequence of the journal's last record, whether it counts or not.
  public private(set) var end: UInt64

  public init(position: UInt64, end: UInt64) {
    self.position = position
    self.end = end
  }

  public enum Verdict: Sendable, Equatable {
    case counts
    /// It lost: another one counts in its place, or it is a repetition.
    case void
    /// The record that it follows was never seen: something is missing.
    case gap
  }

  /// Judges the journal's next record, which becomes the end, and the chain's last one if it counts.
  /// - Parameters:
  ///   - sequence: greater than `end`.
  ///   - previous: the record that it names; nil where it names none, and is believed.
  public mutating func append(_ sequence: UInt64, previous: UInt64?) -> Verdict {
    defer { end = sequence }
    guard let previous, previous != position else {
      position = sequence
      return .counts
    }
    // A record that follows a void one is void as well.
    return previous <= end ? .void : .gap
  }

  /// Goes on behind a record of which nothing is known, since its loss was accepted.
  public mutating func skip(_ sequence: UInt64) {
    position = sequence
    end = sequence
  }
}
