import CallCore
import CallJudge

/// Judges calls that another device of the callee took over.
extension CallRecord {
  /// Of devices that pull at once, one has the call: it is told so, as are the one that had it and the other side.
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
}
