internal import CallAuth
internal import CallCore
internal import CallTelemetry

/// An edge's metrics. `AppGate` has those of the limits of apps, `EdgeShared` those of the certificate.
final class EdgeMetrics: Sendable {
  let connections: Gauge
  let connectionsTotal: Counter
  let sessions: Gauge
  let attachesTotal: Counter
  let tlsHandshakes: Counter
  let tlsHandshakesFailed: Counter
  let framesIn: Counter
  let framesOut: Counter
  let commandsTotal: Counter
  let commandsPending: Gauge
  let commandsRefused: Counter
  let commandsRetried: Counter
  let commandsTimedOut: Counter
  let commandLatency: DurationHistogram
  let signalGaps: Gauge
  let signalGapsForgotten: Counter
  let cutOffs: Counter
  let nearerWaiting: Gauge
  let nearerTold: Counter
  let ringLatency: DurationHistogram
  let busDropped: Counter
  let deliveriesTotal: Counter
  let deliveriesUnknown: Counter
  let deliveriesWaiting: Gauge
  let deliveriesDropped: Counter
  let closedSessions: Gauge
  let closedSessionsForgotten: Counter
  let batchesUnreadable: Counter
  let itemsUnreadable: Counter
  /// Devices' questions for their live calls, each to all shards.
  let callQuestions: Gauge
  let callQuestionsRefused: Counter
  let requestsTotal: Counter
  let requestsWaiting: Gauge
  let requestRates: Gauge
  let requestRatesForgotten: Counter
  let pushRequestsAccepted: Counter
  let pushRequestsRefused: Counter
  /// Requests that came before there were keys to verify their capabilities.
  let pushRequestsUnready: Counter
  let tokensRefused: [TokenFault.Part: Counter]
  private let errors: [Counter]
  private let closes: [CloseReason: Counter]

  // MARK: Limits of peers

  let connectionsMax: Gauge
  let unattached: Gauge
  let addresses: Gauge
  let addressRates: Gauge
  let addressRatesForgotten: Counter
  let unfinishedBytes: Gauge
  let outboundBytes: Gauge
  /// Requests from a trusted proxy that does not say whose they are.
  let withoutAddress: Counter
  private let refused: [ConnectionRefusal: Counter]
  private let limited: [PeerLimit: Counter]

  init(_ registry: MetricsRegistry) {
    func counter(_ name: String, _ help: String) -> Counter {
      registry.counter("callmesh_edge_" + name, help)
    }
    func gauge(_ name: String, _ help: String) -> Gauge {
      registry.gauge("callmesh_edge_" + name, help)
    }
    connections = gauge("connections", "Open sockets.")
    connectionsTotal = counter("connections_total", "Sockets that were accepted.")
    sessions = gauge("sessions", "Attached devices.")
    attachesTotal = counter("attaches_total", "Devices that attached.")
    let handshakes = registry.counters(
      "callmesh_edge_tls_handshakes_total", "TLS handshakes that devices began, by result.",
      label: "result", ["done", "failed"])
    (tlsHandshakes, tlsHandshakesFailed) = (handshakes[0], handshakes[1])
    framesIn = counter("frames_in_total", "Messages from devices.")
    framesOut = counter("frames_out_total", "Messages to devices.")
    commandsTotal = counter("commands_total", "Commands handed to shards, repeats not counted.")
    commandsPending = gauge("commands_pending", "Commands that wait for their replies.")
    commandsRefused = counter(
      "commands_refused_total",
      "Commands that were refused because too many waited for their replies.")
    commandsRetried = counter("commands_retried_total", "Commands sent again for want of a reply.")
    commandsTimedOut = counter("commands_timed_out_total", "Commands that were never answered.")
    commandLatency = registry.histogram(
      "callmesh_edge_command_seconds", "From a command's arrival to its reply's leaving.")
    signalGaps = gauge(
      "signal_gaps",
      "Streams of descriptions and candidates in which one was given up and has not come again.")
    signalGapsForgotten = counter(
      "signal_gaps_forgotten_total",
      "Streams of descriptions and candidates whose order was given up because too many had gaps.")
    cutOffs = counter(
      "cut_offs_total",
      "Times that no shard answered for so long that devices were sent to other edges.")
    nearerWaiting = gauge(
      "nearer_waiting",
      "Devices that wait for a notice that another edge is nearer, since their shard moved."
    )
    nearerTold = counter(
      "nearer_told_total",
      "Notices to devices that another edge is nearer, since their shard moved.")
    ringLatency = registry.histogram(
      "callmesh_ring_seconds",
      "From a place's arrival at an edge until this edge has written the call's last invite.",
      bounds: .fineLatencies)
    busDropped = counter("bus_dropped_total", "Messages that the bus's full outbox refused.")
    deliveriesTotal = counter("deliveries_total", "Deliveries handed to sessions.")
    deliveriesUnknown = counter(
      "deliveries_unknown_total", "Deliveries and replies to sessions that are gone.")
    deliveriesWaiting = gauge(
      "deliveries_waiting", "Deliveries and replies that wait for an event loop.")
    deliveriesDropped = counter(
      "deliveries_dropped_total",
      "Deliveries and replies dropped because an event loop had too many waiting.")
    closedSessions = gauge(
      "closed_sessions",
      "Sessions that ended lately, remembered for shards that have not learned of it.")
    closedSessionsForgotten = counter(
      "closed_sessions_forgotten_total",
      "Sessions that ended less than a minute ago and were forgotten because too many others ended."
    )
    batchesUnreadable = counter(
      "batches_unreadable_total", "Messages from the cluster that made no sense.")
    itemsUnreadable = counter(
      "items_unreadable_total",
      "Replies and deliveries of a kind that this version does not know, dropped.")
    callQuestions = gauge("call_questions", "Devices that wait for the list of their live calls.")
    callQuestionsRefused = counter(
      "call_questions_refused_total",
      "Questions for the list of live calls that were refused because too many waited.")
    requestsTotal = counter("http_requests_total", "HTTP requests.")
    requestsWaiting = gauge(
      "http_requests_waiting", "HTTP requests that were read and are not answered.")
    requestRates = gauge("http_rates", "Users or devices whose rate of HTTP requests is counted.")
    requestRatesForgotten = counter(
      "http_rates_forgotten_total",
      "Users or devices whose rate of HTTP requests was forgotten because too many others sent some."
    )
    let pushRequests = registry.counters(
      "callmesh_edge_push_requests_total",
      "Requests with a push's capability instead of a token, by what became of it.",
      label: "result", ["accepted", "refused", "no_keys"])
    pushRequestsAccepted = pushRequests[0]
    pushRequestsRefused = pushRequests[1]
    pushRequestsUnready = pushRequests[2]
    tokensRefused = registry.counters(
      "callmesh_edge_tokens_refused_total",
      "Refused tokens, by the part that is wrong. Of more than 20 a second some are left out.",
      label: "part", \.rawValue)
    errors = registry.counters(
      "callmesh_edge_errors_total", "Error replies to devices, by group of codes.", label: "group",
      ["protocol", "authentication", "registration", "call", "cluster"])
    closes = registry.counters(
      "callmesh_edge_closes_total", "Sessions closed by the edge, by reason.", label: "reason"
    ) { $0.text.replacing(" ", with: "_") }

    connectionsMax = gauge("connections_max", "Sockets that may be open.")
    unattached = gauge(
      "connections_unattached", "Open sockets on which no device has attached.")
    addresses = gauge("addresses", "Addresses that have connections and are limited.")
    addressRates = gauge("address_rates", "Addresses whose rates of requests are counted.")
    addressRatesForgotten = counter(
      "address_rates_forgotten_total",
      "Addresses whose rates were forgotten because too many others sent requests.")
    unfinishedBytes = gauge("unfinished_bytes", "Bytes of messages that are not whole yet.")
    outboundBytes = gauge("outbound_waiting_bytes", "Bytes that wait for slow devices.")
    withoutAddress = counter(
      "forwarded_without_address_total",
      "Requests from a trusted proxy that did not say whose they are: no limit per address holds.")
    refused = registry.counters(
      "callmesh_connections_refused_total",
      "Connections that the edge did not take or keep, by reason.", label: "reason", \.rawValue)
    limited = registry.counters(
      "callmesh_edge_limited_total",
      "Times that a peer reached a limit on its connection, by limit.", label: "limit", \.rawValue)
  }

  func count(error code: CallError.Code) {
    let group = Int(code.rawValue / 100) - 1
    if errors.indices.contains(group) { errors[group].increment() }
  }

  func count(close reason: CloseReason) { closes[reason]?.increment() }
  func count(refusal: ConnectionRefusal) { refused[refusal]?.increment() }
  func count(limit: PeerLimit) { limited[limit]?.increment() }

  var errorsTotal: UInt64 { errors.reduce(0) { $0 + $1.value } }
}

extension MetricsRegistry {
  /// One counter for each value of a label.
  fileprivate func counters(
    _ name: String, _ help: String, label: String, _ values: [String]
  ) -> [Counter] {
    values.map { counter(name, help, labels: [(label, $0)]) }
  }

  func counters<Case: CaseIterable & Hashable>(
    _ name: String, _ help: String, _ labels: [(String, String)] = [], label: String,
    _ value: (Case) -> String
  ) -> [Case: Counter] {
    let counters = Case.allCases.map {
      ($0, counter(name, help, labels: labels + [(label, value($0))]))
    }
    return Dictionary(uniqueKeysWithValues: counters)
  }
}
