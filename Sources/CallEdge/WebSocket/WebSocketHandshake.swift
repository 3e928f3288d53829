internal import CallAuth
internal import CallCore
internal import CallWire
internal import NIOCore
internal import NIOHTTP1
internal import NIOWebSocket

/// What an upgrade request asks for, once it has been found good.
struct WebSocketHandshake {
  struct Refusal: Error {
    var answer: HTTPAnswer
  }

  let codec: DeviceCodec
  /// That of the Authorization header, where there was one.
  let login: Login?

  private static let draining = CallError(.draining, retryAfterMilliseconds: 1000)

  /// Without the option in `Connection` the header `Upgrade` asks for nothing (RFC 9110, 7.8), and the
  /// parser takes what follows for another request.
  init(_ head: HTTPRequestHead, loop: EdgeLoop) throws(Refusal) {
    guard Self.names("websocket", in: "upgrade", of: head),
      Self.names("upgrade", in: "connection", of: head)
    else {
      var answer = HTTPAnswer(CallError(.invalidField, "This path is for WebSocket connections."))
      answer.status = 426
      answer.headers.append(("upgrade", "websocket"))
      throw Refusal(answer: answer)
    }
    // Scripts may open WebSockets to any server: it is the server that has to look.
    if let origin = head.headers.first(name: "origin"), !loop.shared.origins.isEmpty,
      !loop.shared.origins.allows(origin)
    {
      throw Refusal(answer: .error(.originNotAllowed))
    }
    if loop.draining { throw Refusal(answer: .error(Self.draining)) }
    let offered = head.headers[canonicalForm: "sec-websocket-protocol"]
    guard let codec = offered.lazy.compactMap({ DeviceCodec(subprotocol: $0) }).first else {
      throw Refusal(answer: .error(CallError(.unsupportedSubprotocol)))
    }
    self.codec = codec
    do {
      login = try loop.shared.login(head.headers, now: loop.now)
    } catch {
      throw Refusal(answer: .error(error))
    }
  }

  /// Whether a header, which is a list and may stand in several lines, holds a token.
  private static func names(_ token: String, in header: String, of head: HTTPRequestHead) -> Bool {
    head.headers[canonicalForm: header].contains { $0.lowercased() == token }
  }

  /// The headers of the response. `done` is called at once, on the channel's event loop.
  func responseHeaders(
    _ head: HTTPRequestHead, channel: any Channel,
    _ done: @escaping (Result<HTTPHeaders, any Error>) -> Void
  ) {
    let name = codec.subprotocol
    // NIO's upgrader knows the handshake; what it would do to the pipeline is done by us.
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
