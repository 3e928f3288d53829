package import CallCore
package import CallTelemetry
internal import Logging

/// The metrics of calls, over all shards of a node.
///
/// The node that appended a milestone's entry counts it, once the journal has acknowledged it; a new owner, which only
/// replays it, does not. So the sum over all nodes counts each call once. When a process dies, its counts since the
/// last scrape are lost.
package struct CallMetrics: Sendable {
  package let placed: Counter
  package let answered: Counter
  private let ended: [EndReason: Counter]
  package let ringing: DurationHistogram
  package let talking: DurationHistogram
  private let livePlaced: Gauge
  private let liveRinging: Gauge
  private let liveAnswered: Gauge

  init(_ registry: MetricsRegistry) {
    placed = registry.counter("callmesh_calls_placed_total", "Calls that were placed.")
    answered = registry.counter("callmesh_calls_answered_total", "Calls that were answered.")
    ended = registry.counters(
      "callmesh_calls_ended_total", "Calls that ended, by reason.", label: "reason",
      EndReason.allCases, \.name)
    ringing = registry.histogram(
      "callmesh_calls_ring_duration_seconds",
      "From a call's placing to its answer, or to its end where nobody answered.",
      bounds: .callDurations)
    talking = registry.histogram(
      "callmesh_calls_answered_duration_seconds", "From an answer to the call's end.",
      bounds: .callDurations)
    func live(_ phase: CallPhase) -> Gauge {
      registry.gauge(
        "callmesh_calls_live", "Calls that go on, of the shards that this node holds.",
        labels: [("state", phase.name)])
    }
    livePlaced = live(.placed)
    liveRinging = live(.ringing)
    liveAnswered = live(.answered)
  }

  package func ended(_ reason: EndReason) -> UInt64 { ended[reason]?.value ?? 0 }

  func count(_ milestone: CallMilestone) {
    switch milestone {
    case .placed: placed.increment()
    case .answered(let span):
      answered.increment()
      if let span { ringing.record(microseconds: span.microseconds) }
    case .ended(let reason, let rang, let talked):
      ended[reason]?.increment()
      if let rang { ringing.record(microseconds: rang.microseconds) }
      if let talked { talking.record(microseconds: talked.microseconds) }
    }
  }

  /// Updates the gauges for a shard whose load changed.
  func live(_ now: ShardLoad, was before: ShardLoad) {
    livePlaced.add(Int64(now.placed - before.placed))
    liveRinging.add(Int64(now.ringing - before.ringing))
    liveAnswered.add(Int64(now.answered - before.answered))
  }
}

/// Logs of calls. The node that appended a fact logs it, once.
extension Logger {
  /// Logs facts that the journal has: milestones at `debug`, the rest at `trace`, and nothing of descriptions,
  /// candidates and tokens.
  func logFacts(_ entries: [JournalEntry], shard: Int, epoch: UInt64) {
    guard logLevel <= .debug else { return }
    for entry in entries {
      guard let line = CallLogLine(entry.change), logLevel <= line.level else { continue }
      var metadata = Metadata.keys([.shard: "\(shard)", .epoch: "\(epoch)", .call: "\(entry.call)"])
      metadata.merge(line.metadata) { _, new in new }
      log(level: line.level, line.message, metadata: metadata)
    }
  }
}

/// One fact of a call as it is logged.
private struct CallLogLine {
  var level = Logger.Level.trace
  var message: Logger.Message
  var metadata: Logger.Metadata = [:]

  /// nil for frequent facts, such as candidates.
  init?(_ change: JournalEntry.Change) {
    switch change {
    case .placed(let facts):
      (level, message) = (.debug, "Call placed.")
      metadata = Self.keys(facts.caller)
      metadata[LogKey.app.rawValue] = "\(facts.callee.app)"
      metadata[LogKey.callee.rawValue] = "\(facts.callee.user)"
      metadata[LogKey.count.rawValue] = "\(facts.legs.count)"
    case .answered(let answer):
      (level, message, metadata) = (.debug, "Call answered.", Self.keys(answer.by))
    case .moved(let move):
      (level, message, metadata) = (.debug, "Call taken over.", Self.keys(move.to))
    case .diverted(let diverted):
      (level, message) = (.debug, "Call diverted.")
      metadata = .keys([.user: "\(diverted.from)", .reason: "\(diverted.reason.name)"])
    case .transferEnded(let end):
      (level, message) = (.debug, "Transfer failed.")
      metadata = end.by.map(Self.keys) ?? [:]
      metadata[LogKey.reason.rawValue] = "\(end.reason.name)"
    case .ended(let end):
      (level, message) = (.debug, "Call ended.")
      metadata = end.by.map(Self.keys) ?? [:]
      metadata[LogKey.reason.rawValue] = "\(end.reason.name)"
    case .legJoined(let party): (message, metadata) = ("Device joined.", Self.keys(party))
    case .alerting(let device): (message, metadata) = ("Device alerts.", Self.keys(device))
    case .legEnded(let device, let end, _):
      (message, metadata) = ("Device rings no more.", Self.keys(device))
      metadata[LogKey.reason.rawValue] = "\(end)"
    case .connected(let caller): message = caller ? "Caller connected." : "Winner connected."
    case .callerLost(let until): message = until == nil ? "Caller is back." : "Caller is lost."
    case .winnerLost(let until): message = until == nil ? "Winner is back." : "Winner is lost."
    case .recorded: message = "What is kept of the call is stored."
    case .settled: message = "Every device knows of the end."
    case .pushed(let device, let purpose):
      (message, metadata) = ("Push decided.", Self.keys(device))
      metadata[LogKey.purpose.rawValue] = "\(purpose.name)"
    case .signal: return nil
    }
  }

  private static func keys(_ party: Party) -> Logger.Metadata {
    .keys([.user: "\(party.user)", .device: "\(party.device)"])
  }

  private static func keys(_ device: DeviceID) -> Logger.Metadata {
    .keys([.device: "\(device.shown)"])
  }
}
