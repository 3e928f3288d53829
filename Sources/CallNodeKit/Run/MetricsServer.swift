package import CallEdge
internal import CallTelemetry
internal import Logging
internal import NIOHTTP1
internal import ServiceLifecycle

/// `/metrics`, `/healthz` and `/readyz` of a node, at its operators' port.
struct MetricsServer: Service {
  var host: String
  var port: Int
  var metrics: MetricsRegistry
  var readiness: @Sendable () -> Readiness
  var logger: Logger

  func run() async throws {
    let listener = ProbeListener(host: host, port: port) { method, path in
      switch (method, path) {
      case (.GET, "/metrics"):
        ProbeAnswer(contentType: "text/plain; version=0.0.4", text: metrics.render())
      case (.GET, "/healthz"): .alive
      case (.GET, "/readyz"): .readiness(readiness())
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
  package static var alive: ProbeAnswer { ProbeAnswer(text: "{\"status\":\"ok\"}\n") }

  package static func readiness(_ readiness: Readiness) -> ProbeAnswer {
    let missing = readiness.missing.map { "\"\(JSONText.escaped($0))\"" }.joined(separator: ",")
    let ownerless = readiness.shardsWithoutOwner.map { "\($0)" }.joined(separator: ",")
    let text =
      #"{"ready":\#(readiness.isReady),"missing":[\#(missing)],"shardsWithoutOwner":[\#(ownerless)]}"#
    return readiness.isReady
      ? ProbeAnswer(text: text + "\n")
      : ProbeAnswer(status: .serviceUnavailable, text: text + "\n", retryAfter: 1)
  }
}
