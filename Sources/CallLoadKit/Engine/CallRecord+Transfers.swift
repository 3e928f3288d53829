import CallCore
import CallJudge
import CallWire

/// Judges calls that one side handed over to a third user, once nothing more is to come.
extension CallRecord {
  mutating func examineTransfer(_ timeline: FaultTimeline, isAttached: (Int) -> Bool) {
    guard let transfer else { return }
    let takers = transfer.devices.filter { $0.wonAt != nil }
    if takers.count > 1 {
      let names = takers.map { name(of: $0.device) }.joined(separator: " and ")
      return violate(.transferredWrongly, "\(names) were told that they have the side")
    }
    examineNames(isAttached: isAttached)
    if let taker {
      examineTold(of: taker, timeline, isAttached: isAttached)
    } else {
      examineFailure(transfer, timeline)
    }
    examineThird(isAttached: isAttached)
    examineThirdRung(timeline)
    examineReceivers()
    examineSides(isAttached: isAttached)
  }

  // MARK: Who took it

  /// All name the same device, and that device was notified, too.
  private mutating func examineNames(isAttached: (Int) -> Bool) {
    let named = Set(everybody.flatMap { [$0.handedOver?.by].compactMap(\.self) + $0.moves })
    for device in named.sorted() where device != taker {
      let name = device < 0 ? "a stranger" : self.name(of: device)
      violate(.transferredWrongly, "somebody was told that \(name) has the side")
    }
    guard let taker, let record = record(of: taker), record.wonAt == nil else { return }
    if !record.wasAway, isAttached(taker), outstanding == 0 {
      violate(
        .transferredWrongly,
        "others were told that \(name(of: taker)) has the side, and it was not")
    }
  }

  /// The device that had the side, and the other side, know who has it.
  private mutating func examineTold(
    of taker: Int, _ timeline: FaultTimeline, isAttached: (Int) -> Bool
  ) {
    let times = [record(of: taker)?.wonAt, transfer?.acceptedAt, transfer?.asked?.at]
    let until = (times.compactMap(\.self).first ?? facts.placedAt) + Self.retransmissionMax
    func hadToBeTold(_ device: DeviceRecord) -> Bool {
      isAttached(device.device)
        && !isDisturbed(device.device, from: facts.placedAt, to: until, timeline)
    }
    if let asked = transfer?.asked, let device = record(of: asked.by), device.handedOver == nil,
      hadToBeTold(device)
    {
      violate(
        .transferredWrongly,
        "\(name(of: asked.by)) was never told that \(name(of: taker)) has its side")
      // That is what it lacks, and not the call's end.
      let end = CallEnd<Int>(reason: .transferred, by: taker)
      change(asked.by) {
        $0.handedOver = DeviceRecord.End(callEnd: end, missed: false, version: .max, at: until)
      }
    }
    if let stayer, let device = record(of: stayer), !device.moves.contains(taker),
      device.keptConnection, hadToBeTold(device)
    {
      violate(
        .transferredWrongly,
        "\(name(of: stayer)) was never told that it talks to \(name(of: taker)) now")
    }
    if let failure = transfer?.failure {
      violate(
        .transferredWrongly,
        "\(name(of: taker)) has the side, and its former device was told \(failure.end.reason.name)"
      )
    }
  }

  // MARK: The side was not taken

  private mutating func examineFailure(_ transfer: TransferRecord, _ timeline: FaultTimeline) {
    guard let asked = transfer.asked else { return }
    let name = roster.userName(transfer.terms.user)
    guard let (end, at) = transfer.failure else {
      return examineUntold(transfer, by: asked.by, timeline)
    }
    let isCaused =
      switch end.reason {
      case .declined:
        end.by.map { isThird($0) && record(of: $0)?.acts.isDisjoint(with: .decline) == false }
          ?? false
      case .unanswered:
        asked.at + TransferScript.ringTimeout <= at + CallChecker.early
          && (transfer.devices.allSatisfy { $0.acts.isEmpty } || isExcused(transfer, timeline))
      case .unreachable:
        !transfer.devices.contains { $0.stayedAttached } || isExcused(transfer, timeline)
      default: false
      }
    if !isCaused {
      violate(
        .transferredWrongly,
        "\(self.name(of: asked.by)) was told \(end.reason.name) of \(name), without a cause")
    }
  }

  /// A device of the third user answered or declined in time, and no other device learned of it.
  private mutating func examineUntold(
    _ transfer: TransferRecord, by device: Int, _ timeline: FaultTimeline
  ) {
    let acts: [CallActs] = [.answer, .declineEverywhere]
    let acted = transfer.devices.flatMap { device in acts.map { device.time(of: $0) } }
      .compactMap(\.self).min()
    guard let acted, let over = talkOverAt, acted + Self.arrivalSlack <= over,
      record(of: device)?.keptConnection == true,
      !isDisturbed(device, from: facts.placedAt, to: over, timeline),
      !isExcused(transfer, timeline)
    else { return }
    violate(
      .transferredWrongly,
      "\(name(of: device)) was not told what became of its transfer")
  }

  /// When one of the two sides hung up, or was notified of the end.
  private var talkOverAt: Timestamp? {
    let sides = [true, false].compactMap { side(ofCaller: $0, winner: calleesWinner) }
      .compactMap { record(of: $0) }
    return sides.flatMap { [$0.time(of: .hangUp), $0.end?.at] }.compactMap(\.self).min()
  }

  /// Whether one of the third user's devices, or a shard that has to do with it, was in trouble.
  private func isExcused(_ transfer: TransferRecord, _ timeline: FaultTimeline) -> Bool {
    transfer.devices.contains { !$0.stayedAttached }
      || timeline.isDisturbed(
        shards: [shard, transfer.shard], or: transfer.devices.map(\.device),
        from: facts.placedAt, to: trace.last?.at ?? facts.placedAt)
  }

  // MARK: The third user's devices

  /// Devices that rang learn the true reason for the end of that.
  private mutating func examineThird(isAttached: (Int) -> Bool) {
    for device in transfer?.devices ?? [] where device.invitedAt != nil {
      let name = name(of: device.device)
      guard device.device != taker else { continue }
      guard let end = device.end else {
        if !device.isOver, isAttached(device.device) {
          violate(.transferredWrongly, "\(name) rang for a transfer and was never told to stop")
        }
        continue
      }
      let isTrue =
        switch end.reason {
        case .answeredElsewhere: taker != nil && end.by == taker
        case .declined:
          taker == nil
            && end.by.map { record(of: $0)?.acts.isDisjoint(with: .decline) == false } ?? false
        // The call ended meanwhile.
        case .cancelled: taker == nil && transfer?.failure == nil
        default: taker == nil && (transfer?.failure.map { $0.end.reason == end.reason } ?? true)
        }
      if !isTrue {
        violate(.transferredWrongly, "\(name) rang for a transfer and was told \(end.reason.name)")
      } else if end.missed, !end.reason.isMissedCall {
        violate(.wrongReason, "\(name) was told \(end.reason.name) as a missed call")
      }
    }
  }

  /// All that are attached ring.
  private mutating func examineThirdRung(_ timeline: FaultTimeline) {
    guard let transfer, let accepted = transfer.acceptedAt else { return }
    let begin = thirdAsked.compactMap(\.invitedAt).min() ?? accepted
    let ends = transfer.devices.flatMap {
      [$0.time(of: .answer), $0.time(of: .declineEverywhere), $0.wonAt, $0.end?.at]
    }
    guard let over = (ends + [talkOverAt, transfer.failure?.at]).compactMap(\.self).min() else {
      return
    }
    for device in thirdAsked where device.stayedAttached && device.invitedAt == nil {
      let excused = timeline.excuse(
        shards: [shard, transfer.shard], device: device.device, due: begin,
        slack: Self.arrivalSlack)
      let news = excused == begin ? .zero : Self.visitInterval
      if excused.later(by: news).later(by: Self.arrivalSlack) <= over {
        violate(
          .attachedNotRung,
          "\(name(of: device.device)) was attached, and never rang for the transfer")
      }
    }
  }

  // MARK: Both sides

  /// Signals reach the device that has the other side, and no other.
  private mutating func examineReceivers() {
    guard let winner = calleesWinner, let one = side(ofCaller: true, winner: winner),
      let other = side(ofCaller: false, winner: winner)
    else { return }
    let streams = SignalLedger.Stream.bothWays(one, other)
    for stream in signals.receptions.keys.sorted() where !streams.contains(stream) {
      violate(
        .transferredWrongly,
        "\(name(of: stream.receiver)) got a signal of \(name(of: stream.sender)) that was "
          + "for another device")
    }
  }

  /// Both are notified of the end, of the same one, and it has a cause.
  private mutating func examineSides(isAttached: (Int) -> Bool) {
    guard let taker, let new = record(of: taker), let stayer, let other = record(of: stayer) else {
      return
    }
    if !new.isOver, other.isOver, isAttached(taker) {
      violate(.ringingAfterEnd, "\(name(of: taker)) took the call and was never told of the end")
    }
    guard let end = new.end else { return }
    if let told = other.end?.reason, told != end.reason {
      violate(
        .acceptedThenForgotten,
        "\(name(of: stayer)) was told \(told.name) and \(name(of: taker)) \(end.reason.name)")
    }
    if let what = objection(to: end, for: new) {
      violate(.wrongReason, "\(name(of: taker)) was told \(end.reason.name), but \(what)")
    }
  }

  /// Whether a refusal to transfer is explained: the call was over, or about to be.
  func explainsRefusedTransfer(at time: Timestamp) -> Bool {
    everybody.contains { device in
      device.wasAway
        || [device.time(of: .hangUp), device.handedOver?.at]
          .contains { $0.map { $0 <= time } ?? false }
    }
  }
}
