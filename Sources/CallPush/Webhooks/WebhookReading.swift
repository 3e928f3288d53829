package import CallCore
internal import CallWire

/// How far a webhook has read the stream of its app, and which events it has seen. A value.
struct WebhookReading: Sendable {
  /// The first sequence that was not read.
  var next: UInt64
  /// Events that a former owner left open and that are not read again yet.
  var recalled: Set<WebhookProgress.Place>
  /// The sequences of those, the first one last.
  var recalls: [UInt64]
  /// Events that were stored before are not for this webhook.
  let since: Timestamp
  private(set) var isUnderWay = false
  private(set) var dueAt = Timestamp(microseconds: 0)
  /// There was news while a read was under way, which may not have seen it.
  private var hasNews = false
  private var seen = SeenEvents()
  /// A stream's leader that was just elected, or is cut off from the others, may show an older end of the stream for
  /// some seconds.
  private static let aheadMax = Span.seconds(15)
  /// Since when the app's last message is one before the last that was read; nil: it is not.
  fileprivate var aheadSince: Timestamp?
  /// Open events at sequences from `next` up to this one are of a former stream.
  fileprivate var formerEnd: UInt64 = 0

  init(_ record: WebhookProgress) {
    next = record.next
    since = record.since
    recalled = Set(record.open)
    recalls = Set(record.open.map(\.sequence)).sorted(by: >)
  }

  /// The sequence to read at; nil where nothing is due.
  mutating func begin(now: Timestamp) -> UInt64? {
    guard !isUnderWay, dueAt <= now else { return nil }
    isUnderWay = true
    return recalls.last ?? next
  }

  mutating func woke(now: Timestamp) {
    if isUnderWay { hasNews = true } else { dueAt = min(dueAt, now) }
  }

  /// - Parameter at: when the next read is due.
  mutating func ended(at time: Timestamp, now: Timestamp) {
    isUnderWay = false
    dueAt = hasNews ? now : time
    hasNews = false
  }

  /// A read found nothing. A stream that was created again, or lost its end, gives new messages lower sequences than
  /// `next`: reading then begins again at the first message.
  /// - Parameter last: the sequence of the app's last message; nil: there is none.
  /// - Returns: whether reading begins again.
  fileprivate mutating func foundNothing(last: UInt64?, now: Timestamp) -> Bool {
    guard let last, next > 1, last < next - 1 else {
      aheadSince = nil
      return false
    }
    let since = aheadSince ?? now
    aheadSince = since
    guard since + Self.aheadMax <= now else { return false }
    formerEnd = max(formerEnd, next)
    next = 1
    aheadSince = nil
    return true
  }

  /// Notes an event that is, or was, open.
  /// - Returns: whether it is no repetition.
  mutating func isNew(_ event: AppEvent) -> Bool { seen.isNew(event) }
}

/// Recognises repeated events: each call has its events in the order of their kinds, and what a new owner of its shard
/// repeats begins at the first one. What a device had registered is gone once.
struct SeenEvents: Sendable {
  /// Policy when full: the older half is forgotten, and repetitions of these are delivered again.
  static let subjectsMax = 100_000
  private var newer: [AppEvent.Subject: UInt8] = [:]
  private var older: [AppEvent.Subject: UInt8] = [:]

  mutating func isNew(_ event: AppEvent) -> Bool {
    let subject = event.subject
    let last = newer[subject] ?? older[subject] ?? 0
    guard event.kind.rawValue > last else { return false }
    if newer.count >= Self.subjectsMax / 2, newer[subject] == nil { (older, newer) = (newer, [:]) }
    newer[subject] = event.kind.rawValue
    return true
  }
}

extension WebhookMachine {
  /// The app may have new events.
  package mutating func woke(now: Timestamp) { reading.woke(now: now) }

  package mutating func readFailed(now: Timestamp) {
    reading.ended(at: now + Self.pollInterval, now: now + Self.pollInterval)
  }

  /// A read has ended.
  /// - Parameters:
  ///   - message: nil: there is none yet.
  ///   - last: without a message: the sequence of the app's last one; nil: there is none at all.
  ///   - kinds: those that the webhook is for.
  package mutating func took(
    _ message: Message?, last: UInt64? = nil, kinds: Set<AppEventKind>, now: Timestamp
  ) {
    guard reading.isUnderWay else { return }
    if let sequence = reading.recalls.popLast() { return recall(message, sequence, now) }
    guard let message, message.sequence >= reading.next else {
      guard reading.foundNothing(last: last, now: now) else {
        return reading.ended(at: now + Self.pollInterval, now: now)
      }
      counts.restarts += 1
      noteRead()
      return reading.ended(at: now, now: now)
    }
    reading.aheadSince = nil
    // An event of the former stream is still open at this place, which can name only one.
    if message.sequence < reading.formerEnd,
      open.keys.contains(where: { $0.sequence == message.sequence })
    {
      return reading.ended(at: now + Self.pollInterval, now: now)
    }
    for (index, event) in message.events.enumerated() {
      guard let event else {
        counts.unreadable += 1
        continue
      }
      guard message.storedAt >= reading.since else { continue }
      guard reading.isNew(event) else {
        counts.repeated += 1
        continue
      }
      guard kinds.contains(event.kind) else { continue }
      let place = Place(sequence: message.sequence, index: UInt32(clamping: index))
      add(event, at: place, storedAt: message.storedAt, now: now)
    }
    reading.next = message.sequence + 1
    noteRead()
    reading.ended(at: now, now: now)
  }

  /// Opens what the former owner had open in a message.
  private mutating func recall(_ message: Message?, _ sequence: UInt64, _ now: Timestamp) {
    let places = reading.recalled.filter { $0.sequence == sequence }
    reading.recalled.subtract(places)
    reading.ended(at: now, now: now)
    // A place behind `next` was open in a former stream; the message that is there now is read in its turn.
    guard let message, message.sequence == sequence, sequence < reading.next else {
      counts.lost += UInt64(places.count)
      return noteRead()
    }
    for (index, event) in message.events.enumerated() {
      guard let event else { continue }
      _ = reading.isNew(event)
      let place = Place(sequence: sequence, index: UInt32(clamping: index))
      if places.contains(place) { add(event, at: place, storedAt: message.storedAt, now: now) }
    }
  }
}
