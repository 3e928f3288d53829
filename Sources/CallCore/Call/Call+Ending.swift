/// How a call connects and how it ends.
extension Call {
  /// - Parameter session: where the command came from, and where the reply goes.
  mutating func cancel(
    on session: SessionRef, _ context: CallContext, into outcome: inout Outcome
  ) -> Reply {
    if isRinging {
      end(
        .cancelled, by: facts.caller, silent: learnsByReply(caller, on: session) ? .caller : nil,
        context, into: &outcome)
    }
    return .call(state(for: .caller))
  }

  /// - Parameter session: where the command came from, and where the reply goes.
  mutating func hangUp(
    _ role: Role, on session: SessionRef, _ context: CallContext, into outcome: inout Outcome
  ) -> Reply {
    switch (stage, role) {
    case (.ringing, .caller): return cancel(on: session, context, into: &outcome)
    case (.ringing, .leg), (.ringing, .calleeDevice):
      return .error(CallError(.wrongState, "The call is not answered: decline it instead."))
    case (.answered, .caller):
      end(
        .hungUp, by: facts.caller, silent: learnsByReply(caller, on: session) ? .caller : nil,
        context, into: &outcome)
    case (.answered, .leg(let leg)) where legs[leg].state == .won:
      let isSilent = learnsByReply(legs[leg].endpoint, on: session)
      end(
        .hungUp, by: legs[leg].party, silent: isSilent ? .leg(leg) : nil, context, into: &outcome)
    case (.answered, _), (.ended, _), (.ringing, .stranger): break
    }
    return .call(state(for: role))
  }

  /// Whether the reply on this session is enough for the device to learn what its command did. If the device
  /// has begun another session since, its app may have forgotten the call and been invited anew, so it gets
  /// the end as a delivery, too.
  private func learnsByReply(_ endpoint: Endpoint, on session: SessionRef) -> Bool {
    endpoint.session.map { $0 == session } ?? true
  }

  mutating func connected(_ role: Role, _ context: CallContext, into outcome: inout Outcome)
    -> Reply
  {
    switch (stage, role) {
    case (.answered(let conversation), .caller):
      if !conversation.isCallerConnected {
        commit(.connected(caller: true), .slow, context, into: &outcome)
      }
      return .done
    case (.answered(let conversation), .leg(let leg)) where leg == conversation.winner:
      if !conversation.isWinnerConnected {
        commit(.connected(caller: false), .slow, context, into: &outcome)
      }
      return .done
    case (.ringing, _): return .error(CallError(.wrongState, "Nobody has answered yet."))
    case (.answered, _), (.ended, _): return .call(state(for: role))
    }
  }

  // MARK: Ends

  /// Ends the call and delivers the end to every device that it concerns.
  /// - Parameters:
  ///   - by: who caused it; nil where nobody did (a timeout).
  ///   - silent: whose device learns the end from the reply to its command, and gets no delivery.
  mutating func end(
    _ reason: EndReason, by: Party?, silent: Role? = nil, _ context: CallContext,
    into outcome: inout Outcome
  ) {
    let winner = winner
    // When the call was answered, those that had left were stopped already.
    let live = legs.indices.filter {
      winner == nil ? legs[$0].state.mayStillRing : legs[$0].state.isLive
    }
    // A user who declined on one device has seen the call.
    let isMissed = reason.isMissedCall && !legs.contains { $0.state.isDeclined }
    let isPushed = winner == nil && (hasRingPushUnderWay || legs.contains { $0.ringPush.mayRing })
    if isMissed || isPushed { wantsPush = true }
    commit(
      .ended(EndedFacts(reason: reason, by: by, at: context.now, missed: isMissed)),
      reason == .hungUp ? .relaxed : .urgent, context, into: &outcome)
    caller.clear()
    if case .caller = silent {
    } else {
      deliverToCaller(.stop(Stop(reason: reason, by: by)), context, into: &outcome)
    }
    for leg in live {
      if case .leg(leg) = silent {
        legs[leg].endpoint.clear()
      } else {
        stop(leg: leg, Stop(reason: reason, by: by, missed: isMissed), context, into: &outcome)
      }
    }
    if let winner {
      legs[winner].endpoint.clear()
      if case .leg(winner) = silent {
      } else {
        deliver(to: winner, .stop(Stop(reason: reason, by: by)), context, into: &outcome)
      }
    }
    settleIfAcknowledged(context, into: &outcome)
  }

  /// Ends a ringing call when no leg is left that may answer (R19).
  mutating func endIfNobodyIsLeft(_ context: CallContext, into outcome: inout Outcome) {
    guard case .ringing(let ringing) = stage else { return }
    guard !legs.contains(where: { $0.state.isLive }) else {
      // Perhaps only devices that lost their sockets are left.
      watchLegs(context)
      endIfUnreached(context, into: &outcome)
      return
    }
    // Where somebody refused, the caller has an answer. Otherwise unknown devices are waited for.
    let isRefused = legs.contains { $0.state.refusal != nil }
    if let until = ringing.sessionsUnknownUntil, context.now < until, !isRefused {
      changeRinging { $0.legsLostUntil = until }
    } else {
      endUnreached(context, into: &outcome)
    }
  }

  /// Ends the call if the time in which a lost leg may come back is over.
  private mutating func endIfUnreached(_ context: CallContext, into outcome: inout Outcome) {
    guard case .ringing(let ringing) = stage, let until = ringing.legsLostUntil,
      until <= context.now
    else { return }
    endUnreached(context, into: &outcome)
  }

  /// Nobody is left to answer: declined where a person said so, busy where a device did, else
  /// unreachable.
  mutating func endUnreached(_ context: CallContext, into outcome: inout Outcome) {
    if let decliner = legs.last(where: { $0.state.isDeclined }) {
      end(.declined, by: decliner.party, context, into: &outcome)
    } else if let busy = legs.last(where: { $0.state.refusal != nil }) {
      end(.busy, by: busy.party, context, into: &outcome)
    } else {
      end(.unreachable, by: nil, context, into: &outcome)
    }
  }

  /// Once every device has acknowledged the end, a new owner of the shard need not deliver it again.
  mutating func settleIfAcknowledged(_ context: CallContext, into outcome: inout Outcome) {
    guard isEnded, !isSettled, caller.outbox.isEmpty,
      legs.allSatisfy({ $0.endpoint.outbox.isEmpty })
    else { return }
    commit(.settled, .idle, context, into: &outcome)
  }
}
