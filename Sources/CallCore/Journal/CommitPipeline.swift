/// Decide, append, then send: holds back what was decided until the journal has it.
///
/// One append is in flight at a time; what is decided meanwhile goes into the next one. Effects leave
/// only with the acknowledgement of an append that was started after they were decided, also when
/// there is nothing to record: a former owner that wakes up late is refused and sends nothing.
///
/// A decision is never dropped: only the journal's answer shows whether it counts. So the limit applies before the
/// decision: while the pipeline is full, its owner takes no further commands.
public struct CommitPipeline: Sendable {
  public let epoch: UInt64
  public let writer: String
  /// The sequence of the shard's last record.
  public private(set) var lastSequence: UInt64
  public private(set) var lastNumber: UInt64 = 0
  public private(set) var inFlight = false
  /// Whether the record that was taken last holds everything that was decided: it was not closed early.
  public var holdsNothingBack: Bool { parts.isEmpty }

  private var entries: [JournalEntry] = []
  private var effects: [Effect] = []
  private var inFlightEffects: [Effect] = []
  /// Each part was decided together and goes into one record; several parts share one.
  private var parts: [Part] = []
  private struct Part {
    var entries: Int
    var effects: Int
    var bytes: Int
  }
  /// A record is closed before it grows past this: the journal takes 1 MB in one piece. The rest
  /// follows in the next.
  public static let recordBytesMax = 400_000
  private var due: Timestamp = .distantFuture
  private let limits: Limits
  /// The bytes of the entries that wait for the journal, those in flight included.
  public private(set) var waitingBytes = 0
  private var inFlightBytes = 0

  /// How much may wait for the journal before no more commands are taken. Effects share their texts with the
  /// calls, so they are limited by their number; entries are limited by what is to be written.
  public struct Limits: Sendable {
    public var effectsMax: Int
    public var entryBytesMax: Int
    public init(effectsMax: Int = 20_000, entryBytesMax: Int = 8_000_000) {
      self.effectsMax = effectsMax
      self.entryBytesMax = entryBytesMax
    }
  }

  public init(epoch: UInt64, writer: String, lastSequence: UInt64, limits: Limits = Limits()) {
    self.limits = limits
    self.epoch = epoch
    self.writer = writer
    self.lastSequence = lastSequence
  }

  /// Takes what was decided at `now`. Empties `outcome`.
  public mutating func add(_ outcome: inout Outcome, now: Timestamp, lazyAppend: Span) {
    guard !outcome.isEmpty else { return }
    let wanted =
      switch outcome.urgency {
      case .urgent: now
      case .lazy: Self.tick(after: now, every: lazyAppend)
      case .relaxed:
        Self.tick(after: now, every: Span(microseconds: 4 * lazyAppend.microseconds))
      case .slow: Self.tick(after: now, every: .milliseconds(100))
      case .idle: Self.tick(after: now + .milliseconds(900), every: .milliseconds(100))
      }
    if wanted < due { due = wanted }
    let bytes = outcome.entries.reduce(0) { $0 + $1.approximateBytes }
    parts.append(Part(entries: outcome.entries.count, effects: outcome.effects.count, bytes: bytes))
    waitingBytes += bytes
    Self.move(&outcome.entries, to: &entries)
    Self.move(&outcome.effects, to: &effects)
    outcome.removeAll()
  }

  /// Empties the one array. Nothing is copied where the other is empty.
  private static func move<Element>(_ source: inout [Element], to target: inout [Element]) {
    if target.isEmpty { swap(&source, &target) } else { target += source }
  }

  /// The next multiple of `span`. Entries that may wait do so until a moment that all shards have in common:
  /// their appends then leave in one write, and one wake-up of each process serves them all.
  private static func tick(after now: Timestamp, every span: Span) -> Timestamp {
    guard span.microseconds > 0 else { return now }
    return Timestamp(microseconds: (now.microseconds / span.microseconds + 1) * span.microseconds)
  }

  /// When `nextAppend` has something to give, unless an append is in flight.
  public var nextDeadline: Timestamp { inFlight ? .distantFuture : due }

  /// How many effects wait for the journal.
  public var waiting: Int { effects.count + inFlightEffects.count }

  /// Whether no further commands may be decided until the journal has taken a record.
  public var isFull: Bool {
    waiting >= limits.effectsMax || waitingBytes >= limits.entryBytesMax
  }

  /// The next record, to be appended behind `lastSequence`; nil while one is in flight or nothing
  /// is due.
  public mutating func nextAppend(now: Timestamp) -> JournalRecord? {
    guard !inFlight, due <= now else { return nil }
    inFlight = true
    lastNumber += 1
    var record = JournalRecord(
      epoch: epoch, number: lastNumber, writer: writer, at: now, entries: [])
    let (count, fitting) = fittingParts()
    inFlightBytes = fitting.bytes
    if count == parts.count {
      due = .distantFuture
      record.entries = entries
      entries.removeAll(keepingCapacity: true)
      swap(&effects, &inFlightEffects)
      parts.removeAll(keepingCapacity: true)
    } else {
      due = now
      record.entries = Array(entries[..<fitting.entries])
      entries.removeFirst(fitting.entries)
      inFlightEffects.append(contentsOf: effects[..<fitting.effects])
      effects.removeFirst(fitting.effects)
      parts.removeFirst(count)
    }
    return record
  }

  /// How many parts, from the first, fit into one record, and what they hold; at least one.
  private func fittingParts() -> (count: Int, Part) {
    var sum = Part(entries: 0, effects: 0, bytes: 0)
    for (count, part) in parts.enumerated() {
      if count > 0, sum.bytes + part.bytes > Self.recordBytesMax { return (count, sum) }
      sum.entries += part.entries
      sum.effects += part.effects
      sum.bytes += part.bytes
    }
    return (parts.count, sum)
  }

  /// The append is in the journal: what it held back may leave.
  /// - Parameter released: gets what may leave, at its end.
  public mutating func appended(sequence: UInt64, releasing released: inout [Effect]) {
    lastSequence = sequence
    inFlight = false
    waitingBytes -= inFlightBytes
    inFlightBytes = 0
    Self.move(&inFlightEffects, to: &released)
    inFlightEffects.removeAll(keepingCapacity: true)
  }
}
