package import CallCore
package import CallWire

/// Delivers the events of one app to one of its webhooks: decides what is read, posted and given up. Does no I/O, reads
/// no clock and draws no chance.
///
/// - At most one event of each call, and of each device, is under way. The next one follows when it is delivered or
///   given up. Events of different calls and devices (`AppEvent.Line`) do not wait for each other.
/// - An event is retried for `lifetime` since it was stored. Then it is a dead letter.
/// - A webhook that takes nothing is away (`WebhookHealth`): then one event at a time tries whether it is back.
/// - An event that is read and not delivered is open. While `openMax` events are open, nothing more is read. Events
///   that are refused again and again must not fill this room for a day, so then the oldest of them is given up early.
///
/// The record of its progress names the open events, so a gateway that takes over repeats some and loses none.
package struct WebhookMachine: Sendable {
  package typealias Place = WebhookProgress.Place

  package enum Action: Sendable, Equatable {
    /// Read the app's first message at or after a sequence; answer with `took` or `readFailed`.
    case read(from: UInt64)
    /// Answer with `answered`.
    case post(Place, AppEvent)
    /// Store a dead letter; answer with `buried`.
    case bury(Place, AppEvent, attempts: Int, reason: String)
  }

  /// A message of the stream.
  package struct Message: Sendable, Equatable {
    package var sequence: UInt64
    package var storedAt: Timestamp
    /// nil stands for an event that cannot be read.
    package var events: [AppEvent?]
    package init(sequence: UInt64, storedAt: Timestamp, events: [AppEvent?]) {
      self.sequence = sequence
      self.storedAt = storedAt
      self.events = events
    }
  }

  package struct Counts: Sendable, Equatable {
    /// Events that were not opened, since the webhook has or will get them.
    package var repeated: UInt64 = 0
    /// Events that could not be read.
    package var unreadable: UInt64 = 0
    /// Open events that the stream had dropped when they were to be read again.
    package var lost: UInt64 = 0
    /// How often reading began again at the stream's first message.
    package var restarts: UInt64 = 0
  }

  struct Open: Sendable {
    enum State { case waiting, posting, burying }
    var event: AppEvent
    var storedAt: Timestamp
    var state = State.waiting
    var attempts = 0
    /// Not posted, or buried, before.
    var dueAt = Timestamp(microseconds: 0)
    /// The event is not posted before, even if the webhook is back: its last answer has demanded a pause.
    var notBefore = Timestamp(microseconds: 0)
    /// The result of the last attempt.
    var reason = ""
    /// The last attempt had an answer that refuses the event itself.
    var isRefused = false
    /// It is a dead letter, which may not be stored yet.
    var isGivenUp = false
  }

  package static let lifetime = Span.seconds(86_400)
  /// Policy: read no more; at most one message's events come on top.
  package static let openMax = 1000
  package static let postsMax = 16
  private static let pauseMax = Span.seconds(3600)
  private static let backoff = Backoff(.seconds(1), to: pauseMax)
  /// When the room is full, an event may be given up early that was tried so often, which takes about ten minutes.
  package static let crowdAttempts = 10
  /// The same of an event that the webhook refuses, also while it refuses all.
  package static let crowdAge = Span.seconds(3600)
  package static let buryAgain = Span.seconds(5)
  /// How often the stream is read while nothing says that there is news.
  package static let pollInterval = Span.seconds(5)

  /// The webhook's record that is to be stored, without the owner and the time.
  private var record: WebhookProgress
  /// Whether `progress` has changed since `saved`.
  package private(set) var isChanged = false
  package internal(set) var counts = Counts()
  package private(set) var posting = 0

  var open: [Place: Open] = [:]
  /// The open events of each line, in order.
  private var queues: [AppEvent.Line: [Place]] = [:]
  /// The first of each queue, in order.
  private var heads: [Place] = []
  private(set) var health: WebhookHealth
  /// When something may be due of what is open.
  private var lookAt = Timestamp.distantFuture
  private var mayPost = true

  var reading: WebhookReading

  /// - Parameter record: as it was found; its open events are read again first.
  package init(_ record: WebhookProgress) {
    self.record = record
    health = WebhookHealth(isGone: record.isGone)
    reading = WebhookReading(record)
  }

  package var isAway: Bool { health.isAway }
  package var isGone: Bool { health.isGone }
  package var openCount: Int { open.count + reading.recalled.count }

  /// The progress that is to be stored, without the owner and the time.
  package var progress: WebhookProgress {
    var progress = record
    progress.next = reading.next
    progress.open = reading.recalled.union(open.keys).sorted()
    progress.oldest = open.values.map(\.storedAt).min()
    progress.isGone = health.isGone
    return progress
  }

  /// The record was stored with the present progress.
  package mutating func saved() { isChanged = false }

  package var nextDeadline: Timestamp {
    min(lookAt, reading.isUnderWay || isFull ? .distantFuture : reading.dueAt)
  }

  private var isFull: Bool { open.count >= Self.openMax }

  // MARK: What is due

  /// - Parameter mayPost: false while it is not certain that this gateway owns the webhook.
  package mutating func advance(now: Timestamp, mayPost: Bool = true) -> [Action] {
    if mayPost != self.mayPost { lookAt = now }
    self.mayPost = mayPost
    var actions: [Action] = []
    if lookAt <= now { look(now, &actions) }
    if !isFull, let sequence = reading.begin(now: now) { actions.append(.read(from: sequence)) }
    return actions
  }

  private mutating func look(_ now: Timestamp, _ actions: inout [Action]) {
    lookAt = .distantFuture
    for place in heads {
      guard let item = open[place], item.state == .waiting else { continue }
      // Each event has at least one attempt, unless the webhook is known to take none.
      let isTried = item.attempts > 0 || health.isAway
      if item.isGivenUp || (isTried && item.storedAt + Self.lifetime <= now) {
        bury(place, now, &actions)
        continue
      }
      if isTried { lookAt = min(lookAt, item.storedAt + Self.lifetime) }
      guard mayPost, !health.isAway, posting < Self.postsMax else { continue }
      if item.dueAt <= now { post(place, &actions) } else { lookAt = min(lookAt, item.dueAt) }
    }
    if mayPost, health.isAway, posting == 0 { probe(now, &actions) }
    if isFull { relieve(now, &actions) }
  }

  /// The event with the fewest attempts tries: one that is refused for its own sake must not stand for all.
  private mutating func probe(_ now: Timestamp, _ actions: inout [Action]) {
    guard health.probeAt <= now else {
      lookAt = min(lookAt, health.probeAt)
      return
    }
    let waiting = heads.filter { open[$0]?.state == .waiting }
    let probe = waiting.min {
      (open[$0]?.attempts ?? 0, $0) < (open[$1]?.attempts ?? 0, $1)
    }
    guard let probe else { return }
    health.probes()
    post(probe, &actions)
  }

  private mutating func relieve(_ now: Timestamp, _ actions: inout [Action]) {
    for place in heads {
      guard let item = open[place], item.state == .waiting else { continue }
      let isTried = !health.isAway && item.attempts >= Self.crowdAttempts
      if isTried || (item.isRefused && item.storedAt + Self.crowdAge <= now) {
        return bury(place, now, &actions)
      }
      if item.isRefused { lookAt = min(lookAt, item.storedAt + Self.crowdAge) }
    }
  }

  private mutating func post(_ place: Place, _ actions: inout [Action]) {
    guard let item = open[place] else { return }
    open[place]?.state = .posting
    posting += 1
    actions.append(.post(place, item.event))
  }

  private mutating func bury(_ place: Place, _ now: Timestamp, _ actions: inout [Action]) {
    guard let item = open[place] else { return }
    guard item.dueAt <= now || !item.isGivenUp else {
      lookAt = min(lookAt, item.dueAt)
      return
    }
    open[place]?.isGivenUp = true
    open[place]?.state = .burying
    let reason = item.reason.isEmpty ? record.lastFailure : item.reason
    actions.append(.bury(place, item.event, attempts: item.attempts, reason: reason))
  }

  // MARK: Answers

  /// - Parameters:
  ///   - failure: why the webhook did not take the event; nil: it did.
  ///   - chance: a random number, for jitter. It is drawn after a failure alone.
  package mutating func answered(
    _ place: Place, failure: WebhookFailure?, now: Timestamp,
    chance draw: @autoclosure () -> UInt64
  ) {
    guard let item = open[place], item.state == .posting else { return }
    posting -= 1
    lookAt = now
    isChanged = true
    guard let failure else {
      record.delivered += 1
      if health.succeeded() { retryAll(now) }
      if !health.isAway { record.lastFailure = "" }
      return close(place)
    }
    record.failures += 1
    record.lastFailure = failure.reason
    let (attempts, chance) = (item.attempts + 1, draw())
    let pause = Self.backoff.pause(after: item.attempts, chance: chance)
    let demanded = min(failure.retryAfter ?? .seconds(0), Self.pauseMax)
    open[place]?.state = .waiting
    open[place]?.attempts = attempts
    open[place]?.reason = failure.reason
    open[place]?.isRefused = failure.isRefusal
    open[place]?.dueAt = now + max(pause, demanded)
    open[place]?.notBefore = now + demanded
    health.failed(item.event.line, demand: failure.demand, now: now, chance: chance)
  }

  /// The webhook is back.
  private mutating func retryAll(_ now: Timestamp) {
    for place in heads {
      guard let item = open[place], !item.isGivenUp, item.dueAt > now else { continue }
      open[place]?.dueAt = max(now, item.notBefore)
    }
  }

  package mutating func buried(_ place: Place, isStored: Bool, now: Timestamp) {
    guard let item = open[place], item.state == .burying else { return }
    lookAt = now
    guard isStored else {
      open[place]?.state = .waiting
      open[place]?.dueAt = now + Self.buryAgain
      return
    }
    record.deadLetters += 1
    isChanged = true
    close(place)
  }

  // MARK: What is open

  mutating func add(_ event: AppEvent, at place: Place, storedAt: Timestamp, now: Timestamp) {
    guard open[place] == nil else { return }
    open[place] = Open(event: event, storedAt: storedAt)
    queues[event.line, default: []].append(place)
    if queues[event.line]?.count == 1 { addHead(place) }
    lookAt = now
    isChanged = true
  }

  /// A read changes the record, even if it found nothing for this webhook.
  mutating func noteRead() { isChanged = true }

  private mutating func close(_ place: Place) {
    guard let item = open.removeValue(forKey: place) else { return }
    heads.removeAll { $0 == place }
    let line = item.event.line
    queues[line]?.removeAll { $0 == place }
    if let next = queues[line]?.first { addHead(next) } else { queues[line] = nil }
  }

  private mutating func addHead(_ place: Place) {
    let index = heads.firstIndex { place < $0 } ?? heads.endIndex
    heads.insert(place, at: index)
  }
}
