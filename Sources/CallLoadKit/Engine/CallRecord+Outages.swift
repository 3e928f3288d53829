import CallCore
import CallJudge

/// Rules for which a fault excuses a delay only: attached devices ring, and candidates arrive once and in order.
extension CallRecord {
  /// A device may ring, and a candidate may arrive, later by this much than faults excuse.
  static let arrivalSlack: Span = .seconds(1)
  /// A call that went on asks the shards of other users for their devices at this interval while it rings.
  static let visitInterval: Span = .seconds(1)

  /// By how much later than faults excuse the call may know of a callee's device that they concerned.
  func newsDelay(of device: Int) -> Span {
    facts.route.isDirect || device == facts.caller ? .zero : Self.visitInterval
  }

  /// A call does not end as unreachable while a device of the callee is attached.
  mutating func examineUnreachable(_ timeline: FaultTimeline) {
    let ends = everybody.compactMap(\.end).filter { $0.reason == .unreachable }
    guard let told = ends.map(\.at).min(), !waitedInVain(until: told, timeline),
      let attached = callees.first(where: {
        $0.stayedAttached && !timeline.isBeyondReach($0.device, at: told)
      })
    else { return }
    let what =
      "\(name(of: attached.device)) was attached from before the call was placed, and the "
      + "call ended as unreachable"
    let story =
      timeline.story(shard: shard, around: told)
      + timeline.story(device: attached.device, around: told)
    violate(.unreachableThoughAttached, ([what] + story).joined(separator: "; "))
  }

  /// Whether the shard of a user to whom the call went on could not say which devices there are.
  private func waitedInVain(until moment: Timestamp, _ timeline: FaultTimeline) -> Bool {
    !facts.route.isDirect && shards.contains { timeline.silence(ofShard: $0, until: moment) != nil }
  }

  /// Every device that is attached when the call is placed rings, if the call rings for long enough.
  mutating func examineRung(_ timeline: FaultTimeline) {
    guard let acceptedAt else { return }
    for callee in callees
    where callee.stayedAttached && callee.invitedAt == nil && isAsked(callee) {
      let family = family(of: callee.device)
      let begin = family.compactMap(\.invitedAt).min() ?? acceptedAt
      guard let over = ringingEndedAt(for: family),
        isDue(begin, at: callee.device, before: over, timeline)
      else { continue }
      violate(
        .attachedNotRung,
        "\(name(of: callee.device)) was attached from before the call was placed, and never rang")
    }
  }

  /// When the first device did what ends the ringing at a user's devices, or was notified of its end.
  private func ringingEndedAt(for family: [DeviceRecord]) -> Timestamp? {
    let acts: [CallActs] = [.answer, .cancel]
    let ends = everybody.flatMap { device in
      acts.map { device.time(of: $0) } + [device.wonAt, hasOwnEnd(device) ? nil : device.end?.at]
    }
    let own = family.flatMap { [$0.time(of: .declineEverywhere), $0.end?.at] }
    return (ends + own).compactMap(\.self).min()
  }

  /// Whether what was due at a time had to reach a device before `over`, all faults considered.
  private func isDue(
    _ due: Timestamp, at device: Int, before over: Timestamp, _ timeline: FaultTimeline
  ) -> Bool {
    let excused = timeline.excuse(
      shards: shards, device: device, due: due, slack: Self.arrivalSlack)
    let news = excused == due ? .zero : newsDelay(of: device)
    return excused.later(by: news).later(by: Self.arrivalSlack) <= over
  }

  mutating func receiveCandidate(_ candidate: NumberedCandidate, by receiver: Int) {
    guard record(of: receiver) != nil, record(of: candidate.sender) != nil,
      let flaw = signals.received(candidate, by: receiver)
    else { return }
    let (from, to) = (name(of: candidate.sender), name(of: receiver))
    let what = "\(to) received candidate \(candidate.number) of \(from)"
    switch flaw {
    case .doubled: violate(.signalsDoubled, "\(what) a second time")
    case .outOfOrder: violate(.signalsOutOfOrder, "\(what) behind a later one")
    }
  }

  /// Counts each stream that lacks something once.
  mutating func examineSignals(_ timeline: FaultTimeline) {
    var lost: [SignalLedger.Stream: Set<Int>] = [:]
    for stream in signals.receptions.keys { lost[stream] = Set(signals.gaps(in: stream)) }
    if let winner = winners.first?.device ?? answeredBy, winner >= 0 {
      let (one, other) = (
        side(ofCaller: true, winner: winner) ?? facts.caller,
        side(ofCaller: false, winner: winner) ?? winner
      )
      for stream in SignalLedger.Stream.bothWays(one, other) {
        lost[stream, default: []].formUnion(lostAtTheEnd(of: stream, timeline))
      }
    }
    for (stream, numbers) in lost.sorted(by: { $0.key < $1.key }) where !numbers.isEmpty {
      let (from, to) = (name(of: stream.sender), name(of: stream.receiver))
      let list = numbers.sorted().map(String.init).joined(separator: ", ")
      violate(
        .signalsLost, "\(to) never received candidates of \(from) that were accepted: \(list)")
    }
  }

  /// The signals that were accepted in time before the end and did not arrive, unless the receiver was away at the end.
  private func lostAtTheEnd(of stream: SignalLedger.Stream, _ timeline: FaultTimeline) -> [Int] {
    guard let receiver = record(of: stream.receiver), let sender = record(of: stream.sender),
      let begin = receiver.device == facts.caller ? answeredToldAt : receiver.invitedAt,
      receiver.device == facts.caller || receiver.wonAt != nil
    else { return [] }
    let ends = [receiver, sender].flatMap {
      [$0.time(of: .hangUp), $0.time(of: .cancel), $0.end?.at, $0.handedOver?.at]
    }
    guard let over = ends.compactMap(\.self).min() else { return [] }
    let back = receiver.attachedAt ?? .distantFuture
    if receiver.wasAway, over < back.later(by: CallChecker.skew) { return [] }
    return signals.missing(in: stream).filter { _, acceptedAt in
      isDue(max(acceptedAt, begin), at: stream.receiver, before: over, timeline)
    }.map(\.number)
  }
}
