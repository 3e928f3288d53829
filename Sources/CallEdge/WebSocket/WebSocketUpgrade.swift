internal import CallAuth
internal import CallCore
internal import CallWire
internal import NIOCore
internal import NIOHTTP1
internal import NIOWebSocket

/// A valid request to upgrade a connection to a WebSocket.
struct WebSocketUpgrade {
  let codec: DeviceCodec
  /// The token of the Authorization header, where there was one.
  let login: Login?

  private static let draining = CallError(.draining, retryAfterMilliseconds: 1000)

  /// - Throws: the answer to a request that is refused.
  init(_ head: HTTPRequestHead, loop: EdgeLoop, _ connection: Connection) throws(HTTPAnswer) {
    // Without `Connection: upgrade` the header `Upgrade` has no meaning (RFC 9110, 7.8), and the parser takes
    // what follows for another request.
    guard Self.names("websocket", in: "upgrade", of: head),
      Self.names("upgrade", in: "connection", of: head)
    else {
      var answer = HTTPAnswer(CallError(.invalidField, "This path is for WebSocket connections."))
      answer.status = 426
      answer.headers.append(("upgrade", "websocket"))
      throw answer
    }
    // A page may open WebSockets to any server: browsers leave the check to the server. No page can add an
    // Authorization header to a handshake, so who authenticates by one is an app, whatever origin its library adds.
    if let origin = head.headers.first(name: "origin"), !loop.shared.origins.isEmpty,
      !loop.shared.origins.allows(origin), !head.headers.contains(name: "authorization")
    {
      throw HTTPAnswer(.originNotAllowed)
    }
    if loop.isDraining { throw HTTPAnswer(Self.draining) }
    let offered = head.headers[canonicalForm: "sec-websocket-protocol"]
    guard let codec = offered.lazy.compactMap({ DeviceCodec(subprotocol: $0) }).first else {
      throw HTTPAnswer(CallError(.unsupportedSubprotocol))
    }
    self.codec = codec
    do throws(CallError) {
      if head.headers.contains(name: "authorization") {
        try loop.admitVerification(of: connection, now: loop.now)
      }
      login = try loop.shared.login(head.headers, now: loop.now)
    } catch {
      throw HTTPAnswer(loop.countRefusal(error, connection))
    }
  }

  /// Whether a header that is a list, in one line or several, holds a token.
  private static func names(_ token: String, in header: String, of head: HTTPRequestHead) -> Bool {
    head.headers[canonicalForm: header].contains { $0.lowercased() == token }
  }

  /// Makes the headers of the response. `done` is called at once, on the channel's event loop.
  func responseHeaders(
    _ head: HTTPRequestHead, channel: any Channel,
    _ done: @escaping (Result<HTTPHeaders, any Error>) -> Void
  ) {
    let name = codec.subprotocol
    // NIO's upgrader makes the headers; `HTTPHandler` changes the pipeline.
    let upgrader = NIOWebSocketServerUpgrader(
      shouldUpgrade: { channel, _ in
        channel.eventLoop.makeSucceededFuture(["Sec-WebSocket-Protocol": name])
      },
      upgradePipelineHandler: { channel, _ in channel.eventLoop.makeSucceededVoidFuture() })
    upgrader.buildUpgradeResponse(
      channel: channel, upgradeRequest: head, initialResponseHeaders: [:]
    ).assumeIsolated().whenComplete(done)
  }
}

extension DeviceCodec {
  init?(subprotocol: Substring) {
    guard let codec = DeviceCodec.allCases.first(where: { $0.subprotocol == subprotocol })
    else { return nil }
    self = codec
  }
}
