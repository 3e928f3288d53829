internal import CallAuth
internal import CallCore
internal import CallTelemetry
internal import CallWire
internal import NIOCore
internal import NIOHTTP1

/// A connection while it speaks HTTP. It reads one request at a time and answers it, or turns the connection
/// into a WebSocket, after which no handler of HTTP is left in the channel.
final class HTTPHandler: ChannelInboundHandler, RemovableChannelHandler {
  typealias InboundIn = HTTPServerRequestPart
  typealias OutboundOut = HTTPServerResponsePart

  enum State {
    /// Between requests.
    case idle
    case receiving(HTTPRequestHead, [UInt8])
    /// The request was answered, and the connection ends. What still comes of it is discarded.
    case refused
    /// A command was sent to a shard, under this session number.
    case waiting(HTTPExchange, session: UInt64)
    /// The peer has not taken all of the answer. No further request is read meanwhile.
    case answering
    /// The peer sent requests too often. No further request is read before then.
    case resting(until: Timestamp)
    case upgraded
    case closed
  }

  let loop: EdgeLoop
  let connection: Connection
  /// The other handlers of HTTP, to be removed with this one.
  let companions: [any RemovableChannelHandler]
  var state = State.idle
  var context: ChannelHandlerContext?
  /// How many bytes of a refused request were discarded.
  var discardedBytes = 0
  /// How many requests with a good credential were refused since the last one that was not, or since a rest.
  var refusalsInARow = 0
  /// When the connection is closed, unless its state changes.
  var deadline: Timestamp

  init(loop: EdgeLoop, connection: Connection, companions: [any RemovableChannelHandler]) {
    self.loop = loop
    self.connection = connection
    self.companions = companions
    deadline = loop.now + loop.shared.gate.limits.requestTimeout
  }

  var configuration: EdgeConfiguration { loop.shared.configuration }
  var limits: PeerLimits { loop.shared.gate.limits }
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
      answer(HTTPExchange(nil), HTTPAnswer(error))
    case .refused, .waiting, .answering, .resting, .upgraded, .closed:
      abort()
    }
  }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    switch (unwrapInboundIn(data), state) {
    case (.head(let head), .idle):
      deadline = loop.now + limits.requestTimeout
      if let error = refusal(of: head) {
        return answer(HTTPExchange(head, isWhole: false), HTTPAnswer(error))
      }
      state = .receiving(head, [])
      if head.expectsContinue { sendContinue(head) }
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
      // A part of a refused request, or one after the end.
      break
    }
  }

  /// Answers `Expect: 100-continue` (RFC 9110, 10.1.1).
  private func sendContinue(_ head: HTTPRequestHead) {
    let length = head.headers.first(name: "content-length").flatMap { Int($0) } ?? 0
    guard length <= limits.requestBodyBytesMax else { return refuseBody(of: head) }
    let head = HTTPResponseHead(version: .http1_1, status: .continue)
    context?.writeAndFlush(wrapOutboundOut(.head(head)), promise: nil)
  }

  private func refuseBody(of head: HTTPRequestHead) {
    let error = CallError(.frameTooLarge, "A body is at most \(limits.requestBodyBytesMax) bytes.")
    answer(HTTPExchange(head, isWhole: false), HTTPAnswer(error))
  }

  func tick(now: Timestamp) {
    switch state {
    case .waiting, .upgraded, .closed: break
    case .resting(let until): if until <= now { endExchange() }
    case .idle: if deadline <= now { abort() }
    case .receiving, .refused: if deadline <= now { abort(.requestTimeout) }
    case .answering: if deadline <= now { abort(.unreadAnswer) }
    }
  }

  /// - Parameter limit: the one that the peer has reached.
  func abort(_ limit: PeerLimit? = nil) {
    if let limit { loop.metrics.count(limit: limit) }
    context?.close(promise: nil)
  }

  // MARK: Requests

  private func received(_ head: HTTPRequestHead, _ body: [UInt8]) {
    loop.metrics.requestsTotal.increment()
    // The parser reads nothing after a CONNECT, nor after what it takes for an upgrade.
    let isLast = head.method == .CONNECT || head.headers.contains(name: "upgrade")
    var exchange = HTTPExchange(head)
    exchange.keepAlive = head.isKeepAlive && !isLast
    let target = Self.originForm(head.uri)
      .split(separator: "?", maxSplits: 1, omittingEmptySubsequences: false)
    if loop.shared.origins.isPreflight(head) {
      return answerStranger(
        exchange, loop.shared.origins.preflight(head, path: target.first ?? ""))
    }
    let route: HTTPRoute
    do {
      route = try HTTPRoute.find(method: head.method.rawValue, path: target.first ?? "")
    } catch {
      return answerStranger(exchange, HTTPAnswer(error))
    }
    switch route {
    case .connect: upgrade(head, exchange)
    case .health: answerStranger(exchange, .empty)
    case .registerDevice, .unregisterDevice, .call, .decline, .busy, .history, .historyRead, .rules,
      .app:
      ask(route, head, query: target.count > 1 ? target[1] : "", body, exchange)
    }
  }

  /// A target in absolute form (RFC 9112, 3.2.2: a server must accept it) without scheme and authority; any other as it
  /// is.
  private static func originForm(_ uri: String) -> Substring {
    let schemes = ["http://", "https://"]
    guard uri.first != "/",
      let scheme = schemes.first(where: { uri.prefix($0.count).lowercased() == $0 })
    else { return uri[...] }
    let rest = uri.dropFirst(scheme.count).drop { $0 != "/" && $0 != "?" }
    return rest.isEmpty ? "/" : rest
  }

  /// Sends the command that a request stands for to its shard.
  private func ask(
    _ route: HTTPRoute, _ head: HTTPRequestHead, query: Substring, _ body: [UInt8],
    _ exchange: HTTPExchange
  ) {
    let now = loop.now
    let credential: HTTPCredential
    do throws(CallError) {
      try loop.admitVerification(of: connection, now: now)
      credential = try loop.shared.credential(head.headers, route, body: body, now: now)
      try loop.shared.chargeRate(of: credential, route, now: now)
    } catch {
      return answerRefused(exchange, head, error)
    }
    refusalsInARow = 0
    let command: Command
    do throws(CallError) {
      command = try Command(
        route, content: body, by: credential, query: query,
        session: SessionRef(edge: loop.shared.incarnation, number: loop.makeSessionNumber()),
        limits: loop.shared.configuration.limits)
    } catch {
      return answer(exchange, HTTPAnswer(loop.countRefusal(error, connection)))
    }
    if let error = loop.submit(command, for: self) { return answer(exchange, HTTPAnswer(error)) }
    state = .waiting(exchange, session: command.session.number)
  }

  /// The shard has replied, or the loop for it when it did not in time.
  /// - Parameter session: the request's number.
  func replied(session: UInt64, _ reply: HTTPAnswer) {
    guard case .waiting(let exchange, session) = state else { return }
    answer(exchange, reply)
  }
}
