internal import AsyncHTTPClient
internal import CallCore
internal import NIOCore
internal import NIOHTTP1
internal import NIOPosix
internal import NIOSSL

#if canImport(Glibc)
  internal import Glibc
#elseif canImport(Musl)
  internal import Musl
#else
  internal import Darwin
#endif

/// Requests to a provider: POST and a short answer, over pooled connections, HTTP/2 where the provider
/// speaks it.
///
/// Follows no redirect, and reads no more than `answerBytesMax`.
final class ProviderHTTP: Sendable {
  static let answerBytesMax = 64 * 1024

  private let client: HTTPClient

  /// - Parameter caFile: PEM certificates that are trusted in place of the system's; nil: the
  ///   system's.
  init(caFile: String?, limits: SenderLimits) {
    var tls = TLSConfiguration.makeClientConfiguration()
    if let caFile { tls.trustRoots = .file(caFile) }
    var configuration = HTTPClient.Configuration(
      tlsConfiguration: tls, redirectConfiguration: .disallow,
      timeout: .init(connect: TimeAmount(limits.connectTimeout)),
      connectionPool: .init(
        idleTimeout: TimeAmount(limits.idleTimeout),
        concurrentHTTP1ConnectionsPerHostSoftLimit: min(limits.inFlightMax, 64)))
    configuration.httpVersion = .automatic
    // Attempts and pauses are ours to decide.
    configuration.connectionPool.retryConnectionEstablishment = false
    let silence = limits.attemptTimeout
    configuration.http2ConnectionDebugInitializer = { Self.giveUpSilence($0, after: silence) }
    client = HTTPClient(eventLoopGroupProvider: .singleton, configuration: configuration)
  }

  /// The pool sends no PING, so a connection whose other end is gone would swallow one request after
  /// the other: the system closes it when what we sent is unacknowledged for this long.
  private static func giveUpSilence(
    _ channel: any Channel, after silence: Duration
  ) -> EventLoopFuture<Void> {
    #if os(Linux)
      let tcp = NIOBSDSocket.OptionLevel(rawValue: 6)
      let userTimeout = NIOBSDSocket.Option(rawValue: 18)
      let milliseconds = Int(silence.components.seconds * 1000)
      return channel.setOption(
        ChannelOptions.Types.SocketOption(level: tcp, name: userTimeout),
        value: max(1000, milliseconds)
      ).recover { _ in }
    #else
      return channel.eventLoop.makeSucceededVoidFuture()
    #endif
  }

  /// - Parameter within: when no whole answer is there by then, the request is given up.
  func post(
    _ url: String, headers: [(String, String)], body: [UInt8], within: Duration
  ) async -> ProviderReply {
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
      deadline: .now() + TimeAmount(within))
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
    var headers: [String: String] = [:]
    for (name, value) in response.headers where headers[name.lowercased()] == nil {
      headers[name.lowercased()] = value
    }
    let body = response.body.map { Array($0.readableBytesView) } ?? []
    return ProviderAnswer(status: Int(response.status.code), headers: headers, body: body)
  }

  /// What is surely not sent is what failed before there was a connection. No text of an error is
  /// passed on: it may hold an address of a device.
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

  /// What the system says only before a connection is there.
  private static let neverConnected: Set<CInt> = [ECONNREFUSED, EHOSTUNREACH, ENETUNREACH]

  /// Ends what is still under way.
  func close() async { try? await client.shutdown() }
}
