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
    /// How often there was a reason to wait.
    var count = 0
    var listener: ProbeListener?
    var isOver = false
  }
  private let state = Mutex(State())
  private let host: String
  private let port: Int
  private let logger: Logger

  /// - Parameter port: where it answers; 0: nowhere.
  init(host: String, port: Int, logger: Logger) {
    self.host = host
    self.port = port
    self.logger = logger
  }

  /// Asks again what may pass, for as long as a node may wait.
  /// - Parameters:
  ///   - what: what is waited for, as the log and `/readyz` name it.
  ///   - address: where it is, for the log only.
  func retryPolicy(for what: String, at address: String? = nil, limit: Span) -> StoreRetryPolicy {
    StoreRetryPolicy(
      clock: ClusterClock(wallMicroseconds: 0), limit: limit, pause: .milliseconds(250),
      longestPause: .seconds(2)
    ) { self.waits(for: what, at: address, "\($0)") }
  }

  /// Notes why the node waits. The first time, it begins to answer.
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
    // Less and less often.
    guard isNews || count & (count - 1) == 0 else { return }
    var metadata: Logger.Metadata = .keys([.error: "\(reason)", .count: "\(count)"])
    if let address { metadata[LogKey.nats.rawValue] = "\(address)" }
    logger.notice("waits for \(what)", metadata: metadata)
  }

  /// Gives the port back, for the node's own server.
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
