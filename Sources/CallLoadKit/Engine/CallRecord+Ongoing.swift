import CallCore
import CallJudge

/// Judges what devices were shown of an answered call that their users are in.
extension CallRecord {
  /// A user's side of the answered call.
  private struct Side {
    let user: Int
    let isPlaced: Bool
    /// From when to when it was the user's, as far as devices know.
    let begun: Timestamp
    var over: Timestamp
    /// The devices that had it, and the users at the other side, the last ones last.
    var devices: [Int]
    var peers: [Int]
    /// When the last of both changed.
    var changed: Timestamp
  }

  mutating func saw(_ sight: OngoingSight) { sights.append(sight) }

  mutating func examineOngoing(_ book: OngoingBook, _ timeline: FaultTimeline, at now: Timestamp) {
    let sides = sides(at: now)
    for sight in sights {
      guard let entry = sight.entry,
        let what = objection(to: entry, sight, sides, timeline)
      else { continue }
      violate(
        .ongoingWrongly,
        "\(name(of: sight.device)) was shown an ongoing call with \(entry.peer) on "
          + "\(entry.device.text): \(what)")
    }
    for side in sides where isReported(side, timeline, at: now) {
      for device in roster.devices(of: side.user) {
        guard let since = book.since(device), since <= facts.placedAt,
          timeline.disturbed(.device(device), from: facts.placedAt, to: now) == nil
        else { continue }
        examineShown(side, to: device)
      }
    }
  }

  /// Whether the user's shard knows of the side at once: from the call's shard, or from the edge of the device that has it.
  private func isReported(_ side: Side, _ timeline: FaultTimeline, at now: Timestamp) -> Bool {
    guard !timeline.isEmpty else { return true }
    return side.devices.allSatisfy { record(of: $0)?.keptConnection ?? true }
      && !timeline.isDisturbed(
        shards: shards + [timeline.shard(ofUser: roster.userName(side.user))],
        or: side.devices, from: facts.placedAt, to: now)
  }

  // MARK: Who has a side, and when

  private func sides(at now: Timestamp) -> [Side] {
    guard let winner = answeredBy ?? winners.first?.device, winner >= 0,
      let begun = [answeredToldAt, record(of: winner)?.wonAt].compactMap(\.self).min()
    else { return [] }
    let ends = (everybody + thirdDevices).flatMap { device in
      [device.time(of: .hangUp), device.end.flatMap { $0.reason.followsAnswer ? $0.at : nil }]
    }
    let over = ends.compactMap(\.self).min() ?? now
    let (caller, callee) = (roster.user(of: facts.caller), roster.user(of: winner))
    var sides = [
      Side(
        user: caller, isPlaced: true, begun: begun, over: over, devices: [facts.caller],
        peers: [callee], changed: begun),
      Side(
        user: callee, isPlaced: false, begun: begun, over: over, devices: [winner],
        peers: [caller], changed: begun),
    ]
    if let puller, let at = record(of: puller)?.tookOver?.at {
      sides[1].devices.append(puller)
      sides[1].changed = at
    }
    guard let taker, let transfer else { return sides }
    // The side is another user's from then on.
    let left = transfer.terms.ofCaller ? 0 : 1
    let times = [record(of: taker)?.wonAt] + everybody.map { $0.handedOver?.at }
    let taken = times.compactMap(\.self).min() ?? over
    sides[left].over = min(over, taken)
    sides[1 - left].peers.append(roster.user(of: taker))
    sides[1 - left].changed = taken
    sides.append(
      Side(
        user: roster.user(of: taker), isPlaced: transfer.terms.ofCaller, begun: taken,
        over: over, devices: [taker], peers: [sides[1 - left].user], changed: taken))
    return sides
  }

  // MARK: What is shown

  /// The untrue part of an entry; nil where all is true.
  private func objection(
    to entry: OngoingCall, _ sight: OngoingSight, _ sides: [Side], _ timeline: FaultTimeline
  ) -> String? {
    let user = roster.user(of: sight.device)
    guard let side = sides.first(where: { $0.user == user }) else { return "it is in none" }
    if entry.callee != calleeName { return "it is to \(calleeName)" }
    if entry.isPlaced != side.isPlaced { return "its user did not place it, or did" }
    if !side.devices.contains(where: { roster.party($0).device == entry.device }) {
      return "that device has no side of it"
    }
    if !side.peers.contains(where: { roster.userName($0) == entry.peer }) {
      return "nobody of that name was at the other side"
    }
    if let answered = answerSentAt, transfer == nil, entry.since != answered {
      return "it was answered at another time"
    }
    if side.over + CallChecker.skew < sight.at,
      !timeline.mayComeLate(to: sight.device, at: sight.at),
      !isDisturbed(sight.device, from: facts.placedAt, to: sight.at, timeline)
    {
      return "it was over"
    }
    return nil
  }

  /// A device that is shown its user's calls sees this one, who has it in the end, and that it is over.
  private mutating func examineShown(_ side: Side, to device: Int) {
    let seen = sights.filter { $0.device == device }
    let name = name(of: device)
    if side.begun.later(by: Self.arrivalSlack) < side.over,
      !seen.contains(where: { $0.entry != nil })
    {
      return violate(.ongoingWrongly, "\(name) was never shown that its user is in the call")
    }
    guard let last = seen.last(where: { $0.entry != nil })?.entry else { return }
    if side.changed.later(by: Self.arrivalSlack) < side.over {
      let (holder, peer) = (side.devices.last, side.peers.last)
      if holder.map({ roster.party($0).device != last.device }) ?? false
        || peer.map({ roster.userName($0) != last.peer }) ?? false
      {
        violate(.ongoingWrongly, "\(name) was never shown who has the call since it moved")
      }
    }
    if seen.last?.entry != nil {
      violate(.ongoingWrongly, "\(name) was never shown that the call is over for its user")
    }
  }
}
