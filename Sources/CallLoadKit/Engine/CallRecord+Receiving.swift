import CallCore
import CallJudge
import CallWire

/// Records what a device receives, and finds what no device may receive at that point.
extension CallRecord {
  mutating func receive(_ device: Int, _ delivery: Delivery, at now: Timestamp) {
    note(.delivered(delivery), of: device, at: now)
    change(device) { $0.wasNotified = true }
    if transfer != nil, receiveOfTransfer(device, delivery, at: now) { return }
    switch delivery.event {
    case .invite(let invite):
      // The cluster's clock may differ from ours; how long the call still rings does not.
      rings(until: now + (invite.deadline - delivery.at))
      examineForwarding(of: invite, to: device)
      examineHook(invite, to: device)
      invited(device, delivery.version, at: now)
      change(device) { $0.inviteSentAt = min($0.inviteSentAt ?? delivery.at, delivery.at) }
    case .answered(let answered):
      answerSentAt = answerSentAt ?? delivery.at
      self.answered(device, by: number(of: answered.by), delivery.version, at: now)
    case .stop(let stop):
      gaveWay(device, stop.reason, to: stop.survivor)
      stopped(
        device,
        DeviceRecord.End(
          callEnd: CallEnd(reason: stop.reason, by: stop.by.map(number)), missed: stop.missed,
          version: delivery.version, at: now))
    case .moved(let moved):
      let to = number(of: moved.to)
      change(device) { $0.moves.append(to) }
    case .ringing: if device == facts.caller { hasRungAtCaller = true }
    case .signal, .transfer, .ringsUntil: break
    }
  }

  private mutating func rings(until end: Timestamp) { ringsOutAt = min(ringsOutAt ?? end, end) }

  /// An invite names the user, or the group, from whom the call came, where that was another one.
  private mutating func examineForwarding(of invite: Invite, to device: Int) {
    let by = facts.route.called(roster) ?? ""
    guard invite.divertedBy != by else { return }
    func who(_ user: String) -> String { user.isEmpty ? "nobody" : user }
    violate(
      .forwardedWrongly,
      "\(name(of: device)) was told that \(who(invite.divertedBy)) sent the call on, and not "
        + who(by))
  }

  private mutating func invited(_ device: Int, _ version: UInt64, at now: Timestamp) {
    let name = name(of: device)
    guard facts.callees.contains(device), let before = record(of: device) else {
      return violate(.toldToRingAfterEnd, "\(name) was told to ring, but is not the callee's")
    }
    let isOld = before.end.map { version < $0.version } ?? false
    var isOvertaken = false
    if let end = before.end, let attached = before.attachedAt {
      isOvertaken = isOld && end.at <= attached && now < attached + CallChecker.skew
    }
    func odd(_ what: String, isLate: Bool = false) {
      oddities.append(
        Oddity(
          rule: before.wasWoken ? .wokenRangAfterEnd : .toldToRingAfterEnd, device: device, at: now,
          isOld: isOld || isLate, isOvertaken: isOvertaken,
          what: "\(name) was told to ring after \(what)"))
    }
    if before.isOver {
      odd("it was told of the end")
    } else if facts.crosses != nil, device == answeredBy {
      // It has the call because it placed the crossing one. The invite brings it the offer, also from a new owner.
    } else if let over = ringOverAt, over + CallChecker.skew < now {
      odd("the caller knew of the end")
    } else if (ringsOutAt ?? deadline) + CallChecker.skew < now {
      // An owner sends no invite after its own deadline, so this one was sent before.
      odd("the ring timeout", isLate: true)
    }
    change(device) { $0.invitedAt = $0.invitedAt ?? now }
  }

  private mutating func answered(_ device: Int, by: Int, _ version: UInt64, at now: Timestamp) {
    guard device == facts.caller else {
      // A winner that attaches again is notified so, and one that has taken the call over.
      guard by == device else { return }
      return change(device) {
        if $0.pulls {
          $0.tookOver(at: now, version: version)
        } else {
          $0.wonAt = $0.wonAt ?? now
        }
      }
    }
    ringOverAt = ringOverAt ?? now
    if let first = answeredBy, first != by {
      violate(.twoWinners, "the caller was told of a second answer")
    }
    answeredBy = answeredBy ?? by
    answeredToldAt = answeredToldAt ?? now
    if let end = caller.end {
      oddities.append(
        Oddity(
          rule: .duplicateEnd, device: device, at: now, isOld: version < end.version,
          what: "the caller was told of an answer after the end"))
    } else if caller.isOver, refusal == nil {
      // A caller that gave its `place` up got no reply; its cancel may come after the answer.
      violate(.duplicateEnd, "the caller was told of an answer after it had left")
    }
  }

  private mutating func stopped(_ device: Int, _ end: DeviceRecord.End) {
    guard let before = record(of: device) else { return }
    // The end is that of its part before it took the call over.
    if let taken = before.tookOver, end.version <= taken.version { return }
    if before.mayHaveTakenOver, end.reason.followsAnswer {
      return change(device) { $0.endAfterPull = $0.endAfterPull ?? end }
    }
    if device == facts.caller { ringOverAt = ringOverAt ?? end.at }
    let name = name(of: device)
    if before.wonAt != nil, end.reason == .answeredElsewhere {
      violate(.winnerToldItLost, "\(name) won, and was told \(end.reason.name)")
    } else if let first = before.stop, !first.isRepeated(by: end, acrossSessions: before.wasAway) {
      oddities.append(
        Oddity(
          rule: .duplicateEnd, device: device, at: end.at,
          isOld: end.callEnd == first.callEnd && end.version < first.version,
          what: "\(name) was told \(first.reason.name), then \(end.reason.name)"))
    } else if before.stop == nil, let first = before.replied, first.reason != end.reason {
      violate(.duplicateEnd, "\(name) had the reply \(first.reason.name), then \(end.reason.name)")
    }
    change(device) { $0.stop = $0.stop ?? end }
  }

  // MARK: Replies

  mutating func receive(
    _ device: Int, _ command: ClientCommand, _ reply: ServerReply, at now: Timestamp
  ) {
    note(.replied(reply), of: device, at: now)
    switch reply {
    case .done: agree(device, command, at: now)
    case .call(let state):
      agree(device, command, at: now)
      learn(device, command, state, at: now)
    case .answer(true, let state):
      if case .call(_, .pull) = command {
        change(device) { $0.tookOver(at: now, version: state.version) }
      } else {
        won(device, at: now)
      }
    case .answer(false, let state): lost(device, state, at: now)
    case .error(let error):
      errors.append((device, command, error.code, now))
      let isForgotten = error.code == .unknownCall && accepted
      if isForgotten { forgottenBy = forgottenBy ?? device }
      if case .place = command {
        refusal = error.code
        examineHook(error)
      } else if !isForgotten {
        // A call that is not known yet may still come.
        return
      }
      change(device) { $0.left = true }
    case .attached, .registered, .calls, .history, .rules: break
    }
  }

  private mutating func agree(_ device: Int, _ command: ClientCommand, at now: Timestamp) {
    switch command {
    case .place: acceptedAt = acceptedAt ?? now
    case .call(_, .transfer): if transfer?.acceptedAt == nil { transfer?.acceptedAt = now }
    // A cancel, decline or busy that crossed an answer has no effect, as the reply's state says.
    case .call(_, .cancel) where device == facts.caller && answeredBy != nil: break
    case .call(_, .decline), .call(_, .busy), .call(_, .cancel):
      if record(of: device)?.wonAt == nil { change(device) { $0.left = true } }
    case .call(_, .hangUp): change(device) { $0.left = true }
    default: break
    }
  }

  private mutating func learn(
    _ device: Int, _ command: ClientCommand, _ state: CallState, at now: Timestamp
  ) {
    switch state.phase {
    case .ended:
      if state.reason == .transferred, transfer != nil, !isThird(device) {
        let end = CallEnd(reason: .transferred, by: state.by.map(number))
        return handedOver(
          device,
          DeviceRecord.End(callEnd: end, missed: false, version: state.version, at: now))
      }
      gaveWay(device, state.reason, to: state.survivor)
      if device == facts.caller { ringOverAt = ringOverAt ?? now }
      guard let reason = state.reason else { return }
      let (name, before) = (name(of: device), record(of: device))
      // Where a pull has no reply yet, it decides which end this is.
      let isOfPull = before?.mayHaveTakenOver == true && reason.followsAnswer
      if let first = before?.end, first.reason != reason, !isOfPull {
        violate(.duplicateEnd, "\(name) was told \(first.reason.name), then \(reason.name)")
      }
      if before?.wonAt != nil, reason == .answeredElsewhere {
        violate(.winnerToldItLost, "\(name) won, and a reply said \(reason.name)")
      }
      replied(device, state, reason, at: now)
    case .answered:
      // The call goes on, so this device has left nothing.
      change(device) { $0.left = false }
      if device == facts.caller { ringOverAt = ringOverAt ?? now }
    case .unknown: if accepted { forgottenBy = forgottenBy ?? device }
    case .placed, .ringing:
      // `at` is when the call was placed, which is long before a later reply.
      if case .place = command, let deadline = state.deadline {
        rings(until: now + (deadline - state.at))
      }
    }
  }

  private mutating func replied(
    _ device: Int, _ state: CallState, _ reason: EndReason, at now: Timestamp
  ) {
    let end = DeviceRecord.End(
      callEnd: CallEnd(reason: reason, by: state.by.map(number)), missed: state.missed,
      version: state.version, at: now)
    change(device) {
      if $0.mayHaveTakenOver, reason.followsAnswer {
        $0.endAfterPull = $0.endAfterPull ?? end
      } else {
        $0.replied = $0.replied ?? end
      }
    }
  }

  private mutating func won(_ device: Int, at now: Timestamp) {
    guard let before = record(of: device) else { return }
    if [before.stop?.reason, before.replied?.reason].contains(.answeredElsewhere) {
      violate(.winnerToldItLost, "\(name(of: device)) was told that it lost, then that it won")
    }
    change(device) { $0.wonAt = $0.wonAt ?? now }
  }

  private mutating func lost(_ device: Int, _ state: CallState, at now: Timestamp) {
    // The reply to a repeated answer says what has become of the call since it was won.
    let isLater = state.reason.map { $0 == .moved || $0.followsAnswer } ?? false
    if record(of: device)?.wonAt != nil, !isLater {
      violate(.winnerToldItLost, "\(name(of: device)) was told that it won, then that it lost")
    }
    replied(device, state, state.reason ?? .answeredElsewhere, at: now)
  }
}
