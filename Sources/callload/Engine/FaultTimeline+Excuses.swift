package import CallCore
import CallJudge

/// What a fault explains.
extension FaultTimeline {
  /// The fault that disturbed a shard at some time between two.
  package func disturbed(shard: Int, from begin: Timestamp, to end: Timestamp) -> Fault? {
    shards[shard]?.first(from: begin, to: end).flatMap { faults[$0.fault] }
  }

  /// The same, of those in which messages get lost, which may lie beside others.
  package func lostMessages(shard: Int, from begin: Timestamp, to end: Timestamp) -> Fault? {
    (shards[shard]?.windows ?? []).lazy.filter { $0.touches(begin, end) }
      .compactMap { faults[$0.fault] }
      .first { $0.losesMessages }
  }

  package func disturbed(device: Int, from begin: Timestamp, to end: Timestamp) -> Fault? {
    devices[device]?.first(from: begin, to: end).flatMap { faults[$0.fault] }
  }

  /// What kept a device from coming back between two times, if it lasted for half of them at least: edges in
  /// trouble, one of which it may have been on its way to, and what befell its own shard.
  package func hindrance(shard: Int, from begin: Timestamp, to end: Timestamp) -> Fault? {
    var spans = (shards[shard]?.windows ?? []).map {
      (fault: $0.fault, from: $0.from, to: $0.until.map { [glow = $0.afterglow] in $0 + glow })
    }
    for (id, fault) in faults where !fault.edges.isEmpty {
      guard let began = beganAt[id] else { continue }
      spans.append((id, began, liftedAt[id].map { $0 + Self.keptWaiting }))
    }
    let found = spans.filter { $0.from < end && $0.to.map { begin < $0 } ?? true }
      .sorted { ($0.from, $0.fault) < ($1.from, $1.fault) }
    var (covered, reached): (Int64, Timestamp) = (0, begin)
    for span in found {
      let last = min(span.to ?? end, end)
      covered += max(0, (last - max(reached, span.from)).microseconds)
      reached = max(reached, last)
    }
    guard (end - begin).microseconds <= 2 * covered else { return nil }
    return found.first.flatMap { faults[$0.fault] }
  }

  /// A fault that disturbed anything at some time between two.
  package func disturbed(from begin: Timestamp, to end: Timestamp) -> Fault? {
    [shards, devices].lazy.flatMap(\.values)
      .compactMap { $0.first(from: begin, to: end).flatMap { faults[$0.fault] } }.first
  }

  /// Whether a fault of one of these kinds began between two times.
  package func began(
    _ isMeant: (ChaosKind) -> Bool, from begin: Timestamp, to end: Timestamp
  ) -> Bool {
    faults.contains { id, fault in
      isMeant(fault.kind) && beganAt[id].map { begin <= $0 && $0 <= end } ?? false
    }
  }

  /// Whether what was said to a device in time may come late: its edge was frozen, or cut off, whatever
  /// else befell the device meanwhile, or a nats-server was that may have had it in hand.
  package func mayComeLate(to device: Int, at now: Timestamp) -> Bool {
    let waited = (devices[device]?.windows ?? []).contains { window in
      guard let kind = faults[window.fault]?.kind, window.touches(now, now) else { return false }
      return kind.keepsDevicesWaiting
    }
    return waited
      || faults.contains { id, fault in
        fault.kind.isOfNATS && fault.kind.delaysOldWords
          && beganAt[id].map { $0 <= now } ?? false
          && liftedAt[id].map { now <= $0 + Self.keptWaiting } ?? true
      }
  }

  /// An edge that is silent for so long is lost (`leaseTimeout`, 3 s), and so are its devices, which are waited
  /// for (`reattachGrace`, 5 s). A bit less, since nobody knows when it was heard last.
  private static let beyondReach: Span = .milliseconds(7_500)

  /// Whether nobody can reach a device that has its connection: its edge has been stopped or cut off for
  /// longer than the cluster waits, by one fault or by several in a row.
  package func isBeyondReach(_ device: Int, at moment: Timestamp) -> Bool {
    let windows = (devices[device]?.windows ?? []).filter {
      faults[$0.fault]?.kind.keepsDevicesWaiting == true
    }
    var since = Timestamp(microseconds: 0)
    var until = since
    for window in windows.sorted(by: { $0.from < $1.from }) where window.from <= moment {
      // Two windows with less time between them count as one: the device was not announced in between.
      if until.later(by: Self.keptWaiting) < window.from { since = window.from }
      until = max(until, window.until ?? .distantFuture)
    }
    return since + Self.beyondReach <= moment && moment <= until.later(by: Self.keptWaiting)
  }

  /// Whether edges send their devices away at this time, since no shard has answered for 8 s.
  package func mayTellDevicesToGo(at moment: Timestamp) -> Bool {
    faults.contains { id, fault in
      guard fault.kind.isOfNATS, let began = beganAt[id] else { return false }
      return began + Self.beyondReach <= moment
        && (liftedAt[id].map { moment <= $0 + .seconds(5) } ?? true)
    }
  }

  /// Whether what a former owner of a shard said in time may come only now: its process was frozen,
  /// or its way to NATS cut, with words on the way.
  package func mayBeStale(shard: Int, at now: Timestamp) -> Bool {
    (shards[shard]?.windows ?? []).contains { window in
      guard let fault = faults[window.fault], window.from <= now else { return false }
      guard fault.kind.delaysOldWords else { return false }
      return liftedAt[fault.id].map { now <= $0 + .seconds(3) } ?? true
    }
  }

  /// Until when faults excuse that a device was not told of something which was due: from one that
  /// lasts at the due time, or begins within `slack` of it, to its end, and on with the next.
  package func excuse(
    shard: Int, device: Int, due: Timestamp, slack: Span
  ) -> Timestamp {
    let all = (shards[shard]?.windows ?? []) + (devices[device]?.windows ?? [])
    var until = due
    for window in all.sorted(by: { $0.from < $1.from }) where window.from <= until.later(by: slack)
    {
      // After a take-over the new owner tells everybody at once.
      let isSaidAgain = faults[window.fault]?.losesMessages ?? false
      let glow = isSaidAgain ? window.afterglow : Span(microseconds: 0)
      until = max(until, window.until.map { $0 + glow } ?? .distantFuture)
    }
    return until
  }
}
