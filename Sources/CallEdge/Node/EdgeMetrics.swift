package import CallCore
package import CallTelemetry

/// An edge's metrics. `PeerMetrics` has those of the limits of peers, `AppGate` those of apps.
package final class EdgeMetrics: Sendable {
  package let connections: Gauge
  package let sessions: Gauge
  package let connectionsTotal: Counter
  package let tlsHandshakes: Counter
  package let tlsHandshakesFailed: Counter
  package let attachesTotal: Counter
  package let framesIn: Counter
  package let framesOut: Counter
  package let commandsTotal: Counter
  package let commandsPending: Gauge
  package let commandsRefused: Counter
  package let signalGaps: Gauge
  package let signalGapsForgotten: Counter
  package let commandsRetried: Counter
  package let commandsTimedOut: Counter
  package let cutOffs: Counter
  package let commandLatency: LatencyHistogram
  package let ringLatency: LatencyHistogram
  package let busDropped: Counter
  package let deliveriesTotal: Counter
  /// Deliveries and replies to sessions that are gone.
  package let deliveriesUnknown: Counter
  package let deliveriesWaiting: Gauge
  package let deliveriesDropped: Counter
  package let closedSessions: Gauge
  package let closedSessionsForgotten: Counter
  package let batchesUnreadable: Counter
  package let itemsUnreadable: Counter
  /// Devices' questions for their live calls, each to all shards.
  package let callQuestions: Gauge
  package let callQuestionsRefused: Counter
  package let requestsTotal: Counter
  package let requestsWaiting: Gauge
  package let requestRates: Gauge
  /// Users and devices whose rate of HTTP requests was forgotten before its time.
  package let requestRatesForgotten: Counter
  /// Requests with a push's capability that was valid; that was not; that came before there were keys to
  /// verify it.
  package let pushRequestsAccepted: Counter
  package let pushRequestsRefused: Counter
  package let pushRequestsUnready: Counter
  private let errors: [Counter]
  private let closes: [CloseReason: Counter]

  package init(_ registry: MetricsRegistry) {
    connections = registry.gauge("callmesh_edge_connections", "Open sockets.")
    sessions = registry.gauge("callmesh_edge_sessions", "Attached devices.")
    connectionsTotal = registry.counter(
      "callmesh_edge_connections_total", "Sockets that were accepted.")
    func handshakes(_ result: String) -> Counter {
      registry.counter(
        "callmesh_edge_tls_handshakes_total", "TLS handshakes that devices began, by result.",
        labels: [("result", result)])
    }
    tlsHandshakes = handshakes("done")
    tlsHandshakesFailed = handshakes("failed")
    attachesTotal = registry.counter("callmesh_edge_attaches_total", "Devices that attached.")
    framesIn = registry.counter("callmesh_edge_frames_in_total", "Messages from devices.")
    framesOut = registry.counter("callmesh_edge_frames_out_total", "Messages to devices.")
    commandsTotal = registry.counter(
      "callmesh_edge_commands_total", "Commands handed to shards, repeats not counted.")
    commandsPending = registry.gauge(
      "callmesh_edge_commands_pending", "Commands that wait for their replies.")
    commandsRefused = registry.counter(
      "callmesh_edge_commands_refused_total",
      "Commands that were refused because too many waited for their replies.")
    signalGaps = registry.gauge(
      "callmesh_edge_signal_gaps",
      "Streams of descriptions and candidates in which one was given up and has not come again.")
    signalGapsForgotten = registry.counter(
      "callmesh_edge_signal_gaps_forgotten_total",
      "Streams of descriptions and candidates whose order was given up because too many had gaps.")
    commandsRetried = registry.counter(
      "callmesh_edge_commands_retried_total", "Commands sent again for want of a reply.")
    cutOffs = registry.counter(
      "callmesh_edge_cut_offs_total",
      "Times that no shard answered for so long that devices were told to try other edges.")
    commandsTimedOut = registry.counter(
      "callmesh_edge_commands_timed_out_total", "Commands that were never answered.")
    commandLatency = registry.histogram(
      "callmesh_edge_command_seconds", "From a command's arrival to its reply's leaving.")
    ringLatency = registry.histogram(
      "callmesh_ring_seconds",
      "From a place's arrival at an edge until this edge has written the call's last invite.",
      bounds: .fineLatencies)
    busDropped = registry.counter(
      "callmesh_edge_bus_dropped_total", "Messages that the bus's full outbox refused.")
    deliveriesTotal = registry.counter(
      "callmesh_edge_deliveries_total", "Deliveries handed to sessions.")
    deliveriesUnknown = registry.counter(
      "callmesh_edge_deliveries_unknown_total", "Deliveries and replies to sessions that are gone.")
    deliveriesWaiting = registry.gauge(
      "callmesh_edge_deliveries_waiting", "Deliveries and replies that wait for an event loop.")
    closedSessions = registry.gauge(
      "callmesh_edge_closed_sessions",
      "Sessions that ended lately, remembered for shards that have not learned of it.")
    closedSessionsForgotten = registry.counter(
      "callmesh_edge_closed_sessions_forgotten_total",
      "Sessions that ended less than a minute ago and were forgotten because too many others ended."
    )
    deliveriesDropped = registry.counter(
      "callmesh_edge_deliveries_dropped_total",
      "Deliveries and replies dropped because an event loop had too many waiting.")
    batchesUnreadable = registry.counter(
      "callmesh_edge_batches_unreadable_total", "Messages from the cluster that made no sense.")
    itemsUnreadable = registry.counter(
      "callmesh_edge_items_unreadable_total",
      "Replies and deliveries of a kind that this version does not know, dropped.")
    callQuestions = registry.gauge(
      "callmesh_edge_call_questions", "Devices that wait for the list of their live calls.")
    callQuestionsRefused = registry.counter(
      "callmesh_edge_call_questions_refused_total",
      "Questions for the list of live calls that were refused because too many waited.")
    requestsTotal = registry.counter("callmesh_edge_http_requests_total", "HTTP requests.")
    requestsWaiting = registry.gauge(
      "callmesh_edge_http_requests_waiting", "HTTP requests that were read and are not answered.")
    requestRates = registry.gauge(
      "callmesh_edge_http_rates", "Users or devices whose rate of HTTP requests is counted.")
    requestRatesForgotten = registry.counter(
      "callmesh_edge_http_rates_forgotten_total",
      "Users or devices whose rate of HTTP requests was forgotten because too many others sent some."
    )
    func pushRequests(_ result: String) -> Counter {
      registry.counter(
        "callmesh_edge_push_requests_total",
        "Requests with a push's capability instead of a token, by what became of it.",
        labels: [("result", result)])
    }
    pushRequestsAccepted = pushRequests("accepted")
    pushRequestsRefused = pushRequests("refused")
    pushRequestsUnready = pushRequests("no_keys")
    errors = ["protocol", "authentication", "registration", "call", "cluster"].map {
      registry.counter(
        "callmesh_edge_errors_total", "Error replies to devices, by group of codes.",
        labels: [("group", $0)])
    }
    closes = Dictionary(
      uniqueKeysWithValues: CloseReason.allCases.map {
        (
          $0,
          registry.counter(
            "callmesh_edge_closes_total", "Sessions closed by the edge, by reason.",
            labels: [("reason", $0.text.replacing(" ", with: "_"))])
        )
      })
  }

  package func countError(_ code: CallError.Code) {
    let group = Int(code.rawValue / 100) - 1
    if errors.indices.contains(group) { errors[group].increment() }
  }

  package func countClose(_ reason: CloseReason) { closes[reason]?.increment() }

  package func closes(_ reason: CloseReason) -> UInt64 { closes[reason]?.value ?? 0 }
  package var errorsTotal: UInt64 { errors.reduce(0) { $0 + $1.value } }
}
