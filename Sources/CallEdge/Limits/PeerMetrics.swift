package import CallTelemetry

/// Why a connection is refused.
package enum ConnectionRefusal: String, Error, CaseIterable, Sendable {
  /// There are `connectionsMax`.
  case all
  /// There are `connectionsPerAddress` of its address.
  case address
  /// There are `unattachedMax` on which no device has attached: it is a new one, or the oldest of these, which
  /// was closed.
  case unattached
  /// The process has no file descriptor left.
  case descriptors
}

/// A limit that a peer may reach on a connection that was taken.
package enum PeerLimit: String, CaseIterable, Sendable {
  case proxyHeader = "proxy_header"
  case noTLS = "no_tls"
  case handshakeBytes = "handshake_bytes"
  case pipelinedRequests = "pipelined_requests"
  case requestTimeout = "request_timeout"
  case unreadAnswer = "unread_answer"
  case requestsPerAddress = "requests_per_address"
  case failedAuthsPerAddress = "failed_auths_per_address"
  case controlFrames = "control_frames"
  case pongsWaiting = "pongs_waiting"
  case messageTimeout = "message_timeout"
  case unfinishedBytes = "unfinished_bytes"
  case outboundBytes = "outbound_bytes"
  case lingerBytes = "linger_bytes"
}

/// The metrics of the limits of peers.
package final class PeerMetrics: Sendable {
  private let refused: [ConnectionRefusal: Counter]
  private let limited: [PeerLimit: Counter]
  package let connectionsMax: Gauge
  package let unattached: Gauge
  package let addresses: Gauge
  package let addressRates: Gauge
  package let addressRatesForgotten: Counter
  package let unfinishedBytes: Gauge
  package let outboundBytes: Gauge
  /// Requests from a trusted proxy that does not say whose they are.
  package let withoutAddress: Counter

  package init(_ registry: MetricsRegistry) {
    refused = Self.counters(
      registry, "callmesh_connections_refused_total",
      "Connections that the edge did not take or keep, by reason.", label: "reason")
    limited = Self.counters(
      registry, "callmesh_edge_limited_total",
      "Times that a peer reached a limit on its connection, by limit.", label: "limit")
    connectionsMax = registry.gauge("callmesh_edge_connections_max", "Sockets that may be open.")
    unattached = registry.gauge(
      "callmesh_edge_connections_unattached", "Open sockets on which no device has attached.")
    addresses = registry.gauge(
      "callmesh_edge_addresses", "Addresses that have connections and are limited.")
    addressRates = registry.gauge(
      "callmesh_edge_address_rates", "Addresses whose rates of requests are counted.")
    addressRatesForgotten = registry.counter(
      "callmesh_edge_address_rates_forgotten_total",
      "Addresses whose rates were forgotten because too many others sent requests.")
    unfinishedBytes = registry.gauge(
      "callmesh_edge_unfinished_bytes", "Bytes of messages that are not whole yet.")
    outboundBytes = registry.gauge(
      "callmesh_edge_outbound_waiting_bytes", "Bytes that wait for slow devices.")
    withoutAddress = registry.counter(
      "callmesh_edge_forwarded_without_address_total",
      "Requests from a trusted proxy that did not say whose they are: no limit per address holds.")
  }

  package func refuse(_ refusal: ConnectionRefusal) { refused[refusal]?.increment() }
  package func limit(_ limit: PeerLimit) { limited[limit]?.increment() }
  package func count(_ refusal: ConnectionRefusal) -> UInt64 { refused[refusal]?.value ?? 0 }
  package func count(_ limit: PeerLimit) -> UInt64 { limited[limit]?.value ?? 0 }

  private static func counters<Reason: CaseIterable & Hashable & RawRepresentable<String>>(
    _ registry: MetricsRegistry, _ name: String, _ help: String, label: String
  ) -> [Reason: Counter] {
    Dictionary(
      uniqueKeysWithValues: Reason.allCases.map {
        ($0, registry.counter(name, help, labels: [(label, $0.rawValue)]))
      })
  }
}
