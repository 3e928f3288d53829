internal import CallBus
package import CallCore
internal import CallWire

/// The ended calls of a worker's shards whose records are to be stored. Those that are due share a message.
///
/// It holds ids only: a record is made when its message is. One message is under way at a time; it is repeated as it is,
/// under the same id, until the stream has it, so that the stream drops repetitions. The number of calls is limited by
/// what the shards keep (`CallLimits.callsPerShard`, `CallLimits.unrecordedCalls`): see `compact`.
package struct RecordOutbox {
  package struct Item: Sendable, Hashable {
    package var term: ShardTerm
    package var call: CallID
    package init(term: ShardTerm, call: CallID) {
      self.term = term
      self.call = call
    }
  }

  package struct Message: Sendable, Equatable {
    package var number: UInt64
    package var bytes: [UInt8]
  }

  /// How long the first record waits for others.
  package static let delay = Span.milliseconds(250)
  /// The most records of a message, and about the most bytes.
  package static let countMax = 200
  package static let bytesMax = 200_000
  private static let pauseMax = Span.seconds(10)

  package static let compactLeast = 10_000

  private var waiting: [Item] = []
  private var compactAt = Self.compactLeast
  private var flight: (message: Message, items: [Item])?
  private var failures = 0
  /// When a message is due: the next one, or the one under way once more.
  private var dueAt = Timestamp.distantFuture
  private var lastNumber: UInt64 = 0

  package init() {}

  package var count: Int { waiting.count + (flight?.items.count ?? 0) }

  /// When `next` has something.
  package var nextDeadline: Timestamp { dueAt }

  package mutating func add(_ item: Item, now: Timestamp) {
    waiting.append(item)
    if flight == nil { schedule(now) }
  }

  /// Drops those whose calls are forgotten or have another owner, if many wait. Policy while the stream takes nothing:
  /// the shards decide which calls they keep.
  package mutating func compact(_ isWanted: (Item) -> Bool) {
    guard waiting.count >= compactAt else { return }
    waiting.removeAll { !isWanted($0) }
    compactAt = max(Self.compactLeast, 2 * waiting.count)
  }

  private mutating func schedule(_ now: Timestamp) {
    guard !waiting.isEmpty else {
      dueAt = .distantFuture
      return
    }
    let wanted = waiting.count >= Self.countMax ? now : now + Self.delay
    dueAt = min(dueAt, wanted)
  }

  /// The message that is due, to be sent now; nil where none is.
  /// - Parameter record: nil where none is wanted any more.
  package mutating func next(now: Timestamp, record: (Item) -> CallRecord?) -> Message? {
    guard dueAt <= now else { return nil }
    dueAt = .distantFuture
    if let flight { return flight.message }
    var (records, items, taken, bytes): ([CallRecord], [Item], Int, Int) = ([], [], 0, 0)
    while taken < waiting.count, records.count < Self.countMax, bytes < Self.bytesMax {
      let item = waiting[taken]
      taken += 1
      guard let record = record(item) else { continue }
      records.append(record)
      items.append(item)
      bytes += record.approximateBytes
    }
    waiting.removeFirst(taken)
    guard !records.isEmpty else {
      schedule(now)
      return nil
    }
    lastNumber += 1
    let message = Message(number: lastNumber, bytes: ClusterCodec.encode(records))
    flight = (message, items)
    return message
  }

  /// The stream has answered, or has not in time.
  /// - Returns: whose records are stored now.
  package mutating func answered(_ number: UInt64, isStored: Bool, now: Timestamp) -> [Item] {
    guard let (message, items) = flight, message.number == number else { return [] }
    guard isStored else {
      let pause = Self.delay.microseconds << Int64(min(failures, 8))
      dueAt = now + min(Self.pauseMax, Span(microseconds: pause))
      failures += 1
      return []
    }
    (flight, failures) = (nil, 0)
    schedule(now)
    return items
  }
}

extension CallRecord {
  /// About how many it has in a message.
  fileprivate var approximateBytes: Int {
    func bytes(_ party: Party) -> Int {
      16 + party.user.utf8.count + party.device.text.utf8.count + party.deviceName.utf8.count
        + party.name.utf8.count
    }
    let ends = [caller, answer?.by, end?.by].compactMap(\.self).reduce(0) { $0 + bytes($1) }
    return 128 + callee.app.utf8.count + callee.user.utf8.count + ends
      + legs.reduce(0) { $0 + 48 + bytes($1.party) }
      + events.reduce(0) { $0 + 16 + $1.reason.utf8.count }
  }
}
