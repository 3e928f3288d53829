internal import CallCore
internal import CallWire
internal import NIOCore

/// One request of a phone to an edge, by HTTP on a connection of its own: how an app without a session
/// declines a call of which a push spoke.
final class SimHTTPRequest: ChannelInboundHandler {
  typealias InboundIn = ByteBuffer
  typealias OutboundOut = ByteBuffer

  enum Answer: Equatable {
    case state(CallState)
    case error(CallError)
    /// Nothing that could be read, or the connection broke.
    case none
  }

  private let text: String
  private var received: [UInt8] = []
  private var completion: ((Answer) -> Void)?

  /// - Parameters:
  ///   - action: `decline`, `busy`, or nothing to ask for the state.
  ///   - body: JSON.
  init(
    action: String, callee: String, call: CallID, capability: String, body: String,
    completion: @escaping (Answer) -> Void
  ) {
    let method = action.isEmpty ? "GET" : "POST"
    let path = "/v1/calls/\(Self.encoded(callee))/\(call)" + (action.isEmpty ? "" : "/\(action)")
    var lines = [
      "\(method) \(path) HTTP/1.1", "host: edge", "connection: close",
      "authorization: CallmeshPush \(capability)",
    ]
    if !action.isEmpty {
      lines += ["content-type: application/json", "content-length: \(body.utf8.count)"]
    }
    text = lines.joined(separator: "\r\n") + "\r\n\r\n" + (action.isEmpty ? "" : body)
    self.completion = completion
  }

  /// As in a path: what is not of ASCII is percent-encoded. Names of the simulation have nothing else that
  /// would have to be.
  private static func encoded(_ name: String) -> String {
    name.utf8.map { $0 < 0x80 ? String(UnicodeScalar($0)) : "%\(String($0, radix: 16))" }.joined()
  }

  /// Nobody waits any more.
  func giveUp() { end(.none) }

  private func end(_ answer: Answer) { completion.take()?(answer) }

  // MARK: The channel

  func channelActive(context: ChannelHandlerContext) {
    let buffer = context.channel.allocator.buffer(string: text)
    context.writeAndFlush(wrapOutboundOut(buffer), promise: nil)
    context.fireChannelActive()
  }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    received += Array(buffer: unwrapInboundIn(data))
    if let answer { end(answer) }
  }

  func channelInactive(context: ChannelHandlerContext) {
    end(answer ?? .none)
    context.fireChannelInactive()
  }

  func errorCaught(context: ChannelHandlerContext, error: any Error) {
    end(.none)
    context.close(promise: nil)
  }

  /// nil while the response is not whole.
  private var answer: Answer? {
    let end = Array("\r\n\r\n".utf8)
    guard let split = received.indices.first(where: { received[$0...].starts(with: end) }) else {
      return nil
    }
    let head = String(decoding: received[..<split], as: UTF8.self).lowercased()
    let body = Array(received[(split + end.count)...])
    let lines = head.split(separator: "\r\n")
    let length = lines.first { $0.hasPrefix("content-length:") }
      .flatMap { Int($0.dropFirst("content-length:".count).filter { $0.isNumber }) }
    guard let length, body.count >= length else { return nil }
    guard lines.first?.contains(" 200") ?? false else {
      return HTTPBodies.readError(body).map { .error($0) } ?? Answer.none
    }
    return HTTPBodies.readCallState(body).map { .state($0) } ?? Answer.none
  }
}
