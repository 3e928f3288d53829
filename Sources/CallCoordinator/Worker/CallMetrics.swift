package import CallCore
package import CallTelemetry

/// The metrics of calls, over all shards of a node.
///
/// A milestone is counted when the journal has acknowledged its entry, by the node whose append it was.
/// A new owner only replays it. So the sum over all nodes counts each call once, whatever becomes of
/// its shard; what a process had counted since its last scrape goes with it when it dies.
package struct CallMetrics: Sendable {
  package let placed: Counter
  package let answered: Counter
  private let ended: [EndReason: Counter]
  package let ringing: LatencyHistogram
  package let talking: LatencyHistogram
  private let livePlaced: Gauge
  private let liveRinging: Gauge
  private let liveAnswered: Gauge

  init(_ registry: MetricsRegistry) {
    placed = registry.counter("callmesh_calls_placed_total", "Calls that were placed.")
    answered = registry.counter("callmesh_calls_answered_total", "Calls that were answered.")
    ended = Dictionary(
      uniqueKeysWithValues: EndReason.allCases.map { reason in
        let counter = registry.counter(
          "callmesh_calls_ended_total", "Calls that ended, by reason.",
          labels: [("reason", reason.name)])
        return (reason, counter)
      })
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

  /// A shard's share of the gauges changes; `.none` where it is not held.
  func live(_ now: LiveCalls, was before: LiveCalls) {
    guard now != before else { return }
    livePlaced.add(Int64(now.placed - before.placed))
    liveRinging.add(Int64(now.ringing - before.ringing))
    liveAnswered.add(Int64(now.answered - before.answered))
  }
}

/// The calls of a shard that go on, by phase.
struct LiveCalls: Equatable {
  var placed = 0
  var ringing = 0
  var answered = 0

  static let none = LiveCalls()

  init() {}

  init(_ counts: ShardCounts) {
    placed = counts.placed
    ringing = counts.ringing
    answered = counts.answered
  }
}
