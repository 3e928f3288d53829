extension AppendMachine {
  /// The journal's evidence about an append whose answer was lost, or does not prove enough.
  public enum LookupResult: Sendable, Equatable {
    /// The record counts. `end`: the journal's last record, or the last one before another owner's that counts.
    case ours(sequence: UInt64, end: UInt64)
    /// Nothing that counts came behind the record that it is to follow.
    case unchanged(end: UInt64)
    /// Another record counts in its place: the shard has another owner.
    case foreign
    /// The journal could not be read now.
    case unreadable(String)
  }
}

extension AppendMachine.LookupResult {
  /// The append in question.
  public struct Question: Sendable, Hashable {
    /// The sequence of the record that it names as the last that counts.
    public var previous: UInt64
    /// The sequence that it expected the journal's last record to have.
    public var expecting: UInt64
    /// Identifies the writer's own record, with epoch and number.
    public var writer: String
    public var epoch: UInt64
    public var number: UInt64

    public init(previous: UInt64, expecting: UInt64, writer: String, epoch: UInt64, number: UInt64)
    {
      self.previous = previous
      self.expecting = expecting
      self.writer = writer
      self.epoch = epoch
      self.number = number
    }

    func matches(_ record: JournalRecord) -> Bool {
      record.writer == writer && record.epoch == epoch && record.number == number
    }
  }

  /// - Parameter records: all that stands behind `expecting`, in order; nil for what cannot be read, and so is
  ///   another's.
  public static func evaluate(
    _ question: Question, behind records: some Sequence<(sequence: UInt64, record: JournalRecord?)>
  ) -> Self {
    var chain = JournalChain(position: question.previous, end: question.expecting)
    var end = question.expecting
    var ours: UInt64?
    for (sequence, record) in records {
      guard let record else {
        if ours == nil { return .foreign }
        break
      }
      let verdict = chain.append(sequence, previous: record.previous)
      if verdict != .void {
        // Behind our record another owner's counts: ours does as well, and nothing more of ours will. The end
        // stays before it, so that the next append is refused.
        if ours != nil { break }
        guard verdict == .counts, question.matches(record) else { return .foreign }
        ours = sequence
      }
      end = sequence
    }
    return ours.map { .ours(sequence: $0, end: end) } ?? .unchanged(end: end)
  }
}
