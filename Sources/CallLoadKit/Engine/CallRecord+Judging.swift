import CallCore
import CallJudge
import CallWire

/// Judges a call as a whole, once nothing more is to come.
extension CallRecord {
  mutating func examine(at now: Timestamp, _ timeline: FaultTimeline, isAttached: (Int) -> Bool) {
    examineUnrepliedPulls(timeline)
    examineOddities(timeline)
    examineWinners(timeline, isAttached: isAttached)
    examineMoves(timeline, isAttached: isAttached)
    examineGroup(timeline)
    examineTransfer(timeline, isAttached: isAttached)
    examineEnd(isAttached: isAttached)
    examineHook(timeline)
    examineUnreachable(timeline)
    examineRung(timeline)
    examineSignals(timeline)
    examineTimeout(timeline)
    examineRinging(isAttached: isAttached)
    for device in everybody { examineReasons(of: device, timeline) }
    for error in errors where !isExplained(error.device, error.command, error.code, at: error.at) {
      violate(
        .unexplainedError,
        "\(name(of: error.device)) said \(error.command.name) and heard \(error.code.rawValue) "
          + error.code.name)
    }
    let everybodyIsThere = (everybody + thirdDevices).allSatisfy { isAttached($0.device) }
    if outstanding > 0, everybodyIsThere, !violations.contains(where: { $0.rule == .commandLost }) {
      violate(.commandLost, "\(outstanding) commands have no reply at the end")
    }
  }

  // MARK: Winners

  private mutating func examineWinners(_ timeline: FaultTimeline, isAttached: (Int) -> Bool) {
    let winners = winners
    if winners.count > 1 {
      let names = winners.map { name(of: $0.device) }.joined(separator: " and ")
      violate(.twoWinners, "\(names) were told that they won")
    } else if let winner = winners.first, let by = answeredBy, by != winner.device {
      violate(.twoWinners, "the caller was told of another winner than the one that was told so")
    }
    guard winners.isEmpty else { return }
    // Then it stops the user's other devices because another call was answered.
    if survivor != nil, answeredBy == nil { return }
    if answeredBy != nil || everybody.contains(where: { $0.end?.reason == .answeredElsewhere }) {
      // A winner that is gone could not be notified, and one that learns that its side has moved needs no more.
      let answerers = callees.filter {
        $0.acts.contains(.answer) || facts.crosses != nil && $0.device == answeredBy
      }
      let untold = answerers.filter {
        isAttached($0.device) && $0.end?.reason != .moved && $0.handedOver == nil
          && !heldUpAfterCrossing($0, timeline)
      }
      if answerers.isEmpty || !untold.isEmpty {
        violate(.noWinner, "somebody was told of an answer, but no device that it won")
      }
    } else if let winner = deservedWinner(timeline) {
      violate(.noWinner, "\(name(of: winner)) answered in time and nobody got the call")
    }
  }

  /// Whether a device has the call because it placed the crossing one, and was away or cut off from before that until the
  /// end. It has said nothing to which a reply would tell it that it won, and the end takes the place of deliveries that
  /// it has not acknowledged.
  private func heldUpAfterCrossing(_ device: DeviceRecord, _ timeline: FaultTimeline) -> Bool {
    guard facts.crosses != nil, !device.acts.contains(.answer), let answered = answeredToldAt,
      let end = device.end, end.reason.followsAnswer
    else { return false }
    return device.wasAway || isDisturbed(device.device, from: answered, to: end.at, timeline)
  }

  /// A device that answered while nothing spoke against it.
  private func deservedWinner(_ timeline: FaultTimeline) -> Int? {
    // The app was notified of a refusal; that is no answer that was lost.
    guard refusal == nil, caller.acts.isDisjoint(with: [.cancel, .hangUp]), !caller.wasAway,
      facts.route.group != nil
        || !callees.contains(where: { $0.acts.contains(.declineEverywhere) })
    else { return nil }
    return callees.first { callee in
      if family(of: callee.device).contains(where: { $0.acts.contains(.declineEverywhere) }) {
        return false
      }
      guard let at = callee.time(of: .answer), callee.invitedAt != nil, !callee.wasAway else {
        return false
      }
      // An answer that a fault held up is decided once it is over, if the call still rings then.
      let over = min(deadline, firstEndAt ?? deadline)
      let held = max(at, over - Self.retransmissionMax)
      return !isDisturbed(callee.device, from: held, to: over, timeline)
        && at + CallChecker.early < deadline && callee.acts.isDisjoint(with: .refusal)
    }?.device
  }

  // MARK: Ringing

  private mutating func examineRinging(isAttached: (Int) -> Bool) {
    for callee in callees
    where callee.invitedAt != nil && !callee.isOver && isAttached(callee.device) {
      let name = name(of: callee.device)
      if callee.wonAt == nil {
        violate(.ringingAfterEnd, "\(name) was never told to stop")
      } else if caller.isOver {
        violate(.ringingAfterEnd, "\(name) won and was never told of the end")
      }
    }
    if accepted, !caller.isOver, isOverForCallees, isAttached(caller.device) {
      violate(.ringingAfterEnd, "the caller was never told of the end")
    }
  }

  // MARK: Reasons

  private mutating func examineReasons(of device: DeviceRecord, _ timeline: FaultTimeline) {
    for end in [device.stop, device.replied].compactMap(\.self) {
      if let what = objection(to: end, for: device) {
        return violate(
          .wrongReason, "\(name(of: device.device)) was told \(end.reason.name), but \(what)")
      }
    }
    guard let stop = device.stop, device.device != facts.caller, device.wonAt == nil else { return }
    // The end of its own part, where the reply to its "busy" was lost, or by a new owner. The call may
    // ring on, so it is not known yet whether it is missed.
    if stop.reason == .busy, stop.by == device.device, device.acts.contains(.busy), !stop.missed {
      return
    }
    // The call left its user.
    if isOwnEnd(stop, of: device) {
      if stop.missed {
        violate(.wrongReason, "\(name(of: device.device)) was told of a missed call that went on")
      }
      return
    }
    // A user who declined on one device has seen the call. Where that crossed the end, either is right.
    let declines = family(of: device.device).compactMap { callee in
      callee.time(of: .declineHere).map { (device: callee.device, at: $0) }
    }
    let decline = declines.min { $0.at < $1.at }
    if let decline {
      if stop.at < decline.at + CallChecker.early { return }
      // A fault held the decline up until after the ring timeout.
      if stop.missed, isHeldUp(decline.device, from: decline.at, to: stop.at, timeline) { return }
    }
    if stop.missed != (stop.reason.isMissedCall && decline == nil) {
      violate(
        .wrongReason,
        "\(name(of: device.device)) was told \(stop.reason.name) as "
          + (stop.missed ? "a missed call" : "no missed call"))
    }
  }

  /// A device that sleeps acts over HTTP, through whichever edge.
  private func isHeldUp(
    _ device: Int, from begin: Timestamp, to end: Timestamp, _ timeline: FaultTimeline
  ) -> Bool {
    if isDisturbed(device, from: begin, to: end, timeline) { return true }
    guard let device = record(of: device), !device.wasThere, device.attachedAt == nil else {
      return false
    }
    return timeline.disturbedEdges(from: begin, to: end)
  }

  /// The mismatch between an end and what devices did; nil where all fits.
  func objection(to end: DeviceRecord.End, for device: DeviceRecord) -> String? {
    let isCaller = device.device == facts.caller
    let winner = winners.first?.device ?? answeredBy
    if isOwnEnd(end, of: device) { return nil }
    switch end.reason {
    case .answeredElsewhere:
      if isCaller { return "it is the caller" }
      // Other rules judge a missing winner, and a winner that was notified of this.
      guard winner != nil, device.wonAt == nil else { return nil }
      let isWinner = winners.isEmpty || winners.contains { $0.device == end.by }
      return isWinner ? nil : "the winner is not the one it was told"
    // A device that refused may be notified of the end of its own part, whatever becomes of the call.
    case .declined where end.by == device.device && !device.acts.isDisjoint(with: .decline):
      return nil
    case .busy where device.acts.contains(.busy): return nil
    case .hungUp
    where winner != nil && !isCaller && !isThird(device.device)
      && side(ofCaller: false, winner: puller ?? winner) != device.device:
      return "it was not in the call"
    case .moved: return end.by == nil ? "no device was named" : nil
    case .transferred where transfer == nil && facts.during == nil:
      return "nobody was asked in it about another call"
    case .declined, .cancelled, .unanswered, .busy, .unreachable, .hungUp, .failed, .glare,
      .transferred:
      return evidence(winner: puller ?? winner, at: end.at).objection(to: end.callEnd)?.text
    }
  }

  private func evidence(winner: Int?, at time: Timestamp) -> EndEvidence<Int> {
    var evidence = EndEvidence(
      caller: side(ofCaller: true, winner: winner),
      winner: winner.flatMap { side(ofCaller: false, winner: $0) },
      acts: { record(of: $0)?.acts ?? [] }, mayBeLost: { record(of: $0)?.wasAway ?? false })
    evidence.isBeforeTimeout = time + CallChecker.early < deadline
    // The part of a group's member whose turn is over does not count: the call ends as the last one's does.
    let rung = callees.filter {
      $0.invitedAt != nil && !hasOwnEnd($0) && !gaveItsTurnOn($0.device, at: time)
    }
    evidence.everybodyRefused = rung.allSatisfy {
      !$0.acts.isDisjoint(with: [.busy, .declineHere])
    }
    evidence.isReachable = rung.contains { !$0.wasAway }
    // The callee's device that placed the other call is named, and gets the same end.
    evidence.crossed = facts.crosses != nil && survivor == facts.crosses
    evidence.mayHaveFailed = (everybody + thirdDevices).contains { $0.wasAway }
    return evidence
  }

  // MARK: Errors

  /// An error is explained by another device's act that ended what the command needs.
  private func isExplained(
    _ device: Int, _ command: ClientCommand, _ code: CallError.Code, at time: Timestamp
  ) -> Bool {
    // One that is not the hook's answer is an oddity of its own.
    if case .place = command { return code == refusalByHook || code == hookOddity }
    if case .call(_, .transfer) = command {
      return code == .wrongState && explainsRefusedTransfer(at: time)
    }
    switch code {
    case .wrongState: break
    case .notParty: if case .call(_, .resume) = command { return false }
    // The caller's later commands about a call that was refused.
    case .unknownCall: return !accepted && refusal != nil
    default: return false
    }
    if deadline < time + CallChecker.early || isTurnOver(for: device, at: time) { return true }
    // A new owner invites anew, so that a turn looks shorter than it was.
    if let own = record(of: device), hasOwnEnd(own), let end = own.end,
      end.at <= time.later(by: Self.arrivalSlack)
    {
      return true
    }
    return (everybody + thirdDevices).contains { other in
      guard other.device != device else { return false }
      let acts: [CallActs] = [.answer, .declineEverywhere, .cancel, .hangUp]
      return (acts.map { other.time(of: $0) } + [other.end?.at])
        .contains { $0.map { $0 <= time } ?? false }
    }
  }
}
