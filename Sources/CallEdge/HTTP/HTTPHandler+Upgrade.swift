internal import CallCore
internal import NIOCore
internal import NIOHTTP1

/// Turns the connection into a WebSocket.
extension HTTPHandler {
  func upgrade(_ head: HTTPRequestHead, _ exchange: HTTPExchange) {
    let upgrade: WebSocketUpgrade
    do {
      upgrade = try WebSocketUpgrade(head, loop: loop, connection)
    } catch {
      return head.headers.contains(name: "authorization")
        ? answer(exchange, error) : answerStranger(exchange, error)
    }
    guard admits(upgrade, exchange), let context else { return }
    state = .upgraded
    upgrade.responseHeaders(head, channel: context.channel) { result in
      switch result {
      case .success(let headers): self.becomeWebSocket(upgrade, headers)
      case .failure:
        self.state = .idle
        let error = CallError(
          .invalidField, "Sec-WebSocket-Key and Sec-WebSocket-Version: 13 are needed.")
        self.answer(exchange, HTTPAnswer(error, headers: [("sec-websocket-version", "13")]))
      }
    }
  }

  /// Writes the answer 101, then replaces all handlers by one.
  private func becomeWebSocket(_ upgrade: WebSocketUpgrade, _ headers: HTTPHeaders) {
    guard let context else { return }
    let head = HTTPResponseHead(version: .http1_1, status: .switchingProtocols, headers: headers)
    context.write(wrapOutboundOut(.head(head)), promise: nil)
    context.writeAndFlush(wrapOutboundOut(.end(nil)), promise: nil)
    let pipeline = context.pipeline.syncOperations
    let guardian = UpgradeGuard()
    do {
      try pipeline.addHandler(guardian)
      try pipeline.addHandler(
        WebSocketHandler(
          loop: loop, connection: connection, codec: upgrade.codec, login: upgrade.login))
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
