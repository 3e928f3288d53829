package import CallCore
internal import DequeModule

/// What the provider says, push by push.
extension APNsPoolMachine {
  package mutating func answered(
    _ id: APNsConnectionID, stream: UInt32, _ response: APNsResponse, now: Timestamp,
    into effects: inout [APNsEffect]
  ) {
    guard let open = connections[id]?.finished(stream, answered: true, now: now) else { return }
    effects.append(
      .note(
        .answered(
          status: response.status, reason: response.reason, after: now - open.openedAt)))
    let push = pushes[open.push]
    let verdict = APNsVerdict.of(
      response, retries: push?.retries ?? 0,
      timeLeft: push.map { $0.until - now } ?? .seconds(0),
      jitter: Double.random(in: 0..<1, using: &random))

    // Before the push completes: who was told of its end finds it counted.
    if verdict.alarms { effects.append(.note(.alarm(response.reason))) }
    if let push {
      apply(
        verdict, to: open.push, push, isCurrent: push.isInFlight(on: id, stream: stream),
        from: id, now: now, into: &effects)
    } else {
      effects.append(.note(.answeredLate(status: response.status)))
    }
    apply(verdict, to: id, open, reason: response.reason, now: now, into: &effects)
    if verdict.stopsKey { stop(response.reason, into: &effects) }
    settle(now: now, into: &effects)
  }

  /// - Parameter isCurrent: whether the push still waits for this attempt. The answer to one that was
  ///   given up counts if it is final; if not, the later attempt decides.
  private mutating func apply(
    _ verdict: APNsVerdict, to key: APNsPushKey, _ push: Push, isCurrent: Bool,
    from id: APNsConnectionID, now: Timestamp, into effects: inout [APNsEffect]
  ) {
    switch verdict.push {
    case .accepted: complete(key, .outcome(.accepted), into: &effects)
    case .tokenGone(let at): complete(key, .outcome(.tokenGone(at: at)), into: &effects)
    case .badDeviceToken: complete(key, .badDeviceToken, into: &effects)
    case .rejected(let reason):
      complete(key, .outcome(.rejected(reason: reason)), into: &effects)
    case .failed(let reason):
      guard isCurrent else { return }
      complete(key, .outcome(.failed(reason: reason)), into: &effects)
    case .retry(let after, let elsewhere):
      guard isCurrent else { return }
      pushes[key]?.retries += 1
      pushes[key]?.avoid = elsewhere ? id : nil
      putBack(key, at: now + after, now: now)
    }
  }

  private mutating func apply(
    _ verdict: APNsVerdict, to id: APNsConnectionID, _ open: APNsConnectionMachine.OpenStream,
    reason: String, now: Timestamp, into effects: inout [APNsEffect]
  ) {
    switch verdict.connection {
    case .keep: break
    case .proven: connections[id]?.proven()
    case .drain: drain(id, reason, now: now, into: &effects)
    case .goBackToFormerToken:
      switch connections[id]?.tokens.refusedAsTooSoon(serial: open.token.serial, now: now) {
      case nil, .ignore: break
      case .wentBack: effects.append(.note(.wentBackToFormerToken(id)))
      case .replaceConnection: drain(id, reason, now: now, into: &effects)
      }
    }
  }

  /// - Parameter isRefused: RST_STREAM with REFUSED_STREAM, or the request was never written: the
  ///   provider has not looked at it.
  package mutating func reset(
    _ id: APNsConnectionID, stream: UInt32, isRefused: Bool, now: Timestamp,
    into effects: inout [APNsEffect]
  ) {
    guard let open = connections[id]?.finished(stream, answered: false, now: now) else { return }
    if let push = pushes[open.push], push.isInFlight(on: id, stream: stream) {
      if isRefused {
        returned(open.push, from: id, "refused", now: now, into: &effects)
      } else {
        lost(open.push, on: id, "the stream was reset", now: now, into: &effects)
      }
    }
    settle(now: now, into: &effects)
  }

  /// No new streams on this connection. Streams above `last` were not looked at.
  ///
  /// - Parameter isError: with an error code: nothing more is to be expected of it.
  package mutating func goAway(
    _ id: APNsConnectionID, last: UInt32, isError: Bool, reason: String, now: Timestamp,
    into effects: inout [APNsEffect]
  ) {
    guard connections[id] != nil else { return }
    effects.append(.note(.goAway(id, isError: isError, reason: reason)))
    for open in connections[id]?.neverSeen(after: last) ?? [] {
      guard !open.isOverdue, pushes[open.push] != nil else { continue }
      returned(open.push, from: id, "GOAWAY \(reason)", now: now, into: &effects)
    }
    if isError {
      end(id, "GOAWAY \(reason)", now: now, into: &effects)
    } else {
      drain(id, "GOAWAY \(reason)", now: now, into: &effects)
    }
    settle(now: now, into: &effects)
  }

  // MARK: What happens to a push that has no answer

  /// The provider has not looked at it: it goes elsewhere at once, and counts as never sent. One that
  /// comes back again and again rests in between.
  mutating func returned(
    _ key: APNsPushKey, from id: APNsConnectionID, _ why: String, now: Timestamp,
    into effects: inout [APNsEffect]
  ) {
    guard var push = pushes[key] else { return }
    push.returns += 1
    push.avoid = id
    push.lastTrouble = why
    pushes[key] = push
    guard push.returns <= Self.returnsMax else {
      complete(key, .outcome(.failed(reason: why)), into: &effects)
      return
    }
    effects.append(.note(.requeued))
    let rest = push.returns < 4 ? 0 : min(1_000_000, 10_000 << (push.returns - 4))
    putBack(key, at: now + Span(microseconds: Int64(rest)), now: now)
  }

  /// Whether the provider has it is not known: once more, elsewhere, under the same id.
  mutating func lost(
    _ key: APNsPushKey, on id: APNsConnectionID, _ why: String, now: Timestamp,
    into effects: inout [APNsEffect]
  ) {
    guard var push = pushes[key] else { return }
    guard !push.isRepeated else {
      complete(key, .outcome(.failed(reason: why)), into: &effects)
      return
    }
    push.isRepeated = true
    push.avoid = id
    push.lastTrouble = why
    pushes[key] = push
    effects.append(.note(.repeated))
    putBack(key, at: now, now: now)
  }

  /// To the head of the queue: it has waited before.
  mutating func putBack(_ key: APNsPushKey, at time: Timestamp, now: Timestamp) {
    guard let push = pushes[key] else { return }
    if case .inFlight = push.state { inFlight -= 1 }
    guard time <= now else {
      pushes[key]?.state = .resting(until: time)
      return
    }
    pushes[key]?.state = .queued
    if push.isUrgent { urgent.prepend(key) } else { ordinary.prepend(key) }
  }
}

extension APNsPoolMachine.Push {
  func isInFlight(on id: APNsConnectionID, stream: UInt32) -> Bool {
    guard case .inFlight(id, stream, _) = state else { return false }
    return true
  }
}
