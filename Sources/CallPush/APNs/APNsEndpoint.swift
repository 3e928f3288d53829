internal import CallCore
internal import NIOCore
package import NIOHTTP2
internal import NIOPosix
internal import NIOSSL

/// The address that a pool connects to, over TLS 1.2 or newer, with HTTP/2 only.
package struct APNsEndpoint: Sendable {
  package let host: String
  package let port: Int
  /// The value of `:authority`.
  package let authority: String
  /// nil if the host is an address: the certificate must then contain the address.
  private let serverName: String?
  private let tls: NIOSSLContext
  private let connectTimeout: Span

  /// - Throws: `badTrustRoot` or `badServerName`.
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
    // Validates the name for TLS now rather than at each attempt to connect.
    guard (try? NIOSSLClientHandler(context: tls, serverHostname: serverName)) != nil else {
      throw .badServerName(configuration.name)
    }
  }

  /// Resolves the name, connects to the first address that answers, and starts TLS. Must be called on `eventLoop`,
  /// where the handler reports its events. The last one is `ended`.
  ///
  /// - Returns: the channel, before TLS is up.
  func connect(
    on eventLoop: any EventLoop, handler: APNsChannelHandler
  ) -> EventLoopFuture<any Channel> {
    let handler = NIOLoopBound(handler, eventLoop: eventLoop)
    return ClientBootstrap(group: eventLoop)
      .connectTimeout(.microseconds(connectTimeout.microseconds))
      .channelOption(.socketOption(.tcp_nodelay), value: 1)
      .channelInitializer { channel in
        channel.eventLoop.makeCompletedFuture {
          let pipeline = channel.pipeline.syncOperations
          try pipeline.addHandler(NIOSSLClientHandler(context: tls, serverHostname: serverName))
          try pipeline.addHandler(handler.value)
        }
      }
      .connect(host: host, port: port)
  }
}

package enum APNsHTTP2 {
  /// swift-nio-http2 as a client, practically without rate limits on the peer's frames: those protect servers from
  /// strangers. A burst of refused tokens makes APNs change its SETTINGS and reset streams often; at a limit the
  /// handler would send GOAWAY and never recover.
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
