// Foundation on Linux has `URLSessionWebSocketTask` only where its libcurl was built with WebSockets, and without the
// system's certificates; use `NIOTransport` there.
#if canImport(Darwin)
  public import Foundation
  internal import Synchronization

  /// Opens WebSockets with the system's `URLSession`, which follows the system's proxies, certificates and VPNs. An app
  /// that uses it needs no NIO.
  public final class URLSessionTransport: Transport {
    private let session: URLSession
    private let router = TaskRouter()

    /// - Parameter configuration: the session's configuration. Its time limits should be longer than the device's.
    public init(configuration: URLSessionConfiguration = .ephemeral) {
      session = URLSession(configuration: configuration, delegate: router, delegateQueue: nil)
    }

    deinit { session.finishTasksAndInvalidate() }

    public func connect(
      to url: String, subprotocol: String, report: @escaping @Sendable (SocketEvent) -> Void
    ) -> any Socket {
      guard let address = URL(string: url) else {
        Task { report(.closed(.failed("\(url) is not the address of an edge"))) }
        return NoSocket()
      }
      let task = session.webSocketTask(with: address, protocols: [subprotocol])
      task.maximumMessageSize = messageBytesMax
      let socket = URLSessionSocket(task, subprotocol, report)
      router.add(socket, for: task)
      task.resume()
      return socket
    }
  }

  /// A socket to an address that is none.
  private struct NoSocket: Socket {
    func send(_ message: SocketMessage) {}
    func close(code: UInt16?) {}
  }

  /// One task. The session's delegate queue, which is serial, and the task's callbacks tell it what happens.
  private final class URLSessionSocket: Socket {
    private let task: URLSessionWebSocketTask
    private let subprotocol: String
    private let report: @Sendable (SocketEvent) -> Void
    private let isOver = Mutex(false)

    init(
      _ task: URLSessionWebSocketTask, _ subprotocol: String,
      _ report: @escaping @Sendable (SocketEvent) -> Void
    ) {
      (self.task, self.subprotocol, self.report) = (task, subprotocol, report)
    }

    /// The task keeps the order of messages.
    func send(_ message: SocketMessage) {
      let message: URLSessionWebSocketTask.Message =
        switch message {
        case .text(let text): .string(text)
        case .binary(let bytes): .data(Data(bytes))
        }
      // Where it fails, the delegate says how the task ended.
      task.send(message) { _ in }
    }

    func close(code: UInt16?) {
      isOver.withLock { $0 = true }
      guard let code else { return task.cancel() }
      // Codes without a name there are not sent: the edge then sees a normal closure.
      task.cancel(
        with: URLSessionWebSocketTask.CloseCode(rawValue: Int(code)) ?? .normalClosure, reason: nil)
    }

    func opened(_ chosen: String?) {
      guard chosen == subprotocol else {
        task.cancel()
        return end(.failed("subprotocol not accepted"))
      }
      guard !isOver.withLock({ $0 }) else { return }
      report(.opened)
      receive()
    }

    /// One message at a time, so that they stay in order.
    private func receive() {
      task.receive { [weak self] result in
        guard let self, !isOver.withLock({ $0 }) else { return }
        switch result {
        case .success(.string(let text)): report(.message(.text(text)))
        case .success(.data(let data)): report(.message(.binary(Array(data))))
        case .success: return end(.failed("a message of an unknown kind"))
        // The delegate says how it ended.
        case .failure: return
        }
        receive()
      }
    }

    func closed(_ code: Int) { end(.code(UInt16(clamping: code))) }

    func completed(_ error: (any Error)?) {
      let code = (error as? URLError)?.code
      switch code {
      case .serverCertificateUntrusted, .serverCertificateHasBadDate,
        .serverCertificateHasUnknownRoot, .serverCertificateNotYetValid, .secureConnectionFailed:
        end(.notTrusted("TLS: \(error?.localizedDescription ?? "")"))
      default: end(.failed(error?.localizedDescription ?? "end of stream"))
      }
    }

    private func end(_ end: SocketEnd) {
      let isFirst = isOver.withLock { isOver in
        defer { isOver = true }
        return !isOver
      }
      if isFirst { report(.closed(end)) }
    }
  }

  /// The session's delegate: gives each event to the socket of its task.
  private final class TaskRouter: NSObject, URLSessionWebSocketDelegate {
    private let sockets = Mutex<[Int: URLSessionSocket]>([:])

    func add(_ socket: URLSessionSocket, for task: URLSessionTask) {
      sockets.withLock { $0[task.taskIdentifier] = socket }
    }

    private func socket(_ task: URLSessionTask) -> URLSessionSocket? {
      sockets.withLock { $0[task.taskIdentifier] }
    }

    func urlSession(
      _ session: URLSession, webSocketTask: URLSessionWebSocketTask,
      didOpenWithProtocol chosen: String?
    ) {
      socket(webSocketTask)?.opened(chosen)
    }

    func urlSession(
      _ session: URLSession, webSocketTask: URLSessionWebSocketTask,
      didCloseWith closeCode: URLSessionWebSocketTask.CloseCode, reason: Data?
    ) {
      socket(webSocketTask)?.closed(closeCode.rawValue)
    }

    func urlSession(
      _ session: URLSession, task: URLSessionTask, didCompleteWithError error: (any Error)?
    ) {
      sockets.withLock { $0.removeValue(forKey: task.taskIdentifier) }?.completed(error)
    }
  }
#endif
