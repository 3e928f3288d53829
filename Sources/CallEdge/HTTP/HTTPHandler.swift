internal import CallAuth
internal import CallCore
internal import CallTelemetry
internal import CallWire
internal import NIOCore
internal import NIOHTTP1

/// A connection while it speaks HTTP: reads one request at a time, answers it, or turns the
/// connection into a WebSocket, after which nothing of HTTP is left in the channel.
final class HTTPHandler: ChannelInboundHandler, RemovableChannelHandler {
  typealias InboundIn = HTTPServerRequestPart
  typealias OutboundOut = HTTPServerResponsePart

  enum State {
    /// Between requests.
    case idle
    case receiving(HTTPRequestHead, [UInt8])
    /// Answered before its end; what still comes of it is thrown away.
    case refused
    /// A shard was asked, under this session number.
    case waiting(HTTPExchange, session: UInt64)
    /// The peer has not taken all of the answer; no further request is read meanwhile.
    case answering
    /// No further request is read before then: the peer asked too often.
    case resting(until: Timestamp)
    case upgraded
    case closed
  }

  let loop: EdgeLoop
  let connection: Connection
  /// The other handlers of HTTP, to be removed with this one.
  private let companions: [any RemovableChannelHandler]
  private var state = State.idle
  private var context: ChannelHandlerContext?
  /// How much of a refused request was thrown away.
  private var discardedBytes = 0
  /// When the connection is closed unless something happens.
  private var deadline: Timestamp

  init(loop: EdgeLoop, connection: Connection, companions: [any RemovableChannelHandler]) {
    self.loop = loop
    self.connection = connection
    self.companions = companions
    deadline = loop.now + loop.shared.gate.limits.requestTimeout
  }

  private var configuration: EdgeConfiguration { loop.shared.configuration }
  private var limits: PeerLimits { loop.shared.gate.limits }
  /// The address at the other end of the socket; nil where it has none.
  var directAddress: PeerAddress? { PeerAddress(context?.channel.remoteAddress) }

  // MARK: The channel

  func handlerAdded(context: ChannelHandlerContext) {
    self.context = context
    loop.add(self)
  }

  func handlerRemoved(context: ChannelHandlerContext) {
    leave()
    self.context = nil
  }

  func channelInactive(context: ChannelHandlerContext) {
    leave()
    context.fireChannelInactive()
  }

  private func leave() {
    loop.remove(self)
    if case .waiting(_, let session) = state { loop.forgetRequest(session: session) }
    if case .upgraded = state { return }
    state = .closed
  }

  func errorCaught(context: ChannelHandlerContext, error: any Error) {
    switch state {
    case .idle, .receiving:
      guard error is HTTPParserError else { return abort() }
      let error = CallError(.malformedFrame, "The request could not be read.")
      answer(HTTPExchange(), .error(error))
    case .refused, .waiting, .answering, .resting, .upgraded, .closed:
      abort()
    }
  }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    switch (unwrapInboundIn(data), state) {
    case (.head(let head), .idle):
      deadline = loop.now + limits.requestTimeout
      if let error = refusal(of: head) {
        return answer(HTTPExchange(head, isWhole: false), .error(error))
      }
      state = .receiving(head, [])
      if head.expectsContinue { invite(head) }
    case (.body(let part), .receiving(let head, var body)):
      state = .idle
      guard body.count + part.readableBytes <= limits.requestBodyBytesMax else {
        return refuseBody(of: head)
      }
      body.append(contentsOf: part.readableBytesView)
      state = .receiving(head, body)
    case (.end, .receiving(let head, let body)):
      received(head, body)
    case (.body(let part), .refused):
      discardedBytes += part.readableBytes
      if discardedBytes > limits.lingerBytesMax { abort(.lingerBytes) }
    case (.head, _), (.body, _), (.end, _):
      // Of a refused request, or after the end.
      break
    }
  }

  /// The client waits to be told that its body is wanted (RFC 9110, 10.1.1).
  private func invite(_ head: HTTPRequestHead) {
    let length = head.headers.first(name: "content-length").flatMap { Int($0) } ?? 0
    guard length <= limits.requestBodyBytesMax else { return refuseBody(of: head) }
    let head = HTTPResponseHead(version: .http1_1, status: .continue)
    context?.writeAndFlush(wrapOutboundOut(.head(head)), promise: nil)
  }

  private func refuseBody(of head: HTTPRequestHead) {
    let error = CallError(
      .frameTooLarge, "A body is at most \(limits.requestBodyBytesMax) bytes.")
    answer(HTTPExchange(head, isWhole: false), .error(error))
  }

  func tick(now: Timestamp) {
    switch state {
    case .waiting, .upgraded, .closed: break
    case .resting(let until): if until <= now { takeNext() }
    case .idle: if deadline <= now { abort() }
    case .receiving, .refused: if deadline <= now { abort(.requestTimeout) }
    case .answering: if deadline <= now { abort(.unreadAnswer) }
    }
  }

  /// - Parameter limit: the one that the peer has reached.
  func abort(_ limit: PeerLimit? = nil) {
    if let limit { loop.shared.gate.metrics.limit(limit) }
    context?.close(promise: nil)
  }

  // MARK: Requests

  private func received(_ head: HTTPRequestHead, _ body: [UInt8]) {
    loop.metrics.requestsTotal.increment()
    // The parser reads no further behind a CONNECT, nor behind what it takes for an upgrade.
    let isLast = head.method == .CONNECT || head.headers.contains(name: "upgrade")
    var exchange = HTTPExchange(head)
    exchange.keepAlive = head.isKeepAlive && !isLast
    if let error = refusalByRate() { return answer(exchange, .error(error), rests: true) }
    let target = head.uri.split(
      separator: "?", maxSplits: 1, omittingEmptySubsequences: false)
    if loop.shared.origins.isPreflight(head) {
      return answer(exchange, loop.shared.origins.preflight(head, path: target.first ?? ""))
    }
    let route: HTTPRoute
    do {
      route = try HTTPRoute.find(method: head.method.rawValue, path: target.first ?? "")
    } catch {
      return answer(exchange, HTTPAnswer(error))
    }
    switch route {
    case .connect: upgrade(head, exchange)
    case .health: answer(exchange, .json(200, HTTPModels.Nothing()))
    case .registerDevice, .unregisterDevice, .call, .decline, .busy:
      ask(route, head, query: target.count > 1 ? target[1] : "", body, exchange)
    }
  }

  /// Turns a request into a command to a shard.
  private func ask(
    _ route: HTTPRoute, _ head: HTTPRequestHead, query: Substring, _ body: [UInt8],
    _ exchange: HTTPExchange
  ) {
    if let error = loop.refusalToAuthenticate(connection) {
      return answer(exchange, .error(error), rests: true)
    }
    let now = loop.now
    var command: Command
    do throws(CallError) {
      let credential = try loop.shared.credential(head.headers, route, body: body, now: now)
      if let wait = loop.shared.takeFromRate(of: credential, now: now) {
        throw CallError.rateLimited(
          perSecond: configuration.commandsPerSecond, burst: configuration.commandsBurst,
          retryAfterMilliseconds: wait)
      }
      let request = try HTTPCommand(
        route, body: body, credential: credential,
        device: HTTPRoute.parameter("device", query: query), limits: configuration.limits)
      command = Command(
        session: SessionRef(edge: loop.shared.incarnation, number: loop.makeSessionNumber()),
        request: 1, user: request.user, device: request.device, callee: request.callee,
        body: request.body)
      command.credential = credential.shown
    } catch {
      loop.noteFailure(connection, error.code)
      return answer(exchange, .error(error))
    }
    if let error = loop.submit(command, for: self) { return answer(exchange, .error(error)) }
    state = .waiting(exchange, session: command.session.number)
  }

  /// The shard's answer, or the loop's own when there was none in time.
  func replied(to command: Command, _ reply: Reply) {
    guard case .waiting(let exchange, command.session.number) = state else { return }
    answer(exchange, HTTPAnswer(reply, device: command.device))
  }

  // MARK: Answers

  /// Answers a request, and reads the next one when the peer has taken the answer.
  /// - Parameter rests: not before a second has passed.
  private func answer(_ exchange: HTTPExchange, _ answer: HTTPAnswer, rests: Bool = false) {
    guard let context else { return }
    if let code = answer.error { loop.metrics.countError(code) }
    let keepAlive = exchange.keepAlive && !loop.draining
    let head = HTTPResponseHead(
      version: .http1_1, status: HTTPResponseStatus(statusCode: answer.status),
      headers: headers(of: answer, exchange, keepAlive: keepAlive))
    state = keepAlive ? .answering : .refused
    deadline = loop.now + limits.requestTimeout
    let restsUntil = rests ? loop.now + .seconds(1) : nil
    let taken = context.eventLoop.makePromise(of: Void.self)
    taken.futureResult.assumeIsolated().whenComplete { _ in
      if keepAlive {
        self.wasTaken(restsUntil)
      } else {
        // Closed with something unread a socket is reset, and the client may lose the answer.
        self.context?.close(mode: exchange.isWhole ? .all : .output, promise: nil)
      }
    }
    if exchange.isHead || answer.body.isEmpty {
      context.writeAndFlush(wrapOutboundOut(.head(head)), promise: taken)
    } else {
      context.write(wrapOutboundOut(.head(head)), promise: nil)
      let buffer = context.channel.allocator.buffer(bytes: answer.body)
      context.writeAndFlush(wrapOutboundOut(.body(.byteBuffer(buffer))), promise: taken)
    }
  }

  private func headers(of answer: HTTPAnswer, _ exchange: HTTPExchange, keepAlive: Bool)
    -> HTTPHeaders
  {
    var headers = HTTPHeaders()
    // An answer without content (204) has neither (RFC 9110, 8.6).
    if answer.status != 204 {
      headers.add(name: "content-type", value: answer.contentType)
      headers.add(name: "content-length", value: "\(answer.body.count)")
    }
    headers.add(contentsOf: answer.headers)
    headers.add(contentsOf: loop.shared.origins.headers(for: exchange.origin))
    if !keepAlive { headers.add(name: "connection", value: "close") }
    return headers
  }

  /// The peer's socket has taken the whole answer.
  private func wasTaken(_ restsUntil: Timestamp?) {
    guard case .answering = state else { return }
    if let restsUntil { state = .resting(until: restsUntil) } else { takeNext() }
  }

  /// Ends the exchange: the handler of pipelining hands over what has come meanwhile, and reads on.
  private func takeNext() {
    state = .idle
    deadline = loop.now + limits.keepAliveTimeout
    context?.writeAndFlush(wrapOutboundOut(.end(nil)), promise: nil)
  }

  // MARK: WebSocket

  private func upgrade(_ head: HTTPRequestHead, _ exchange: HTTPExchange) {
    if head.headers.contains(name: "authorization"),
      let error = loop.refusalToAuthenticate(connection)
    {
      return answer(exchange, .error(error))
    }
    let handshake: WebSocketHandshake
    do {
      handshake = try WebSocketHandshake(head, loop: loop)
    } catch {
      loop.noteFailure(connection, error.answer.error)
      return answer(exchange, error.answer)
    }
    guard let context else { return }
    state = .upgraded
    handshake.responseHeaders(head, channel: context.channel) { result in
      switch result {
      case .success(let headers): self.becomeWebSocket(handshake, headers)
      case .failure:
        self.state = .idle
        let error = CallError(
          .invalidField, "Sec-WebSocket-Key and Sec-WebSocket-Version: 13 are needed.")
        self.answer(exchange, HTTPAnswer(error, headers: [("sec-websocket-version", "13")]))
      }
    }
  }

  /// Writes the switch of protocols, then replaces all handlers by one.
  private func becomeWebSocket(_ handshake: WebSocketHandshake, _ headers: HTTPHeaders) {
    guard let context else { return }
    let head = HTTPResponseHead(
      version: .http1_1, status: .switchingProtocols, headers: headers)
    context.write(wrapOutboundOut(.head(head)), promise: nil)
    context.writeAndFlush(wrapOutboundOut(.end(nil)), promise: nil)
    let pipeline = context.pipeline.syncOperations
    let guardian = UpgradeGuard()
    do {
      try pipeline.addHandler(guardian)
      try pipeline.addHandler(
        WebSocketHandler(
          loop: loop, connection: connection, codec: handshake.codec, login: handshake.login))
    } catch {
      return abort()
    }
    let left = context.eventLoop.makePromise(of: Void.self)
    left.futureResult.assumeIsolated().whenComplete { _ in
      pipeline.removeHandler(guardian, promise: nil)
    }
    let leaving = companions.map { handler in
      let promise = context.eventLoop.makePromise(of: Void.self)
      pipeline.removeHandler(handler, promise: promise)
      return promise.futureResult
    }
    EventLoopFuture.andAllComplete(leaving, promise: left)
    pipeline.removeHandler(self, promise: nil)
  }
}

/// What must be known of a request to answer it.
struct HTTPExchange {
  var keepAlive = false
  /// The body is left out.
  var isHead = false
  /// Nothing of the request is still to come.
  var isWhole = true
  /// Of the page that sent it.
  var origin: String?
}

extension HTTPExchange {
  init(_ head: HTTPRequestHead, isWhole: Bool = true) {
    isHead = head.method == .HEAD
    self.isWhole = isWhole
    origin = head.headers.first(name: "origin")
  }
}
