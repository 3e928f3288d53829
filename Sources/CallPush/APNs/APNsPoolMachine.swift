package import CallCore
internal import DequeModule

/// The pushes and connections of one team, key and environment. Decides when each push is sent on which connection, and
/// the consequence of each answer, loss and timeout. Does no I/O: the time is an argument, randomness comes from a
/// seed.
///
/// Invariants: each push completes once; no push is sent after a final answer; a notice of unknown fate is sent once
/// more at most; no connection exceeds its limit of streams.
package struct APNsPoolMachine: Sendable {
  struct Push: Sendable {
    enum State: Sendable, Equatable {
      case queued
      /// Waits until a retry is due.
      case resting(until: Timestamp)
      case inFlight(APNsConnectionID, stream: UInt32, since: Timestamp)
    }
    /// As `PushMessage.isUrgent`.
    let isUrgent: Bool
    let deadline: Timestamp
    let cancellation: PushCancellation?
    /// The deadline; for a notice the end of `noticeTimeout` if that is earlier.
    let until: Timestamp
    var state = State.queued
    var attempts = 0
    /// Attempts that followed an answer.
    var retries = 0
    /// The number of times that the provider returned it unprocessed.
    var returns = 0
    /// Attempts whose fate is unknown.
    var doubts = 0
    /// The connection on which it failed.
    var avoid: APNsConnectionID?
    var lastTrouble = "no connection"
  }

  /// A place for one connection that takes pushes.
  struct Slot: Sendable {
    var connection: APNsConnectionID?
    /// Consecutive connections that failed.
    var failures = 0
    var retryAt: Timestamp
  }

  enum Phase: Sendable, Equatable {
    case running
    case closing(until: Timestamp)
    case closed
  }

  /// Returns after which a notice fails. It waits longer before each.
  static let returnsMax = 24
  static let returnBackoff = Backoff(.milliseconds(10), to: .seconds(1))
  /// Draining connections per slot. Policy: the oldest is closed.
  static let drainingMax = 4
  /// A connection that lasted this long does not count as failed.
  static let usefulLife = Span.seconds(60)
  static let shortLife = Span.seconds(1)

  /// The effects that the driver must carry out, in order. It takes them after each event.
  package var effects: [APNsEffect] = []
  let limits: APNsLimits
  var random: SplitMix64
  var phase = Phase.running
  var pushes: [APNsPushKey: Push] = [:]
  var inFlight = 0
  /// Rings are sent before notices. Entries of completed pushes are skipped.
  var urgent = Deque<APNsPushKey>()
  var ordinary = Deque<APNsPushKey>()
  var connections: [APNsConnectionID: APNsConnectionMachine] = [:]
  var slots: [Slot]
  var lastConnection: UInt64 = 0

  package init(limits: APNsLimits, seed: UInt64, now: Timestamp) {
    self.limits = limits
    random = SplitMix64(seed: seed)
    slots = (0..<limits.connections).map { _ in Slot(retryAt: now) }
  }

  // MARK: State

  package var pushesWaiting: Int { pushes.count - inFlight }
  /// Entries of the queues, those of completed pushes included.
  package var queueEntries: Int { urgent.count + ordinary.count }
  package var usableConnections: Int { connections.values.count { $0.isUsable } }
  package func connection(_ id: APNsConnectionID) -> APNsConnectionMachine? { connections[id] }
  package var connectionIDs: [APNsConnectionID] { connections.keys.sorted() }

  /// Whether `tick` is needed sooner than in a second.
  package var isBusy: Bool {
    !pushes.isEmpty || connections.values.contains { !$0.isUsable }
      || slots.contains { $0.connection == nil }
  }

  // MARK: Orders

  /// Opens the first connections.
  package mutating func start(now: Timestamp) {
    openSlots(now: now)
  }

  /// - Parameters:
  ///   - key: must be new.
  ///   - isUrgent: is sent before those that are not.
  package mutating func submit(
    _ key: APNsPushKey, isUrgent: Bool, deadline: Timestamp, cancellation: PushCancellation? = nil,
    now: Timestamp
  ) {
    // A push that was cancelled on its way here is not found by `dropCancelled`.
    guard deadline > now, cancellation?.isCancelled != true else { return refuse(key, .expired) }
    guard phase == .running else { return refuse(key, .failed(reason: "closing")) }
    guard pushesWaiting < limits.queued else {
      effects.append(.note(.queueFull))
      return refuse(key, .failed(reason: "queue full"))
    }
    pushes[key] = Push(
      isUrgent: isUrgent, deadline: deadline, cancellation: cancellation,
      until: isUrgent ? deadline : min(deadline, now + limits.noticeTimeout))
    if isUrgent { urgent.append(key) } else { ordinary.append(key) }
    dispatch(now: now)
  }

  /// Completes a push that the machine does not have.
  private mutating func refuse(_ key: APNsPushKey, _ outcome: PushOutcome) {
    effects.append(.complete(key, .outcome(outcome)))
  }

  /// Connections opened from now on use the next key. Open connections drain.
  package mutating func replaceKey(now: Timestamp) {
    guard phase == .running else { return }
    for id in connectionIDs { drain(id, "the key was replaced", now: now) }
    for index in slots.indices {
      slots[index].failures = 0
      slots[index].retryAt = now
    }
    settle(now: now)
  }

  /// Refuses further pushes. Those it has may finish within the grace.
  package mutating func close(now: Timestamp) {
    guard phase == .running else { return }
    phase = .closing(until: now + limits.drainGrace)
    finishIfDone(now: now)
  }

  // MARK: Sending

  /// Sends waiting pushes on connections that have room.
  mutating func dispatch(now: Timestamp) {
    while let key = nextQueued, let avoid = pushes[key].map(\.avoid) {
      guard pushes[key]?.cancellation?.isCancelled != true else {
        complete(key, .expired)
        continue
      }
      guard let id = connectionWithRoom(avoiding: avoid) else { return }
      guard let opened = connections[id]?.open(key, now: now, random: &random) else {
        drain(id, "it has no provider token left", now: now)
        endDrained(now: now)
        openSlots(now: now)
        continue
      }
      dequeue()
      inFlight += 1
      pushes[key]?.attempts += 1
      pushes[key]?.state = .inFlight(id, stream: opened.stream, since: now)
      effects.append(
        .send(
          id, stream: opened.stream, push: key, token: opened.token,
          attempt: pushes[key]?.attempts ?? 1))
    }
  }

  /// The next waiting push. Removes entries of completed pushes.
  private var nextQueued: APNsPushKey? {
    mutating get {
      while let key = urgent.first {
        if pushes[key]?.state == .queued { return key }
        urgent.removeFirst()
      }
      while let key = ordinary.first {
        if pushes[key]?.state == .queued { return key }
        ordinary.removeFirst()
      }
      return nil
    }
  }

  private mutating func dequeue() {
    if urgent.isEmpty { ordinary.removeFirst() } else { urgent.removeFirst() }
  }

  /// The connection with the fewest streams; `avoided` only if no other has room.
  private func connectionWithRoom(avoiding avoided: APNsConnectionID?) -> APNsConnectionID? {
    var best: (id: APNsConnectionID, streams: Int)?
    var last: APNsConnectionID?
    for slot in slots {
      guard let id = slot.connection, let connection = connections[id], connection.room > 0
      else { continue }
      if id == avoided {
        last = id
      } else if best.map({ connection.streams.count < $0.streams }) ?? true {
        best = (id, connection.streams.count)
      }
    }
    return best?.id ?? last
  }

  // MARK: Ending

  mutating func complete(_ key: APNsPushKey, _ outcome: PushOutcome) {
    complete(key, .outcome(outcome))
  }

  mutating func complete(_ key: APNsPushKey, _ result: APNsResult) {
    guard let push = pushes.removeValue(forKey: key) else { return }
    if case .inFlight = push.state { inFlight -= 1 }
    switch result {
    case .outcome(.failed(let reason, _)) where push.doubts > 0:
      refuse(key, .failed(reason: reason, mayHaveArrived: true))
    case .outcome(.expired) where push.doubts > 0:
      refuse(key, .failed(reason: "the call is over", mayHaveArrived: true))
    default: effects.append(.complete(key, result))
    }
  }

  /// Completes the pushes that were cancelled while they wait for a connection or rest.
  package mutating func dropCancelled(now: Timestamp) {
    let dropped = pushes.filter { _, push in
      if case .inFlight = push.state { return false }
      return push.cancellation?.isCancelled == true
    }
    for key in dropped.keys.sorted() { complete(key, .expired) }
    settle(now: now)
  }

  mutating func finishIfDone(now: Timestamp) {
    guard case .closing(let until) = phase, pushes.isEmpty || now >= until else { return }
    phase = .closed
    for key in pushes.keys.sorted() {
      var isOut = false
      if case .inFlight = pushes[key]?.state { isOut = true }
      complete(key, .failed(reason: "closed", mayHaveArrived: isOut))
    }
    for id in connectionIDs { effects.append(.disconnect(id, "closed")) }
    connections = [:]
    for index in slots.indices { slots[index].connection = nil }
    urgent = []
    ordinary = []
    effects.append(.finished)
  }
}
