package import CallCore
internal import DequeModule

/// What became of a push in one pool.
package enum APNsResult: Sendable, Equatable {
  case outcome(PushOutcome)
  /// APNs knows no such token in this pool's environment; it may be one of the other.
  case badDeviceToken
}

/// What a pool wants done.
package enum APNsEffect: Sendable, Equatable {
  /// - Parameter generation: with which key: the one of that many replacements.
  case connect(APNsConnectionID, generation: Int)
  /// - Parameter attempt: 1 for a push's first.
  case send(
    APNsConnectionID, stream: UInt32, push: APNsPushKey, token: APNsTokenMachine.Token, attempt: Int
  )
  case ping(APNsConnectionID)
  /// The machine has forgotten the connection: nothing that comes from it counts any more.
  case disconnect(APNsConnectionID, String)
  case complete(APNsPushKey, APNsResult)
  case note(APNsNote)
  /// After `close`: no push and no connection is left.
  case finished
}

/// What is worth counting or logging.
package enum APNsNote: Sendable, Equatable {
  /// An answer came, so long after the request.
  case answered(status: Int, reason: String, after: Span)
  /// An answer that nobody waited for any more.
  case answeredLate(status: Int)
  case goAway(APNsConnectionID, isError: Bool, reason: String)
  case connectionEnded(APNsConnectionID, reason: String)
  /// A push that the provider has not looked at goes elsewhere.
  case requeued
  /// A push whose fate is not known is sent once more, with the same id.
  case repeated
  /// An attempt's time is over.
  case overdue
  case wentBackToFormerToken(APNsConnectionID)
  /// Somebody must look.
  case alarm(String)
  case queueFull
}

/// The pushes and connections of one team, key and environment: which push goes where, when, and
/// what each answer, loss and timer means. Does no I/O; time is an argument, chance a seed.
///
/// What it holds to: each push completes once; after a final answer it is not sent again; a push whose
/// fate is unknown is sent once more and no more; no connection has more streams than it may.
package struct APNsPoolMachine: Sendable {
  struct Push: Sendable {
    enum State: Sendable, Equatable {
      case queued
      /// Until a retry is due.
      case resting(until: Timestamp)
      case inFlight(APNsConnectionID, stream: UInt32, since: Timestamp)
    }
    let isUrgent: Bool
    let deadline: Timestamp
    let cancellation: PushCancellation?
    /// The deadline, or when our patience ends.
    let until: Timestamp
    var state = State.queued
    var attempts = 0
    /// Attempts that followed an answer.
    var retries = 0
    /// How often the provider gave it back unseen.
    var returns = 0
    /// An attempt's fate is unknown: the one repetition is used up.
    var isRepeated = false
    /// Where it failed.
    var avoid: APNsConnectionID?
    var lastTrouble = "no connection"
  }

  /// A place in the pool for a connection that takes pushes.
  struct Slot: Sendable {
    var connection: APNsConnectionID?
    /// Connections in a row that came to nothing.
    var failures = 0
    var retryAt: Timestamp
  }

  enum Phase: Sendable, Equatable {
    case running
    case closing(until: Timestamp)
    case closed
  }

  /// A push that comes back unseen as often waits longer each time; after the last it fails.
  static let returnsMax = 24
  /// Connections that drain, per slot; beyond that the oldest is cut off.
  static let drainingMax = 4
  /// A connection that lived so long was worth opening.
  static let usefulLife = Span.seconds(60)
  static let shortLife = Span.seconds(1)

  let limits: APNsLimits
  var random: SplitMix64
  var phase = Phase.running
  var pushes: [APNsPushKey: Push] = [:]
  var inFlight = 0
  /// Rings do not wait behind notices. Entries of pushes that are over are skipped.
  var urgent = Deque<APNsPushKey>()
  var ordinary = Deque<APNsPushKey>()
  var connections: [APNsConnectionID: APNsConnectionMachine] = [:]
  var slots: [Slot]
  var lastConnection: UInt64 = 0
  var generation = 0
  /// Why no push with this key is taken.
  package internal(set) var stopped: String?

  package init(limits: APNsLimits, seed: UInt64, now: Timestamp) {
    self.limits = limits
    random = SplitMix64(seed: seed)
    slots = (0..<limits.connections).map { _ in Slot(retryAt: now) }
  }

  // MARK: What stands where

  package var pushesInFlight: Int { inFlight }
  package var pushesWaiting: Int { pushes.count - inFlight }
  /// Entries of the queues, those of pushes that are over included.
  package var queueEntries: Int { urgent.count + ordinary.count }
  package var usableConnections: Int { connections.values.count { $0.isUsable } }
  package func connection(_ id: APNsConnectionID) -> APNsConnectionMachine? { connections[id] }
  package var connectionIDs: [APNsConnectionID] { connections.keys.sorted() }

  /// Whether `tick` has something to look at soon, rather than in a second.
  package var isBusy: Bool {
    !pushes.isEmpty || connections.values.contains { !$0.isUsable }
      || slots.contains { $0.connection == nil }
  }

  // MARK: Orders

  /// Opens the first connections.
  package mutating func start(now: Timestamp, into effects: inout [APNsEffect]) {
    openSlots(now: now, into: &effects)
  }

  /// - Parameters:
  ///   - key: never used before.
  ///   - isUrgent: goes before those that are not.
  package mutating func submit(
    _ key: APNsPushKey, isUrgent: Bool, deadline: Timestamp, cancellation: PushCancellation? = nil,
    now: Timestamp, into effects: inout [APNsEffect]
  ) {
    guard deadline > now else {
      effects.append(.complete(key, .outcome(.expired)))
      return
    }
    guard phase == .running else {
      effects.append(.complete(key, .outcome(.failed(reason: "closing"))))
      return
    }
    if let stopped {
      effects.append(.complete(key, .outcome(.rejected(reason: stopped))))
      return
    }
    guard pushesWaiting < limits.queued else {
      effects.append(.note(.queueFull))
      effects.append(.complete(key, .outcome(.failed(reason: "queue full"))))
      return
    }
    pushes[key] = Push(
      isUrgent: isUrgent, deadline: deadline, cancellation: cancellation,
      until: min(deadline, now + limits.patience))
    if isUrgent { urgent.append(key) } else { ordinary.append(key) }
    dispatch(now: now, into: &effects)
  }

  /// From now on connections are opened with the next key; those that are open drain.
  package mutating func replaceKey(now: Timestamp, into effects: inout [APNsEffect]) {
    guard phase == .running else { return }
    generation += 1
    stopped = nil
    for id in connectionIDs { drain(id, "the key was replaced", now: now, into: &effects) }
    for index in slots.indices {
      slots[index].failures = 0
      slots[index].retryAt = now
    }
    settle(now: now, into: &effects)
  }

  /// Takes no more pushes; those it has may finish within the grace.
  package mutating func close(now: Timestamp, into effects: inout [APNsEffect]) {
    guard phase == .running else { return }
    phase = .closing(until: now + limits.drainGrace)
    finishIfDone(now: now, into: &effects)
  }

  // MARK: Leaving

  /// Hands waiting pushes to connections that have room.
  mutating func dispatch(now: Timestamp, into effects: inout [APNsEffect]) {
    while let key = nextQueued, let avoid = pushes[key].map(\.avoid) {
      guard pushes[key]?.cancellation?.isCancelled != true else {
        complete(key, .outcome(.expired), into: &effects)
        continue
      }
      guard let id = connectionWithRoom(avoiding: avoid) else { return }
      guard let opened = connections[id]?.open(key, now: now, random: &random) else {
        drain(id, "it has no provider token left", now: now, into: &effects)
        endDrained(now: now, into: &effects)
        openSlots(now: now, into: &effects)
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

  /// The next push that waits, after those that are over have been skipped.
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

  /// The one with the fewest streams; `avoided` only if no other has room.
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

  mutating func complete(
    _ key: APNsPushKey, _ result: APNsResult, into effects: inout [APNsEffect]
  ) {
    guard let push = pushes.removeValue(forKey: key) else { return }
    if case .inFlight = push.state { inFlight -= 1 }
    if push.isRepeated, case .outcome(.failed(let reason, _)) = result {
      let failed = PushOutcome.failed(reason: reason, mayHaveArrived: true)
      return effects.append(.complete(key, .outcome(failed)))
    }
    effects.append(.complete(key, result))
  }

  /// No push with this key will be taken: neither those that wait.
  mutating func stop(_ reason: String, into effects: inout [APNsEffect]) {
    stopped = reason
    for key in pushes.keys.sorted() {
      if case .inFlight = pushes[key]?.state { continue }
      complete(key, .outcome(.rejected(reason: reason)), into: &effects)
    }
  }

  mutating func finishIfDone(now: Timestamp, into effects: inout [APNsEffect]) {
    guard case .closing(let until) = phase, pushes.isEmpty || now >= until else { return }
    phase = .closed
    for key in pushes.keys.sorted() {
      var isOut = false
      if case .inFlight = pushes[key]?.state { isOut = true }
      complete(
        key, .outcome(.failed(reason: "closed", mayHaveArrived: isOut)), into: &effects)
    }
    for id in connectionIDs { effects.append(.disconnect(id, "closed")) }
    connections = [:]
    for index in slots.indices { slots[index].connection = nil }
    urgent = []
    ordinary = []
    effects.append(.finished)
  }
}
