internal import CallBus
internal import CallCore
internal import CallEdge
internal import CallTelemetry
internal import Logging
internal import NIOHTTP1
internal import Synchronization

/// Reports that a node has to wait before it can serve: in the log, and on its operators' port, which answers
/// `/healthz` and `/readyz` meanwhile.
final class StartWait: Sendable {
  private struct State {
    var reason = ""
    /// How often the present reason was reported.
    var count = 0
    var listener: ProbeListener?
    var isOver = false
  }
  private let state = Mutex(State())
  private let host: String
  private let port: Int
  private let logger: Logger

  /// - Parameter port: the operators' port; 0: none.
  init(host: String, port: Int, logger: Logger) {
    self.host = host
    self.port = port
    self.logger = logger
  }

  /// Returns a policy that retries after transient failures, for as long as a node may wait.
  /// - Parameters:
  ///   - what: the name of the dependency in the log and in `/readyz`.
  ///   - address: the dependency's address, for the log only.
  func retryPolicy(for what: String, at address: String? = nil, limit: Span) -> StoreRetryPolicy {
    StoreRetryPolicy(
      clock: ClusterClock(wallMicroseconds: 0), limit: limit, pause: .milliseconds(250),
      longestPause: .seconds(2)
    ) { self.waits(for: what, at: address, "\($0)") }
  }

  /// Records why the node waits. The first call opens the operators' port.
  func waits(for what: String, at address: String? = nil, _ reason: String) {
    let (isNews, count) = state.withLock { state in
      guard !state.isOver else { return (false, 0) }
      if state.listener == nil, port > 0 { state.listener = listen() }
      let text = "waits for \(what): \(reason)"
      let isNews = state.reason != text
      state.count = isNews ? 1 : state.count + 1
      state.reason = text
      return (isNews, state.count)
    }
    // The same reason is logged less and less often.
    guard isNews || count & (count - 1) == 0 else { return }
    var metadata: Logger.Metadata = .keys([.error: "\(reason)", .count: "\(count)"])
    if let address { metadata[LogKey.nats.rawValue] = "\(address)" }
    logger.notice("waits for \(what)", metadata: metadata)
  }

  /// Closes the port, so that the node's own server can listen on it.
  func end() async {
    let listener = state.withLock { state in
      state.isOver = true
      return state.listener.take()
    }
    await listener?.close()
  }

  private func listen() -> ProbeListener {
    let listener = ProbeListener(host: host, port: port) { [weak self] _, path in
      switch path {
      case "/healthz": .alive
      case "/readyz": .readiness(Readiness(missing: [self?.reason ?? "starts"]))
      default:
        ProbeAnswer(
          status: .serviceUnavailable, contentType: "text/plain",
          text: "This node does not serve yet. Try another one, or again.\n", retryAfter: 1)
      }
    }
    listener.onFailure { [logger, host, port] error in
      logger.warning(
        "nothing can be answered while the node waits",
        metadata: .keys([.host: "\(host)", .port: "\(port)", .error: "\(error)"]))
    }
    return listener
  }

  private var reason: String { state.withLock { $0.reason } }
}
