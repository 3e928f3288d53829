package import NIOCore
package import NIOHTTP1
internal import NIOPosix

/// A request to an edge. Its description leaves out its secrets.
package struct EdgeRequest: Sendable, CustomStringConvertible {
  var method: String
  var path: String
  /// Scheme and credential; empty: none.
  var authorization = ""
  var body: [UInt8] = []

  package var description: String { "\(method) \(path)" }
}

extension EdgeRequest {
  package init(method: String, path: String) { (self.method, self.path) = (method, path) }

  /// A request of an app's server.
  package init(method: String, path: String, bearer: String, body: [UInt8]) {
    self.init(method: method, path: path, authorization: "Bearer \(bearer)", body: body)
  }
}

package struct EdgeResponse: Sendable {
  package var status: Int
  package var body: [UInt8]
}

/// Why an exchange has no response.
package enum EdgeFailure: Error {
  case connect
  case broken
  /// The server is not trusted; the text says why.
  case tls(String)
  case timedOut
  /// The response is larger than any of an edge.
  case tooLarge
}

/// One request and its response on a connection of their own: an app that a push woke sends one request,
/// and then none for hours.
package final class EdgeExchange: ChannelInboundHandler {
  package typealias InboundIn = HTTPClientResponsePart
  package typealias OutboundOut = HTTPClientRequestPart

  package static let responseBytesMax = 65_536

  private let responseBytesMax: Int
  private let request: EdgeRequest
  private let address: EdgeAddress
  private let promise: EventLoopPromise<EdgeResponse>
  private var response: EdgeResponse?

  /// - Parameters:
  ///   - responseBytesMax: a longer body fails the exchange.
  ///   - promise: completed with the response, or failed with `EdgeFailure`.
  package init(
    _ request: EdgeRequest, to address: EdgeAddress,
    responseBytesMax: Int = EdgeExchange.responseBytesMax, promise: EventLoopPromise<EdgeResponse>
  ) {
    self.responseBytesMax = responseBytesMax
    self.request = request
    self.address = address
    self.promise = promise
  }

  /// Connects, sends the request, and closes the connection after the response.
  /// - Throws: `EdgeFailure`, at the latest after the timeout or when the task is cancelled.
  package static func run(
    _ request: EdgeRequest, to address: EdgeAddress, timeout: TimeAmount, _ trust: EdgeTrust,
    on eventLoop: any EventLoop, responseBytesMax: Int = EdgeExchange.responseBytesMax
  ) async throws -> EdgeResponse {
    let promise = eventLoop.makePromise(of: EdgeResponse.self)
    let timer = eventLoop.scheduleTask(in: timeout) { promise.fail(EdgeFailure.timedOut) }
    let connected = ClientBootstrap(group: eventLoop)
      .channelOption(.socketOption(.tcp_nodelay), value: 1)
      .connectTimeout(timeout)
      .channelInitializer { channel in
        channel.eventLoop.makeCompletedFuture {
          try trust.secure(channel, to: address)
          try channel.pipeline.syncOperations.addHTTPClientHandlers()
          try channel.pipeline.syncOperations.addHandler(
            EdgeExchange(
              request, to: address, responseBytesMax: responseBytesMax, promise: promise))
        }
      }
      .connect(host: address.host, port: address.port)
    connected.whenFailure { error in
      promise.fail(EdgeTrust.problem(error, with: address).map { .tls($0) } ?? EdgeFailure.connect)
    }
    promise.futureResult.whenComplete { _ in
      timer.cancel()
      // Also a connection that is established after the timeout.
      connected.whenSuccess { $0.close(promise: nil) }
    }
    return try await withTaskCancellationHandler {
      try await promise.futureResult.get()
    } onCancel: {
      promise.fail(EdgeFailure.timedOut)
    }
  }

  // MARK: The channel

  package func channelActive(context: ChannelHandlerContext) {
    var headers = HTTPHeaders([
      ("host", address.authority), ("connection", "close"), ("accept", "application/json"),
    ])
    if !request.authorization.isEmpty {
      headers.add(name: "authorization", value: request.authorization)
    }
    if request.method == "POST" {
      headers.add(name: "content-type", value: "application/json")
      headers.add(name: "content-length", value: "\(request.body.count)")
    }
    let head = HTTPRequestHead(
      version: .http1_1, method: HTTPMethod(rawValue: request.method), uri: request.path,
      headers: headers)
    // NIO rejects invalid characters in headers before it sends anything.
    let written = context.eventLoop.makePromise(of: Void.self)
    let promise = promise
    written.futureResult.whenFailure { _ in promise.fail(EdgeFailure.broken) }
    context.write(wrapOutboundOut(.head(head)), promise: written)
    if !request.body.isEmpty {
      let buffer = context.channel.allocator.buffer(bytes: request.body)
      context.write(wrapOutboundOut(.body(.byteBuffer(buffer))), promise: nil)
    }
    context.writeAndFlush(wrapOutboundOut(.end(nil)), promise: nil)
    context.fireChannelActive()
  }

  package func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    switch unwrapInboundIn(data) {
    case .head(let head):
      // 1xx heads precede the response.
      if head.status.code >= 200 {
        response = EdgeResponse(status: Int(head.status.code), body: [])
      }
    case .body(let part):
      guard var response else { return }
      guard response.body.count + part.readableBytes <= responseBytesMax else {
        return promise.fail(EdgeFailure.tooLarge)
      }
      self.response = nil
      response.body.append(contentsOf: part.readableBytesView)
      self.response = response
    case .end:
      if let response { promise.succeed(response) }
    }
  }

  package func channelInactive(context: ChannelHandlerContext) {
    promise.fail(EdgeFailure.broken)
    context.fireChannelInactive()
  }

  package func errorCaught(context: ChannelHandlerContext, error: any Error) {
    promise.fail(EdgeTrust.problem(error, with: address).map { .tls($0) } ?? EdgeFailure.broken)
    context.close(promise: nil)
  }
}
