package import CallCore
internal import DequeModule

/// The provider's answers, and the pushes that have none.
extension APNsPoolMachine {
  package mutating func answered(
    _ id: APNsConnectionID, stream: UInt32, _ response: APNsResponse, now: Timestamp
  ) {
    guard let open = connections[id]?.finished(stream, answered: true, now: now) else { return }
    effects.append(
      .note(
        .answered(
          status: response.status, reason: response.reason, after: now - open.openedAt)))
    let push = pushes[open.push]
    let verdict = APNsVerdict.of(
      response, isUrgent: push?.isUrgent ?? true, retries: push?.retries ?? 0,
      timeLeft: push.map { $0.until - now } ?? .seconds(0), chance: random.next())

    // The alarm is counted before the push completes, so that its caller finds it counted.
    if verdict.alarms { effects.append(.note(.alarm(response.reason))) }
    if let push {
      apply(
        verdict, to: open.push, push, isCurrent: push.isInFlight(on: id, stream: stream),
        from: id, response.reason, now: now)
    } else {
      effects.append(.note(.answeredLate(status: response.status)))
    }
    apply(verdict, to: id, open, reason: response.reason, now: now)
    settle(now: now)
  }

  /// - Parameter isCurrent: whether the push still waits for this attempt. The answer to an abandoned attempt counts
  ///   only if it is final; else the later attempt decides.
  private mutating func apply(
    _ verdict: APNsVerdict, to key: APNsPushKey, _ push: Push, isCurrent: Bool,
    from id: APNsConnectionID, _ reason: String, now: Timestamp
  ) {
    switch verdict.push {
    case .accepted: complete(key, .accepted)
    case .tokenGone(let at): complete(key, .tokenGone(at: at))
    case .tokenRefused(let reason): complete(key, .tokenRefused(reason: reason))
    case .rejected(let reason): complete(key, .rejected(reason: reason))
    case .failed(let reason): if isCurrent { complete(key, .failed(reason: reason)) }
    case .retry(let after, let elsewhere):
      guard isCurrent else { return }
      pushes[key]?.retries += 1
      pushes[key]?.lastTrouble = reason
      pushes[key]?.avoid = elsewhere ? id : nil
      putBack(key, at: now + after, now: now)
    }
  }

  private mutating func apply(
    _ verdict: APNsVerdict, to id: APNsConnectionID, _ open: APNsConnectionMachine.OpenStream,
    reason: String, now: Timestamp
  ) {
    switch verdict.connection {
    case .keep: connections[id]?.served()
    case .proven:
      connections[id]?.served()
      connections[id]?.proven()
    case .drain: drain(id, reason, now: now)
    case .goBackToFormerToken:
      switch connections[id]?.tokens.refusedAsTooSoon(serial: open.token.serial, now: now) {
      case nil, .ignore: break
      case .wentBack: effects.append(.note(.wentBackToFormerToken(id)))
      case .replaceConnection: drain(id, reason, now: now)
      }
    }
  }

  /// - Parameter isRefused: RST_STREAM with REFUSED_STREAM, or the request was never written: the provider has not
  ///   processed it.
  package mutating func reset(
    _ id: APNsConnectionID, stream: UInt32, isRefused: Bool, now: Timestamp
  ) {
    guard let open = connections[id]?.finished(stream, answered: false, now: now) else { return }
    if let push = pushes[open.push], push.isInFlight(on: id, stream: stream) {
      if isRefused {
        returned(open.push, from: id, "refused", now: now)
      } else {
        lost(open.push, on: id, "the stream was reset", now: now)
      }
    }
    settle(now: now)
  }

  /// The connection takes no new streams. Streams above `last` were not processed.
  ///
  /// - Parameter isError: with an error code: no further answers will follow.
  package mutating func goAway(
    _ id: APNsConnectionID, last: UInt32, isError: Bool, reason: String, now: Timestamp
  ) {
    guard connections[id] != nil else { return }
    effects.append(.note(.goAway(id, isError: isError, reason: reason)))
    for open in connections[id]?.neverSeen(after: last) ?? [] {
      guard !open.isOverdue, pushes[open.push] != nil else { continue }
      returned(open.push, from: id, "GOAWAY \(reason)", now: now)
    }
    if isError {
      end(id, "GOAWAY \(reason)", now: now)
    } else {
      drain(id, "GOAWAY \(reason)", now: now)
    }
    settle(now: now)
  }

  // MARK: Pushes without an answer

  /// The provider has not processed the push. It is sent on another connection at once and counts as never sent. From
  /// the fourth return on it rests in between.
  mutating func returned(
    _ key: APNsPushKey, from id: APNsConnectionID, _ why: String, now: Timestamp
  ) {
    guard var push = pushes[key] else { return }
    push.returns += 1
    push.avoid = id
    push.lastTrouble = why
    pushes[key] = push
    guard push.isUrgent || push.returns <= Self.returnsMax else {
      return complete(key, .failed(reason: why))
    }
    effects.append(.note(.requeued))
    let rest = push.returns < 4 ? .zero : Self.returnBackoff.pause(after: push.returns - 4)
    putBack(key, at: now + rest, now: now)
  }

  /// It is unknown whether the provider has the push. It is sent again on another connection, under the same id: at once,
  /// and then after a growing delay. A notice is sent once more only.
  mutating func lost(_ key: APNsPushKey, on id: APNsConnectionID, _ why: String, now: Timestamp) {
    guard var push = pushes[key] else { return }
    guard push.isUrgent || push.doubts == 0 else { return complete(key, .failed(reason: why)) }
    let rest =
      push.doubts == 0
      ? .zero
      : AttemptContext.urgentBackoff.pause(after: push.doubts - 1, chance: random.next())
    push.doubts += 1
    push.avoid = id
    push.lastTrouble = why
    pushes[key] = push
    effects.append(.note(.repeated))
    putBack(
      key, at: now + min(rest, AttemptContext.longestPause(timeLeft: push.until - now)), now: now)
  }

  /// Puts the push at the head of the queue, since it has waited before.
  mutating func putBack(_ key: APNsPushKey, at time: Timestamp, now: Timestamp) {
    guard let push = pushes[key] else { return }
    // Its call ended while the attempt was under way, and nobody says so again.
    if push.cancellation?.isCancelled == true { return complete(key, .expired) }
    if case .inFlight = push.state { inFlight -= 1 }
    guard time <= now else {
      pushes[key]?.state = .resting(until: time)
      return
    }
    enqueue(key, atHead: true)
  }

  mutating func enqueue(_ key: APNsPushKey, atHead: Bool) {
    guard let isUrgent = pushes[key]?.isUrgent else { return }
    pushes[key]?.state = .queued
    let queue = isUrgent ? \Self.urgent : \Self.ordinary
    if atHead { self[keyPath: queue].prepend(key) } else { self[keyPath: queue].append(key) }
  }
}

extension APNsPoolMachine.Push {
  func isInFlight(on id: APNsConnectionID, stream: UInt32) -> Bool {
    guard case .inFlight(id, stream, _) = state else { return false }
    return true
  }
}
