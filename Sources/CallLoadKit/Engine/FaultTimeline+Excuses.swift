package import CallCore
import CallJudge

extension FaultTimeline {
  /// The first fault that disturbed a shard or device between two times.
  package func disturbed(_ place: Place, from begin: Timestamp, to end: Timestamp) -> ChaosFault? {
    faults(of: place, from: begin, to: end).first
  }

  /// The same among faults that lose messages, whatever other fault lies beside them.
  package func lostMessages(shard: Int, from begin: Timestamp, to end: Timestamp) -> ChaosFault? {
    faults(of: .shard(shard), from: begin, to: end).first { $0.losesMessages }
  }

  func isDisturbed(
    shard: Int, or devices: [Int], from begin: Timestamp, to end: Timestamp
  ) -> Bool {
    ([.shard(shard)] + devices.map(Place.device))
      .contains { disturbed($0, from: begin, to: end) != nil }
  }

  private func faults(
    of place: Place, from begin: Timestamp, to end: Timestamp
  ) -> some Collection<ChaosFault> {
    windows(place).lazy.filter { $0.touches(begin, end) }.compactMap { faults[$0.fault]?.fault }
  }

  package func disturbed(from begin: Timestamp, to end: Timestamp) -> ChaosFault? {
    calendars.keys.lazy.compactMap { disturbed($0, from: begin, to: end) }.first
  }

  /// The fault that kept a device from coming back for at least half of a time: an edge's, or its shard's.
  package func hindrance(shard: Int, from begin: Timestamp, to end: Timestamp) -> ChaosFault? {
    var spans = windows(.shard(shard)).map {
      (fault: $0.fault, from: $0.from, to: $0.until.map { [glow = $0.afterglow] in $0 + glow })
    }
    for (id, course) in faults where !course.fault.edges.isEmpty {
      spans.append((id, course.beganAt, course.liftedAt.map { $0 + Self.keptWaiting }))
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
    return found.first.flatMap { faults[$0.fault]?.fault }
  }

  package func began(
    _ isMeant: (ChaosKind) -> Bool, from begin: Timestamp, to end: Timestamp
  ) -> Bool {
    faults.values.contains { isMeant($0.fault.kind) && begin <= $0.beganAt && $0.beganAt <= end }
  }

  /// Whether a message to a device may come late: its edge, or a nats-server, was frozen or cut off.
  package func mayComeLate(to device: Int, at now: Timestamp) -> Bool {
    faults(of: .device(device), from: now, to: now).contains { $0.keepsDevicesWaiting }
      || faults.values.contains { course in
        course.fault.kind.isOfNATS && course.fault.delaysMessages
          && course.lasts(at: now, andFor: Self.keptWaiting)
      }
  }

  /// After this time of silence an edge is lost (`leaseTimeout`, 3 s), and so are its devices
  /// (`reattachGrace`, 5 s). A bit less, since the time of the last heartbeat is not known here.
  private static let beyondReach: Span = .milliseconds(7_500)

  /// Whether the cluster cannot reach a connected device: faults stopped its edge for longer than it waits.
  package func isBeyondReach(_ device: Int, at moment: Timestamp) -> Bool {
    let windows = windows(.device(device)).filter {
      faults[$0.fault]?.fault.keepsDevicesWaiting == true
    }
    var since = Timestamp.zero
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
    faults.values.contains { course in
      course.fault.kind.isOfNATS && course.beganAt + Self.beyondReach <= moment
        && course.lasts(at: moment, andFor: .seconds(5))
    }
  }

  /// Whether messages of a shard's former owner may arrive only now: it was frozen, or cut off from NATS.
  package func mayBeStale(shard: Int, at now: Timestamp) -> Bool {
    windows(.shard(shard)).contains { window in
      guard let course = faults[window.fault], window.from <= now else { return false }
      return course.fault.delaysMessages && course.lasts(at: now, andFor: .seconds(3))
    }
  }

  /// Until when faults excuse that a device was not notified of something which was due: from one that
  /// lasts at the due time, or begins within `slack` of it, to its end, and on with the next.
  package func excuse(shard: Int, device: Int, due: Timestamp, slack: Span) -> Timestamp {
    let all = windows(.shard(shard)) + windows(.device(device))
    var until = due
    for window in all.sorted(by: { $0.from < $1.from }) where window.from <= until.later(by: slack)
    {
      // After a take-over the new owner notifies all devices at once.
      let isRetransmitted = faults[window.fault]?.fault.losesMessages ?? false
      let end = window.until.map { isRetransmitted ? $0 + window.afterglow : $0 }
      until = max(until, end ?? .distantFuture)
    }
    return until
  }
}
