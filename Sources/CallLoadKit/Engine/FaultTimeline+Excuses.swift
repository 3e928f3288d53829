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
    shards: [Int], or devices: [Int], from begin: Timestamp, to end: Timestamp
  ) -> Bool {
    (shards.map(Place.shard) + devices.map(Place.device))
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

  /// Whether an edge was in trouble between two times.
  func disturbedEdges(from begin: Timestamp, to end: Timestamp) -> Bool {
    faults.values.contains { course in
      !course.fault.edges.isEmpty && course.beganAt <= end
        && course.liftedAt.map { begin <= $0 + Self.keptWaiting } ?? true
    }
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
    return stretch(of: windows, until: moment).map { $0.since + Self.beyondReach <= moment }
      ?? false
  }

  /// A call waits for the shard of a user to whom it went on for 15 s (`Guest.answerTimeout`). A bit less, since the
  /// time at which it asked is not seen here.
  private static let visitTimeout: Span = .seconds(13)

  /// The fault by which a shard was silent for so long that a call which had gone on to one of its users waited no
  /// longer, at a moment.
  package func silence(ofShard shard: Int, until moment: Timestamp) -> ChaosFault? {
    guard let silence = stretch(of: windows(.shard(shard)), until: moment),
      silence.since + Self.visitTimeout <= moment
    else { return nil }
    return faults[silence.last]?.fault
  }

  /// The time until a moment that windows cover, and the last fault in it; nil where that is none. Two windows with
  /// little time between them count as one, since nothing was made up for in between.
  private func stretch(
    of windows: [FaultCalendar.Window], until moment: Timestamp
  ) -> (since: Timestamp, last: Int)? {
    var found: (since: Timestamp, until: Timestamp, last: Int)?
    for window in windows.sorted(by: { $0.from < $1.from }) where window.from <= moment {
      let end = window.until ?? .distantFuture
      if let before = found, window.from <= before.until.later(by: Self.keptWaiting) {
        found = (before.since, max(before.until, end), window.fault)
      } else {
        found = (window.from, end, window.fault)
      }
    }
    guard let found, moment <= found.until.later(by: Self.keptWaiting) else { return nil }
    return (found.since, found.last)
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

  /// Whether something may come late because the processors were busy.
  func wasBusy(at now: Timestamp) -> Bool { busy.first(from: now, to: now) != nil }

  /// Until when faults excuse that a device was not notified of something which was due: from one that
  /// lasts at the due time, or begins within `slack` of it, to its end, and on with the next. Busy processors excuse
  /// that, too.
  package func excuse(shards: [Int], device: Int, due: Timestamp, slack: Span) -> Timestamp {
    let all = shards.flatMap { windows(.shard($0)) } + windows(.device(device)) + busy.windows
    var until = due
    for window in all.sorted(by: { $0.from < $1.from }) where window.from <= until.later(by: slack)
    {
      // After a take-over the new owner notifies all devices at once.
      let isRetransmitted = faults[window.fault]?.fault.losesMessages ?? true
      let end = window.until.map { isRetransmitted ? $0 + window.afterglow : $0 }
      until = max(until, end ?? .distantFuture)
    }
    return until
  }
}
