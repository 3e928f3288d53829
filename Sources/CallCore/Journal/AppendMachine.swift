/// The life of one append of a shard's record, from the first attempt until its fate is known.
///
/// An append has one question open at a time: either the journal is asked to take the record, or to show what
/// stands at its end. Only two facts let the record count: the journal's answer that the record stands right behind
/// the one that was expected to be the last, or the record itself, found in the chain (`JournalChain`). An answer
/// that is lost, late or doubtful proves nothing: the record is looked up.
public struct AppendMachine: Sendable, Hashable {
  public enum State: Sendable, Hashable {
    /// The journal is asked to take the record.
    case inFlight
    /// The journal may or may not have it. It is looked up at that time.
    case fateUnknown(lookAt: Timestamp)
    /// The journal's end is being read.
    case lookingUp
    /// The journal does not have it. It is appended again at that time.
    case absent(appendAt: Timestamp)
    /// It counts: what waited for it may leave.
    case committed
    /// It never will, or the shard has another owner.
    case givenUp
  }

  public enum Event: Sendable, Equatable {
    /// - Parameter isNext: whether the sequence proves that nothing came between.
    case appended(sequence: UInt64, isNext: Bool)
    /// The journal's end is another than the one that was expected: the shard has another owner; or an earlier
    /// attempt of the same append arrived after all; or a stream's new leader has not applied yet what the former
    /// one acknowledged.
    case refused
    /// There is no answer.
    case unanswered
    case lookedUp(LookupResult)
    /// Time has passed.
    case time
  }

  public enum Action: Sendable, Equatable {
    case append(expecting: UInt64)
    case lookUp(expecting: UInt64)
    case commit(sequence: UInt64, end: UInt64)
    case giveUp(Reason)
  }

  public enum Reason: Sendable, Equatable {
    case anotherOwner
    /// The journal's end does not explain why it refuses.
    case refused
    case attempts(Int)

    public var sentence: String {
      switch self {
      case .anotherOwner: "another owner's record stands where its append should be"
      case .refused: "the journal refuses its appends"
      case .attempts(let count): "the journal did not take a record in \(count) attempts"
      }
    }
  }

  public struct Rules: Sendable, Hashable {
    public var attemptsMax: Int
    /// Refusals that the journal's end does not explain.
    public var refusalsMax = 3
    public var lookAgainAfter = Span.milliseconds(250)
    public init(attemptsMax: Int) { self.attemptsMax = attemptsMax }
  }

  public private(set) var state = State.inFlight
  /// The journal's last record, as far as is known.
  public private(set) var expecting: UInt64
  private var attempts = 1
  private var refusals = 0
  private let rules: Rules
  private static let backoff = Backoff(.milliseconds(20), to: .seconds(1))

  /// The first attempt is under way.
  public init(expecting: UInt64, rules: Rules) {
    self.expecting = expecting
    self.rules = rules
  }

  /// When it needs a `time` event.
  public var nextDeadline: Timestamp {
    switch state {
    case .fateUnknown(let at), .absent(let at): at
    case .inFlight, .lookingUp, .committed, .givenUp: .distantFuture
    }
  }

  /// - Returns: what to do. Ignores an event that the state does not wait for.
  public mutating func handle(_ event: Event, now: Timestamp) -> Action? {
    switch (state, event) {
    case (.inFlight, .appended(let sequence, isNext: true)):
      return commit(sequence, end: sequence)
    case (.inFlight, .appended), (.inFlight, .unanswered):
      state = .fateUnknown(lookAt: now)
    case (.inFlight, .refused):
      refusals += 1
      state = .fateUnknown(lookAt: now)
    case (.fateUnknown(let at), .time) where at <= now:
      state = .lookingUp
      return .lookUp(expecting: expecting)
    case (.lookingUp, .lookedUp(let result)): return resolve(result, now: now)
    case (.absent(let at), .time) where at <= now:
      attempts += 1
      state = .inFlight
      return .append(expecting: expecting)
    case (.inFlight, _), (.fateUnknown, _), (.lookingUp, _), (.absent, _), (.committed, _),
      (.givenUp, _):
      break
    }
    return nil
  }

  private mutating func resolve(_ result: LookupResult, now: Timestamp) -> Action? {
    switch result {
    case .ours(let sequence, let end): return commit(sequence, end: end)
    case .foreign: return giveUp(.anotherOwner)
    case .unchanged(let end):
      expecting = end
      if refusals >= rules.refusalsMax { return giveUp(.refused) }
      if attempts >= rules.attemptsMax { return giveUp(.attempts(attempts)) }
      // The first time at once; then slower.
      let pause = attempts == 1 ? .zero : Self.backoff.pause(after: attempts)
      state = .absent(appendAt: now + pause)
    case .unreadable: state = .fateUnknown(lookAt: now + rules.lookAgainAfter)
    }
    return nil
  }

  private mutating func commit(_ sequence: UInt64, end: UInt64) -> Action {
    state = .committed
    return .commit(sequence: sequence, end: end)
  }

  private mutating func giveUp(_ reason: Reason) -> Action {
    state = .givenUp
    return .giveUp(reason)
  }
}
