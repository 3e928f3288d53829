/// The attacks of callload. Raw values are the names on the command line and in the report.
package enum Attack: String, CaseIterable, Sendable {
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

  /// An attack's acts, rate and connections. The rate does not depend on the edges, except for full sockets.
  package struct Facts: Sendable {
    package var summary: String
    /// The rate of `unit`, of all connections together.
    package var perSecond: Double
    package var unit: String
    /// Open at the same time; one that ends is opened again a second later. 0: none stays open.
    package var connections: Int
    /// Connections begun in a second, at most.
    package var opensPerSecond: Double
  }

  package var facts: Facts {
    func facts(
      _ summary: String, _ perSecond: Double, _ unit: String, on connections: Int,
      opens: Double = 100
    ) -> Facts {
      Facts(
        summary: summary, perSecond: perSecond, unit: unit, connections: connections,
        opensPerSecond: opens)
    }
    return switch self {
    case .pipelinedHTTP:
      facts("GET /metrics and /healthz, answers not read", 4_000, "requests", on: 4)
    case .pingFlood: facts("WebSocket pings before attach, pongs not read", 600_000, "pings", on: 2)
    case .halfFrames:
      facts("frames of 120 kB, half sent at once, the rest byte by byte", 200, "bytes", on: 200)
    case .slowLoris: facts("HTTP requests that come byte by byte", 300, "bytes", on: 300)
    case .connectionFlood:
      facts("TCP connections that send nothing", 500, "connections", on: 3_000, opens: 500)
    case .handshakeFlood: facts("WebSocket handshakes, closed at once", 200, "handshakes", on: 0)
    case .badTokens: facts("HTTP requests with forged ES256 signatures", 2_000, "requests", on: 4)
    case .sessionFlood:
      facts(
        "1,000 devices of one user; every 4 s all disconnect together", 250, "attaches", on: 1_000,
        opens: 250)
    case .placeFlood:
      facts("calls from 10 users to users that do not exist", 1_000, "calls", on: 50)
    case .ringFlood:
      facts("100 users call one user, whose devices acknowledge nothing", 100, "calls", on: 102)
    case .hugeDescriptions:
      facts("calls of one user with descriptions of 60 kB", 200, "calls", on: 60)
    case .candidateFlood:
      facts("candidates of 8 kB in answered calls, never acknowledged", 400, "candidates", on: 40)
    case .garbage: facts("mutated frames, half in protobuf, half in JSON", 500, "frames", on: 20)
    case .appFlood:
      facts(
        "300 users of another app call each other with descriptions of 4 kB, and register", 1_000,
        "calls", on: 300)
    }
  }

  /// Devices that attacks may leave registered, at most: 200 of `app-flood`, 20 of `garbage`.
  package static let registrationsMax = 220
}
