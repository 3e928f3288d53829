internal import CallBus
internal import Synchronization

/// Shuts down a connection whose server stops answering during the handshake.
///
/// Before 3.8 the library has no deadline for a server that sends its INFO and nothing else: it spins, and its
/// buffer grows, until the socket breaks (nats.c issue 706). It does not expose the socket before it is connected,
/// so the watch searches the sockets of the process: for a TCP connection opened after the watch began, to the
/// server's port, with the library's linger option, that belongs to no link and is found twice.
final class HandshakeWatch: Sendable {
  private let port: UInt16
  private let former: Set<ProcessSocket>
  /// The time between two searches. Longer than the library waits for what it has a deadline for.
  private let interval: Duration
  private let signal = ThreadSignal()
  private let isOver = Atomic(false)
  private let timedOut = Atomic(false)

  private static let defaultPort: UInt16 = 4222

  /// - Parameters:
  ///   - server: its URL.
  ///   - connectTimeout: the library's.
  init(server: String, connectTimeout: Duration) {
    port = ServerGreeting.split(server).flatMap { UInt16($0.port) } ?? Self.defaultPort
    former = ProcessSocket.ofLibrary(to: port)
    interval = connectTimeout + .milliseconds(500)
    startThread(named: "nats-watch") { [self] in run() }
  }

  /// Called when the library has connected or failed to.
  func end() {
    isOver.store(true, ordering: .releasing)
    signal.signal()
  }

  /// Whether the watch has shut down a connection.
  var hasTimedOut: Bool { timedOut.load(ordering: .acquiring) }

  private func run() {
    var seen: Set<ProcessSocket> = []
    while true {
      signal.wait(atMost: interval)
      guard !isOver.load(ordering: .acquiring) else { return }
      let found = ProcessSocket.ofLibrary(to: port).subtracting(former)
      for socket in found where seen.contains(socket) {
        // Before the shutdown, on which the library returns at once.
        timedOut.store(true, ordering: .releasing)
        socket.shutDown()
      }
      seen = found
    }
  }
}
