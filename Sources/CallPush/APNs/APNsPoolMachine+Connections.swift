package import CallCore
internal import DequeModule

/// Connections, and timeouts.
extension APNsPoolMachine {
  /// TLS is up, and the peer chose HTTP/2.
  package mutating func connected(_ id: APNsConnectionID, now: Timestamp) {
    connections[id]?.connected(now: now)
  }

  package mutating func settings(_ id: APNsConnectionID, maxStreams: Int?, now: Timestamp) {
    connections[id]?.settings(maxStreams: maxStreams, now: now)
    settle(now: now)
  }

  /// Bytes were received.
  package mutating func read(_ id: APNsConnectionID, now: Timestamp) {
    let before = connections[id]?.room
    connections[id]?.read(now: now)
    if before == 0 { dispatch(now: now) }
  }

  /// The connection could not be opened, was closed, or failed.
  package mutating func ended(_ id: APNsConnectionID, _ reason: String, now: Timestamp) {
    end(id, reason, now: now)
    settle(now: now)
  }

  /// Must be called every few dozen milliseconds while `isBusy`, else every second.
  package mutating func tick(now: Timestamp) {
    tickPushes(now: now)
    for id in connectionIDs {
      switch connections[id]?.tick(now: now) {
      case nil, .nothing: break
      case .ping: effects.append(.ping(id))
      case .ended(let reason): end(id, reason, now: now)
      }
    }
    settle(now: now)
    dropStaleEntries()
  }

  private mutating func tickPushes(now: Timestamp) {
    var over: [APNsPushKey] = []
    var rested: [APNsPushKey] = []
    var overdue: [APNsPushKey] = []
    for (key, push) in pushes {
      if push.until <= now {
        over.append(key)
        continue
      }
      switch push.state {
      case .queued: break
      case .resting(let until): if until <= now { rested.append(key) }
      case .inFlight(_, _, let since):
        if now - since >= limits.attemptTimeout { overdue.append(key) }
      }
    }
    // Sorted, so that a seed always gives the same run.
    for key in over.sorted() {
      guard let push = pushes[key] else { continue }
      if case .inFlight(let id, let stream, _) = push.state {
        _ = connections[id]?.overdue(stream)
        complete(key, .failed(reason: "no answer", mayHaveArrived: true))
      } else if push.attempts == 0, push.deadline <= now {
        complete(key, .expired)
      } else {
        complete(key, .failed(reason: push.lastTrouble))
      }
    }
    // Behind those that were not tried yet: else pushes that are refused again and again would stay at the head.
    for key in rested.sorted() { enqueue(key, atHead: false) }
    for key in overdue.sorted(by: >) { attemptOverdue(key, now: now) }
  }

  private mutating func attemptOverdue(_ key: APNsPushKey, now: Timestamp) {
    guard case .inFlight(let id, let stream, _) = pushes[key]?.state else { return }
    effects.append(.note(.overdue))
    let isHopeless = connections[id]?.overdue(stream) ?? false
    lost(key, on: id, "no answer", now: now)
    if isHopeless { drain(id, "it answers nothing", now: now) }
  }

  /// Runs after each event.
  mutating func settle(now: Timestamp) {
    endDrained(now: now)
    openSlots(now: now)
    dispatch(now: now)
    finishIfDone(now: now)
  }

  // MARK: Opening

  mutating func openSlots(now: Timestamp) {
    guard phase != .closed else { return }
    for index in slots.indices where slots[index].connection == nil {
      guard slots[index].retryAt <= now else { continue }
      lastConnection += 1
      let id = APNsConnectionID(lastConnection)
      connections[id] = APNsConnectionMachine(id: id, limits: limits, now: now)
      slots[index].connection = id
      effects.append(.connect(id))
    }
  }

  /// Frees the slot of a connection that takes no more pushes. The next connection follows at once after a useful one,
  /// else after a growing backoff.
  private mutating func freeSlot(of id: APNsConnectionID, now: Timestamp) {
    guard let index = slots.firstIndex(where: { $0.connection == id }),
      let connection = connections[id]
    else { return }
    slots[index].connection = nil
    let life = now - connection.startedAt
    if connection.hasServed || life >= Self.usefulLife {
      slots[index].failures = 0
      slots[index].retryAt = life >= Self.shortLife ? now : now + backoff(1)
    } else {
      slots[index].failures += 1
      slots[index].retryAt = now + backoff(slots[index].failures)
    }
  }

  private mutating func backoff(_ failures: Int) -> Span {
    Backoff(limits.reconnectDelay, to: limits.reconnectDelayMax)
      .pause(after: failures - 1, random: &random)
  }

  // MARK: Closing

  /// The connection takes no more pushes, and ends when those under way are answered.
  mutating func drain(_ id: APNsConnectionID, _ reason: String, now: Timestamp) {
    guard let connection = connections[id], !connection.isDraining else { return }
    effects.append(.note(.connectionEnded(id, reason: reason)))
    freeSlot(of: id, now: now)
    connections[id]?.drain(now: now)
    let draining = connectionIDs.filter { connections[$0]?.isDraining == true }
    if draining.count > Self.drainingMax * limits.connections, let oldest = draining.first {
      end(oldest, "too many connections drain", now: now)
    }
  }

  mutating func endDrained(now: Timestamp) {
    for (id, connection) in connections
    where connection.isDraining && connection.streams.isEmpty {
      end(id, "drained", now: now)
    }
  }

  /// The connection is gone. Its pushes under way may or may not have arrived.
  mutating func end(_ id: APNsConnectionID, _ reason: String, now: Timestamp) {
    guard let connection = connections[id] else { return }
    if !connection.isDraining { effects.append(.note(.connectionEnded(id, reason: reason))) }
    freeSlot(of: id, now: now)
    connections[id] = nil
    effects.append(.disconnect(id, reason))
    for open in connection.lost where !open.isOverdue {
      lost(open.push, on: id, reason, now: now)
    }
  }

  /// Completed pushes leave entries in the queues. This bounds their number.
  private mutating func dropStaleEntries() {
    guard queueEntries > 2 * pushesWaiting + 64 else { return }
    let pushes = pushes
    urgent.removeAll { pushes[$0]?.state != .queued }
    ordinary.removeAll { pushes[$0]?.state != .queued }
  }
}
