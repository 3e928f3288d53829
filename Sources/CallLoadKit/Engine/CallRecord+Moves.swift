import CallCore
import CallJudge
import CallWire

/// Judges calls that another device of the callee took over.
extension CallRecord {
  /// Checks that exactly one of the devices that pull at once has the call. That device, the former one and the other
  /// side must each be notified.
  mutating func examineMoves(_ timeline: FaultTimeline, isAttached: (Int) -> Bool) {
    let pullers = callees.filter { $0.tookOver != nil }
    if pullers.count > 1 {
      let names = pullers.map { name(of: $0.device) }.joined(separator: " and ")
      return violate(.movedWrongly, "\(names) were told that they took it over from one device")
    }
    for device in callees {
      guard let end = device.stop, end.reason == .moved, let to = end.by, let new = record(of: to)
      else { continue }
      if new.tookOver == nil, !new.wasAway, isAttached(to), outstanding == 0 {
        violate(
          .movedWrongly,
          "\(name(of: device.device)) was told that \(name(of: to)) took it over, "
            + "which was not told so")
      }
    }
    guard let puller = pullers.first, let at = puller.tookOver?.at else { return }
    let until = at + Self.retransmissionMax
    if caller.keptConnection, !caller.moves.contains(puller.device),
      !isDisturbed(facts.caller, from: facts.placedAt, to: until, timeline)
    {
      violate(
        .movedWrongly, "the caller was never told that \(name(of: puller.device)) took it over")
    }
  }

  // MARK: Pulls without a reply

  /// A device whose pull took effect may lose the reply to it with its edge, and be back only when the call is over. Then
  /// the reply is the call's end. No message to it says that it had the call, but those to others do.
  mutating func examineUnrepliedPulls(_ timeline: FaultTimeline) {
    for callee in callees where callee.mayHaveTakenOver {
      guard let asked = callee.pulledAt else { continue }
      if isKnownToHaveTakenOver(callee), mayHaveLostReply(callee, asked, timeline) {
        change(callee.device) {
          $0.tookOver = (asked, 0)
          ($0.stop, $0.replied, $0.left) = ($0.endAfterPull, nil, false)
        }
      } else if let end = callee.endAfterPull {
        judge(end, of: callee)
      }
    }
  }

  /// The device that had the call, or the other side, was notified of that, and no reply said the opposite.
  private func isKnownToHaveTakenOver(_ callee: DeviceRecord) -> Bool {
    let isTold =
      caller.moves.contains(callee.device)
      || callees.contains { $0.stop?.reason == .moved && $0.stop?.by == callee.device }
    let isRefused = errors.contains { device, command, _, _ in
      guard case .call(_, .pull) = command else { return false }
      return device == callee.device
    }
    // An end that a reply said before was that of its former part.
    let isOver =
      callee.replied.map { reply in callee.pulledAt.map { $0 <= reply.at } ?? true } ?? false
    return isTold && !isOver && !isRefused
  }

  private func mayHaveLostReply(
    _ callee: DeviceRecord, _ asked: Timestamp, _ timeline: FaultTimeline
  ) -> Bool {
    if let since = callee.awaySince, asked <= since { return true }
    return isDisturbed(callee.device, from: asked, to: asked + Self.retransmissionMax, timeline)
  }

  /// An end of the answered call for a device that did not have it.
  private mutating func judge(_ end: DeviceRecord.End, of callee: DeviceRecord) {
    guard let first = callee.end else { return change(callee.device) { $0.stop = end } }
    let name = name(of: callee.device)
    violate(.duplicateEnd, "\(name) was told \(first.reason.name), then \(end.reason.name)")
  }
}
