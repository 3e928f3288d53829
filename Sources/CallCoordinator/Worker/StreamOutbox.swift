package import CallCore

/// The items that a worker stores in a stream beside the journals. Items that are due share a message.
///
/// It holds items only: their content is made when their message is. One message is under way at a time; it is repeated
/// as it is, under the same id, until the stream has it, so that the stream drops repetitions. The number of items is
/// limited by what the shards keep (`CallLimits.callsPerShard`, `CallLimits.unrecordedCalls`): see `compact`.
package struct StreamOutbox<Element: Sendable & Equatable> {
  package struct Message: Sendable, Equatable {
    package var number: UInt64
    package var bytes: [UInt8]
  }

  /// The most items of a message, and the bytes from which on it takes no more.
  package static var countMax: Int { 200 }
  package static var bytesMax: Int { 200_000 }
  static var backoff: Backoff { Backoff(.milliseconds(250), to: .seconds(10)) }

  package static var compactLeast: Int { 10_000 }

  /// How long the first item waits for others.
  private let delay: Span
  private var waiting: [Element] = []
  private var compactAt = Self.compactLeast
  private var flight: (message: Message, items: [Element])?
  private var failures = 0
  /// When a message is due: the next one, or the one under way once more.
  private var dueAt = Timestamp.distantFuture
  private var lastNumber: UInt64 = 0

  package init(delay: Span) { self.delay = delay }

  package var count: Int { waiting.count + (flight?.items.count ?? 0) }

  /// When `next` has something.
  package var nextDeadline: Timestamp { dueAt }

  package mutating func add(_ item: Element, now: Timestamp) {
    waiting.append(item)
    if flight == nil { schedule(now) }
  }

  /// Drops items that are wanted no more, if many wait. Policy while the stream takes nothing: the shards decide which
  /// calls they keep.
  package mutating func compact(_ isWanted: (Element) -> Bool) {
    guard waiting.count >= compactAt else { return }
    waiting.removeAll { !isWanted($0) }
    compactAt = max(Self.compactLeast, 2 * waiting.count)
  }

  private mutating func schedule(_ now: Timestamp) {
    guard !waiting.isEmpty else {
      dueAt = .distantFuture
      return
    }
    let wanted = waiting.count >= Self.countMax ? now : now + delay
    dueAt = min(dueAt, wanted)
  }

  /// The message that is due, to be sent now; nil where none is.
  /// - Parameter encode: returns a message of this item alone; nil where the item is not wanted. Concatenated, such
  ///   messages are one message of all items, since protobuf joins repeated fields.
  package mutating func next(now: Timestamp, encode: (Element) -> [UInt8]?) -> Message? {
    guard dueAt <= now else { return nil }
    dueAt = .distantFuture
    if let flight { return flight.message }
    var (items, taken, bytes): ([Element], Int, [UInt8]) = ([], 0, [])
    while taken < waiting.count, items.count < Self.countMax, bytes.count < Self.bytesMax {
      let item = waiting[taken]
      taken += 1
      guard let encoded = encode(item) else { continue }
      items.append(item)
      bytes += encoded
    }
    waiting.removeFirst(taken)
    guard !items.isEmpty else {
      schedule(now)
      return nil
    }
    lastNumber += 1
    let message = Message(number: lastNumber, bytes: bytes)
    flight = (message, items)
    return message
  }

  /// The stream has answered, or has not in time.
  /// - Returns: the items that are stored now.
  package mutating func answered(_ number: UInt64, isStored: Bool, now: Timestamp) -> [Element] {
    guard let (message, items) = flight, message.number == number else { return [] }
    guard isStored else {
      dueAt = now + Self.backoff.pause(after: failures)
      failures += 1
      return []
    }
    (flight, failures) = (nil, 0)
    schedule(now)
    return items
  }
}
