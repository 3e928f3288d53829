internal import CallCore
internal import CallTelemetry
internal import NIOCore
internal import NIOHTTP1

/// Writes answers.
extension HTTPHandler {
  /// Answers a request, and reads the next one when the peer has taken the answer.
  /// - Parameter rests: whether the next request is not read before a second has passed.
  func answer(_ exchange: HTTPExchange, _ answer: HTTPAnswer, rests: Bool = false) {
    guard let context else { return }
    if let code = answer.error { loop.metrics.count(error: code) }
    let keepAlive = exchange.keepAlive && !loop.isDraining
    let head = HTTPResponseHead(
      version: .http1_1, status: HTTPResponseStatus(statusCode: answer.status),
      headers: headers(of: answer, exchange, keepAlive: keepAlive))
    state = keepAlive ? .answering : .refused
    deadline = loop.now + limits.requestTimeout
    // The connection of a proxy that passes HTTP on has the requests of others, too.
    let isShared =
      !configuration.proxyProtocol && (directAddress.map(loop.shared.gate.isTrusted) ?? false)
    let restsUntil = rests && !isShared ? loop.now + .seconds(1) : nil
    let taken = context.eventLoop.makePromise(of: Void.self)
    taken.futureResult.assumeIsolated().whenComplete { _ in
      if keepAlive {
        self.wasTaken(restsUntil)
      } else {
        // A socket that is closed with something unread is reset, and the client may lose the answer.
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
    // A 204 has no content, and so neither header (RFC 9110, 8.6).
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
    if let restsUntil { state = .resting(until: restsUntil) } else { endExchange() }
  }

  /// Ends the exchange: NIO's handler of pipelining passes on the next request, and reads on.
  func endExchange() {
    state = .idle
    deadline = loop.now + limits.keepAliveTimeout
    context?.writeAndFlush(wrapOutboundOut(.end(nil)), promise: nil)
  }
}

/// The properties of a request on which its answer depends.
struct HTTPExchange {
  var keepAlive = false
  /// The answer has no body.
  let isHead: Bool
  /// All of the request has arrived.
  let isWhole: Bool
  /// The origin of the page that sent the request.
  let origin: String?

  /// - Parameter head: nil where the request could not be read.
  init(_ head: HTTPRequestHead?, isWhole: Bool = true) {
    isHead = head?.method == .HEAD
    self.isWhole = isWhole
    origin = head?.headers.first(name: "origin")
  }
}
