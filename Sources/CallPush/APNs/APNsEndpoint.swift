internal import CallCore
internal import NIOCore
package import NIOHTTP2
internal import NIOPosix
internal import NIOSSL
internal import NIOTLS

/// Where a pool connects, and how: TLS 1.2 or newer, and nothing but HTTP/2 over it.
package struct APNsEndpoint: Sendable {
  package let host: String
  package let port: Int
  /// What stands in `:authority`.
  package let authority: String
  /// Nil where the host is an address: then the certificate must name that.
  private let serverName: String?
  private let tls: NIOSSLContext
  private let connectTimeout: Span

  package init(_ configuration: APNsConfiguration) throws(APNsConfigurationError) {
    host = configuration.host ?? configuration.environment.host
    port = configuration.port
    connectTimeout = configuration.limits.connectTimeout
    let isAddress = (try? SocketAddress(ipAddress: host, port: port)) != nil
    serverName = configuration.tlsServerName ?? (isAddress ? nil : host)
    authority = port == 443 ? host : "\(host):\(port)"

    var settings = TLSConfiguration.makeClientConfiguration()
    settings.minimumTLSVersion = .tlsv12
    settings.applicationProtocols = ["h2"]
    do {
      var roots: [NIOSSLCertificate] = []
      for pem in configuration.extraTrustRootsPEM {
        let certificates = try NIOSSLCertificate.fromPEMBytes(Array(pem.utf8))
        guard !certificates.isEmpty else { throw APNsConfigurationError.badTrustRoot("") }
        roots += certificates
      }
      if !roots.isEmpty { settings.additionalTrustRoots = [.certificates(roots)] }
      tls = try NIOSSLContext(configuration: settings)
    } catch {
      throw .badTrustRoot(configuration.name)
    }
    // What a name must be for TLS, said now rather than at each attempt to connect.
    guard (try? NIOSSLClientHandler(context: tls, serverHostname: serverName)) != nil else {
      throw .badServerName(configuration.name)
    }
  }

  /// Looks the name up (each time anew), connects to the first address that answers, and speaks TLS.
  /// To be called on `eventLoop`; events come there, and at least one of them is `ended`.
  ///
  /// - Parameter onEvent: what the connection tells.
  /// - Returns: the channel, before TLS is up.
  func connect(
    on eventLoop: any EventLoop, handler: APNsChannelHandler,
    onEvent: @escaping (APNsChannelEvent) -> Void
  ) -> EventLoopFuture<any Channel> {
    let parts = NIOLoopBound((handler: handler, onEvent: onEvent), eventLoop: eventLoop)
    return ClientBootstrap(group: eventLoop)
      .connectTimeout(.microseconds(connectTimeout.microseconds))
      .channelOption(.socketOption(.tcp_nodelay), value: 1)
      .channelInitializer { channel in
        channel.eventLoop.makeCompletedFuture {
          let pipeline = channel.pipeline.syncOperations
          try pipeline.addHandler(NIOSSLClientHandler(context: tls, serverHostname: serverName))
          try pipeline.addHandler(
            APNsHandshakeHandler(last: parts.value.handler, onEvent: parts.value.onEvent))
        }
      }
      .connect(host: host, port: port)
  }
}

/// Waits for TLS and puts HTTP/2 behind it, or closes.
final class APNsHandshakeHandler: ChannelInboundHandler {
  typealias InboundIn = ByteBuffer

  private let last: APNsChannelHandler
  private let onEvent: (APNsChannelEvent) -> Void
  private var isUp = false

  init(last: APNsChannelHandler, onEvent: @escaping (APNsChannelEvent) -> Void) {
    self.last = last
    self.onEvent = onEvent
  }

  func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
    if case .handshakeCompleted(let chosen)? = event as? TLSUserEvent, !isUp {
      guard chosen == "h2" else {
        onEvent(.ended("the peer does not choose h2 (ALPN)"))
        context.close(promise: nil)
        return
      }
      isUp = true
      onEvent(.connected)
      do {
        try context.pipeline.syncOperations.addHandlers([APNsHTTP2.handler(), last])
      } catch {
        onEvent(.ended("\(type(of: error))"))
        context.close(promise: nil)
      }
    }
    context.fireUserInboundEventTriggered(event)
  }

  func errorCaught(context: ChannelHandlerContext, error: any Error) {
    if isUp {
      context.fireErrorCaught(error)
    } else {
      onEvent(.ended("TLS: \(error)"))
      context.close(promise: nil)
    }
  }

  func channelInactive(context: ChannelHandlerContext) {
    if !isUp { onEvent(.ended("closed before TLS was up")) }
    context.fireChannelInactive()
  }
}

package enum APNsHTTP2 {
  /// swift-nio-http2 in the role of the client, with the peer's rates left to the peer: its limits
  /// are for servers that strangers connect to. A burst of refused tokens flips APNs' SETTINGS, and
  /// resets come in storms; at the limit the handler would say GOAWAY and never recover.
  package static func handler() -> NIOHTTP2Handler {
    var connection = NIOHTTP2Handler.ConnectionConfiguration()
    connection.initialSettings = [
      HTTP2Setting(parameter: .enablePush, value: 0),
      HTTP2Setting(parameter: .maxHeaderListSize, value: 16_384),
    ]
    connection.controlFrameRateLimit.maximumCount = 100_000
    connection.maximumConnectionGlitches = 100_000
    var stream = NIOHTTP2Handler.StreamConfiguration()
    stream.streamResetFrameRateLimit.maximumCount = 100_000
    stream.streamErrorRateLimit.maximumCount = 100_000
    return NIOHTTP2Handler(
      mode: .client, connectionConfiguration: connection, streamConfiguration: stream)
  }
}
