/// The attacks that callload can play. Raw values are the names on the command line and in the report.
package enum Attack: String, CaseIterable, Codable, Sendable {
  case pipelinedHTTP = "pipelined-http"
  case pingFlood = "ping-flood"
  case halfFrames = "half-frames"
  case slowLoris = "slow-loris"
  case connectionFlood = "connection-flood"
  case handshakeFlood = "handshake-flood"
  case badTokens = "bad-tokens"
  case sessionFlood = "session-flood"
  case placeFlood = "place-flood"
  case ringFlood = "ring-flood"
  case hugeDescriptions = "huge-descriptions"
  case candidateFlood = "candidate-flood"
  case garbage
  case appFlood = "app-flood"

  /// What an attack does, how often, and on how many connections. It is open loop: it does not slow down
  /// where the edges do, but for what no longer fits into a socket.
  package struct Facts: Sendable {
    package var summary: String
    /// Of `unit`, together.
    package var perSecond: Double
    package var unit: String
    /// Held open at the same time; one that ends is opened again a second later. 0: none is held.
    package var connections: Int
    /// Connections begun in a second, at most.
    package var opensPerSecond: Double = 100
  }

  package var facts: Facts {
    switch self {
    case .pipelinedHTTP:
      Facts(
        summary: "GET /metrics and /healthz, answers not read", perSecond: 4_000, unit: "requests",
        connections: 4)
    case .pingFlood:
      Facts(
        summary: "WebSocket pings before attach, pongs not read", perSecond: 600_000, unit: "pings",
        connections: 2)
    case .halfFrames:
      Facts(
        summary: "frames of 120 kB, half sent at once, the rest byte by byte", perSecond: 200,
        unit: "bytes", connections: 200)
    case .slowLoris:
      Facts(
        summary: "HTTP requests that come byte by byte", perSecond: 300, unit: "bytes",
        connections: 300)
    case .connectionFlood:
      Facts(
        summary: "TCP connections that send nothing", perSecond: 500, unit: "connections",
        connections: 3_000, opensPerSecond: 500)
    case .handshakeFlood:
      Facts(
        summary: "WebSocket handshakes, closed at once", perSecond: 200, unit: "handshakes",
        connections: 0)
    case .badTokens:
      Facts(
        summary: "HTTP requests with forged ES256 signatures", perSecond: 2_000, unit: "requests",
        connections: 4)
    case .sessionFlood:
      Facts(
        summary: "1,000 devices of one user; every 4 s all disconnect together", perSecond: 250,
        unit: "attaches", connections: 1_000, opensPerSecond: 250)
    case .placeFlood:
      Facts(
        summary: "calls from 10 users to users that do not exist", perSecond: 1_000, unit: "calls",
        connections: 50)
    case .ringFlood:
      Facts(
        summary: "100 users call one user, whose devices acknowledge nothing", perSecond: 100,
        unit: "calls", connections: 102)
    case .hugeDescriptions:
      Facts(
        summary: "calls of one user with descriptions of 60 kB", perSecond: 200, unit: "calls",
        connections: 60)
    case .candidateFlood:
      Facts(
        summary: "candidates of 8 kB in answered calls, never acknowledged", perSecond: 400,
        unit: "candidates", connections: 40)
    case .garbage:
      Facts(
        summary: "mutated frames, half in protobuf, half in JSON", perSecond: 500, unit: "frames",
        connections: 20)
    case .appFlood:
      Facts(
        summary: "300 users of another app call each other with descriptions of 4 kB, and register",
        perSecond: 1_000, unit: "calls", connections: 300)
    }
  }

  /// One line of the help.
  var help: String {
    let facts = self.facts
    let on =
      facts.connections > 0 ? " on \(Units.count(facts.connections)) connections" : ""
    return "\(facts.summary): \(Units.count(Int(facts.perSecond))) \(facts.unit)/s\(on)"
  }

  /// Devices that attacks may leave registered, at most: 200 of `app-flood`, 20 of `garbage`.
  static let registrationsMax = 220
}
