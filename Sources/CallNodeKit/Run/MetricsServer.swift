internal import CallTelemetry
internal import Logging
internal import NIOHTTP1
internal import ServiceLifecycle

/// `/metrics`, `/healthz` and `/readyz` of a node that listens to no devices.
struct MetricsServer: Service {
  var host: String
  var port: Int
  var metrics: MetricsRegistry
  /// Why the node cannot do its work; nil: it can.
  var missing: @Sendable () -> String?
  var logger: Logger

  func run() async throws {
    let listener = ProbeListener(host: host, port: port) { method, path in
      switch (method, path) {
      case (.GET, "/metrics"):
        ProbeAnswer(contentType: "text/plain; version=0.0.4", text: metrics.render())
      case (.GET, "/healthz"): .alive
      case (.GET, "/readyz"): .readiness(missing: missing())
      case (_, "/metrics"), (_, "/healthz"), (_, "/readyz"):
        ProbeAnswer(status: .methodNotAllowed, contentType: "text/plain", text: "Only GET.\n")
      default:
        ProbeAnswer(
          status: .notFound, contentType: "text/plain",
          text: "Here are /metrics, /healthz and /readyz.\n")
      }
    }
    do {
      let bound = try await listener.boundPort ?? port
      logger.info(
        "metrics are served", metadata: .keys([.host: "\(host)", .port: "\(bound)"]))
      // A node that hands its shards over is still worth watching: this ends with the group.
      try await gracefulShutdown()
    } catch is CancellationError {
    } catch {
      await listener.close()
      throw error
    }
    await listener.close()
  }
}

extension ProbeAnswer {
  static var alive: ProbeAnswer { ProbeAnswer(text: "{\"status\":\"ok\"}\n") }

  /// As an edge answers `/readyz`.
  static func readiness(missing: String?) -> ProbeAnswer {
    guard let missing else {
      return ProbeAnswer(text: #"{"ready":true,"missing":[],"shardsWithoutOwner":[]}"# + "\n")
    }
    return ProbeAnswer(
      status: .serviceUnavailable,
      text: #"{"ready":false,"missing":["\#(JSONText.escaped(missing))"],"shardsWithoutOwner":[]}"#
        + "\n",
      retryAfter: 1)
  }
}
