internal import CallBus
internal import CallTelemetry
internal import Logging
internal import ServiceLifecycle
internal import Synchronization

/// Ends a node whose bus is closed for good.
///
/// The library reconnects for as long as it takes, but gives up when the server refuses the node twice, as it
/// does once the credentials have changed. The node would then run on, cut off from the cluster. It ends
/// with an error for the operator, and its supervisor starts it again.
package final class BusWatch: Service {
  private let closed = Inbox<Never>(capacity: 1)
  /// What the bus reported last.
  private let reason = Mutex("")
  private let report: @Sendable (_ reason: String) -> Void

  /// - Parameter report: is called with why the node ends.
  package init(report: @escaping @Sendable (_ reason: String) -> Void) { self.report = report }

  /// The bus reports an error; it may recover.
  package func failed(_ text: String) { reason.withLock { $0 = text } }

  /// The bus is closed, by the node itself or for good.
  package func hasClosed() { closed.close() }

  /// - Throws: `StartError` where the bus is closed before the node shuts down.
  package func run() async throws {
    do {
      let isShutDown: Void? = try await closed.unlessClosed { try await gracefulShutdown() }
      guard isShutDown == nil, closed.isClosed else { return }
    } catch is CancellationError {
      return
    }
    let reason = reason.withLock { $0 }
    report(reason)
    throw StartError.failure(
      """
      NATS has ended the connection for good\(reason.isEmpty ? "" : ": \(reason)").
        Have the credentials changed? natsUser and natsPasswordFile, or natsCredentials, say who this \
      node is.
      """)
  }
}
