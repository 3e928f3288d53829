internal import AsyncHTTPClient
internal import CallAuth
package import CallCore
package import NIOCore
internal import NIOHTTP1
internal import NIOHTTP2
internal import NIOPosix
internal import NIOSSL
internal import Synchronization

/// Sends questions to the servers of apps.
package protocol HookClient: Sendable {
  /// - Parameter within: the time after which the question is given up; the result comes by then.
  /// - Returns: the body of a 2xx answer, on `eventLoop`.
  func post(
    _ url: String, headers: [(String, String)], body: [UInt8], within: Span,
    on eventLoop: any EventLoop
  ) -> EventLoopFuture<Result<[UInt8], HookFailure>>

  /// Cancels the requests under way. Nothing is posted afterwards.
  func close() async
}

/// Over pooled connections, with HTTP/2 where the server has it. It verifies certificates with the system's
/// authorities, follows no redirect, uses no proxy, and reads no more than `HookAnswer.bytesMax`. All is on one event loop,
/// since AsyncHTTPClient 1.37 traps where a server answers before the end of a question is noted, and the connection
/// closes while that note is on its way between two loops.
package final class HookHTTPClient: HookClient {
  private enum State {
    case unused
    case open(HTTPClient)
    case closed
  }
  private let state = Mutex(State.unused)
  private let authorities: String?

  /// Makes no connection, and no thread, before the first question.
  /// - Parameter authorities: a file (PEM) of those that are trusted in place of the system's.
  package init(authorities: String? = nil) { self.authorities = authorities }

  private func client() -> HTTPClient? {
    state.withLock { state in
      switch state {
      case .closed: return nil
      case .open(let client): return client
      case .unused:
        let client = Self.make(authorities)
        state = .open(client)
        return client
      }
    }
  }

  private static func make(_ authorities: String?) -> HTTPClient {
    var tls = TLSConfiguration.makeClientConfiguration()
    if let authorities { tls.trustRoots = .file(authorities) }
    var configuration = HTTPClient.Configuration(
      tlsConfiguration: tls, redirectConfiguration: .disallow,
      timeout: .init(connect: .seconds(3)),
      connectionPool: .init(
        idleTimeout: .seconds(60),
        // `HookGate` has the limit, for each app.
        concurrentHTTP1ConnectionsPerHostSoftLimit: HookGate.outstandingMax))
    configuration.httpVersion = .automatic
    configuration.connectionPool.retryConnectionEstablishment = false
    let loop = MultiThreadedEventLoopGroup.singleton.next()
    return HTTPClient(eventLoopGroupProvider: .shared(loop), configuration: configuration)
  }

  package func post(
    _ url: String, headers: [(String, String)], body: [UInt8], within: Span,
    on eventLoop: any EventLoop
  ) -> EventLoopFuture<Result<[UInt8], HookFailure>> {
    guard let client = client(),
      let request = try? HTTPClient.Request(
        url: url, method: .POST, headers: HTTPHeaders(headers), body: .bytes(body))
    else { return eventLoop.makeSucceededFuture(.failure(.unreachable)) }
    return Self.post(
      request, by: client, deadline: .now() + .microseconds(within.microseconds), attempt: 1
    ).hop(to: eventLoop)
  }

  /// Attempts of a question whose connection is lost. Servers close connections that were idle for a while (Node.js
  /// after 5 s), and a question that was under way at that moment was not read: without another attempt, a caller that
  /// the app blocks would ring. A question that was read changes nothing, so it may be asked again.
  private static let attemptsMax = 3

  private static func post(
    _ request: HTTPClient.Request, by client: HTTPClient, deadline: NIODeadline, attempt: Int
  ) -> EventLoopFuture<Result<[UInt8], HookFailure>> {
    let task = client.execute(
      request: request,
      delegate: ResponseAccumulator(request: request, maxBodySize: HookAnswer.bytesMax),
      deadline: deadline)
    let answer = task.futureResult.map { response -> Result<[UInt8], HookFailure> in
      let status = Int(response.status.code)
      guard 200...299 ~= status else { return .failure(.status(status)) }
      return .success(response.body.map { Array($0.readableBytesView) } ?? [])
    }
    return answer.flatMapError { error in
      guard attempt < attemptsMax, isLostConnection(error), .now() < deadline else {
        return answer.eventLoop.makeSucceededFuture(.failure(failure(error)))
      }
      return post(request, by: client, deadline: deadline, attempt: attempt + 1)
        .hop(to: answer.eventLoop)
    }
  }

  /// Whether the connection was closed or reset before the answer; with HTTP/2, the question's stream. A server that
  /// closes such a connection resets its streams, or names the last one that it has read, and the pool cancels what it
  /// was about to send on it.
  private static func isLostConnection(_ error: any Error) -> Bool {
    switch error {
    case let error as HTTPClientError: error == .remoteConnectionClosed || error == .cancelled
    case is any NIOHTTP2Error: true
    case is IOError: true
    case NIOSSLError.uncleanShutdown, ChannelError.ioOnClosedChannel, ChannelError.eof: true
    default: false
    }
  }

  private static func failure(_ error: any Error) -> HookFailure {
    if error is ResponseAccumulator.ResponseTooBigError { return .tooLarge }
    if case ChannelError.connectTimeout = error { return .timeout }
    switch error as? HTTPClientError {
    case .connectTimeout, .getConnectionFromPoolTimeout, .tlsHandshakeTimeout, .deadlineExceeded,
      .readTimeout:
      return .timeout
    default: return .unreachable
    }
  }

  package func close() async {
    let client = state.withLock { state -> HTTPClient? in
      defer { state = .closed }
      if case .open(let client) = state { return client }
      return nil
    }
    try? await client?.shutdown()
  }
}
