internal import CallBus
internal import CallTelemetry
internal import Logging
internal import ServiceLifecycle
internal import Synchronization

/// Ends a node whose bus is over for good.
///
/// A connection that breaks comes back by itself, however long that takes. But the library gives one up
/// when the server refuses it twice, as it does once the credentials have changed. A node that stays
/// then hears nothing and says nothing, and looks as if it lived: better that it ends, with a word for
/// the operator, and is started again by whoever watches it.
package final class BusWatch: Service {
  private let closed = Inbox<Never>(capacity: 1)
  /// What the bus reported last.
  private let reason = Mutex("")
  private let report: @Sendable (_ reason: String) -> Void

  /// - Parameter report: hears why the node ends.
  package init(report: @escaping @Sendable (_ reason: String) -> Void) { self.report = report }

  /// The bus complains; it may go on.
  package func failed(_ text: String) { reason.withLock { $0 = text } }

  /// The bus is closed, by the node itself or for good.
  package func hasClosed() { closed.close() }

  /// - Throws: `StartError` where the bus is closed before the node is asked to go.
  package func run() async throws {
    do {
      let goes: Void? = try await closed.unlessClosed { try await gracefulShutdown() }
      guard goes == nil, closed.isClosed else { return }
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
