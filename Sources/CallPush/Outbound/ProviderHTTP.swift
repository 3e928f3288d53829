internal import AsyncHTTPClient
internal import CallCore
internal import NIOCore
internal import NIOHTTP1
internal import NIOPosix
internal import NIOSSL
internal import Synchronization

#if canImport(Glibc)
  internal import Glibc
#elseif canImport(Musl)
  internal import Musl
#else
  internal import Darwin
#endif

/// Sends requests to a provider: POST with a short answer, over pooled connections, with HTTP/2 if the provider
/// supports it.
///
/// Follows no redirect, and reads no more than `answerBytesMax`. Its client begins with the first request, and is on one
/// event loop: AsyncHTTPClient 1.37 traps where a server answers before the end of a request is noted, and the connection
/// closes while that note is on its way between the loops of the request and of its connection.
final class ProviderHTTP: Sendable {
  static let answerBytesMax = 64 * 1024

  private struct State {
    var client: HTTPClient?
    var isClosed = false
  }
  private let state = Mutex(State())
  private let configuration: HTTPClient.Configuration
  private let group: (any EventLoopGroup)?

  /// - Parameters:
  ///   - caFile: PEM certificates that are trusted instead of the system's; nil: the system's.
  ///   - group: has the event loop; nil: the process's event loops.
  init(caFile: String?, limits: SenderLimits, group: (any EventLoopGroup)? = nil) {
    var tls = TLSConfiguration.makeClientConfiguration()
    if let caFile { tls.trustRoots = .file(caFile) }
    var configuration = HTTPClient.Configuration(
      tlsConfiguration: tls, redirectConfiguration: .disallow,
      timeout: .init(connect: .microseconds(limits.connectTimeout.microseconds)),
      connectionPool: .init(
        idleTimeout: .microseconds(limits.idleTimeout.microseconds),
        concurrentHTTP1ConnectionsPerHostSoftLimit: min(limits.inFlightMax, 64)))
    configuration.httpVersion = .automatic
    // `PushAttempts` decides on attempts and pauses.
    configuration.connectionPool.retryConnectionEstablishment = false
    let silence = limits.attemptTimeout
    configuration.http2ConnectionDebugInitializer = { Self.giveUpSilence($0, after: silence) }
    self.configuration = configuration
    self.group = group
  }

  /// nil: it is closed.
  private var client: HTTPClient? {
    state.withLock { state in
      if state.client == nil, !state.isClosed {
        let loop = (group ?? MultiThreadedEventLoopGroup.singleton).next()
        state.client = HTTPClient(
          eventLoopGroupProvider: .shared(loop), configuration: configuration)
      }
      return state.client
    }
  }

  /// The pool sends no PING, so a connection with a dead peer would swallow one request after the other. The system
  /// closes it when sent bytes are unacknowledged for this long.
  private static func giveUpSilence(
    _ channel: any Channel, after silence: Span
  ) -> EventLoopFuture<Void> {
    #if os(Linux)
      let tcp = NIOBSDSocket.OptionLevel(rawValue: 6)
      let userTimeout = NIOBSDSocket.Option(rawValue: 18)
      let milliseconds = Int(silence.microseconds / 1000)
      return channel.setOption(
        ChannelOptions.Types.SocketOption(level: tcp, name: userTimeout),
        value: max(1000, milliseconds)
      ).recover { _ in }
    #else
      return channel.eventLoop.makeSucceededVoidFuture()
    #endif
  }

  /// - Parameter within: the time after which a request without a complete answer is given up.
  func post(
    _ url: String, headers: [(String, String)], body: [UInt8], within: Span
  ) async -> ProviderReply {
    guard let client else { return .notSent("closed") }
    let request: HTTPClient.Request
    do {
      request = try HTTPClient.Request(
        url: url, method: .POST, headers: HTTPHeaders(headers), body: .bytes(body))
    } catch {
      return .notSent("the address is not usable")
    }
    let task = client.execute(
      request: request,
      delegate: ResponseAccumulator(request: request, maxBodySize: Self.answerBytesMax),
      deadline: .now() + .microseconds(within.microseconds))
    do {
      let response = try await withTaskCancellationHandler {
        try await task.get()
      } onCancel: {
        task.cancel()
      }
      return .answer(Self.answer(response))
    } catch {
      return Self.reply(to: error)
    }
  }

  private static func answer(_ response: HTTPClient.Response) -> ProviderAnswer {
    let named = response.headers.map { ($0.name.lowercased(), $0.value) }
    let headers = Dictionary(named) { first, _ in first }
    let body = response.body.map { Array($0.readableBytesView) } ?? []
    return ProviderAnswer(status: Int(response.status.code), headers: headers, body: body)
  }

  /// A request is certainly not sent if it failed before there was a connection. No text of an error is passed on,
  /// since it may contain an address of a device.
  private static func reply(to error: any Error) -> ProviderReply {
    if let error = error as? HTTPClientError {
      switch error {
      case .connectTimeout, .getConnectionFromPoolTimeout, .tlsHandshakeTimeout:
        return .notSent("no connection in time")
      case .alreadyShutdown, .shutdownUnsupported: return .notSent("closed")
      case .deadlineExceeded, .readTimeout: return .unknown("no answer in time")
      default: return .unknown("connection lost (\(error.shortDescription))")
      }
    }
    switch error {
    case is NIOConnectionError, ChannelError.connectTimeout: return .notSent("no connection")
    case let error as IOError where neverConnected.contains(error.errnoCode):
      return .notSent("no connection")
    case NIOSSLError.uncleanShutdown: return .unknown("connection lost")
    case is NIOSSLError, is NIOSSLExtraError: return .notSent("no TLS connection")
    case is ResponseAccumulator.ResponseTooBigError: return .unknown("the answer is too long")
    default: return .unknown("connection lost (\(type(of: error)))")
    }
  }

  /// Errors of the system that occur before there is a connection only.
  private static let neverConnected: Set<CInt> = [ECONNREFUSED, EHOSTUNREACH, ENETUNREACH]

  /// Cancels the requests under way.
  func close() async {
    let client = state.withLock { state in
      state.isClosed = true
      return state.client
    }
    try? await client?.shutdown()
  }
}

/// A provider's answer to one request.
package struct ProviderAnswer: Sendable, Equatable {
  package var status: Int
  /// Names are in lower case. Of a repeated header the first one counts.
  package var headers: [String: String]
  package var body: [UInt8]

  package init(status: Int, headers: [String: String] = [:], body: [UInt8] = []) {
    self.status = status
    self.headers = headers
    self.body = body
  }
}

/// The result of one request.
package enum ProviderReply: Sendable, Equatable {
  case answer(ProviderAnswer)
  /// The request was not sent: a retry cannot deliver twice.
  case notSent(String)
  /// The request was or may have been sent, and no answer came: the provider may have it.
  case unknown(String)
}
