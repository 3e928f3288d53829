import CallBus
import CallCore
import CallWire
import Foundation
import NIOCore
import NIOPosix
import Testing

/// The longest that a test waits for anything. Only a failing test waits so long.
let patience: Duration = .seconds(20)

struct TestFailure: Error, CustomStringConvertible {
  var description: String
  init(_ description: String) { self.description = description }
}

/// A client that writes and reads bytes, so that it can say what no well-behaved client says.
final class RawClient {
  struct Response {
    var status = 0
    var headers: [String: String] = [:]
    var body: [UInt8] = []
    var text: String { String(decoding: body, as: UTF8.self) }
    var outcome: (status: Int, code: Int?) { (status, errorCode) }
    /// The code of an error body.
    var errorCode: Int? {
      let object = try? JSONSerialization.jsonObject(with: Data(body)) as? [String: Any]
      return (object?["error"] as? [String: Any])?["code"] as? Int
    }
  }

  struct Frame: Equatable {
    var opcode: UInt8
    var payload: [UInt8]
    var closeCode: Int? {
      opcode == 8 && payload.count >= 2 ? Int(payload[0]) << 8 | Int(payload[1]) : nil
    }
  }

  let channel: any Channel
  /// The next bytes; nil: the connection has ended.
  private let inbox: Inbox<[UInt8]?>
  private var buffer: [UInt8] = []
  private(set) var isClosed = false
  var codec = DeviceCodec.protobuf

  private init(channel: any Channel, inbox: Inbox<[UInt8]?>) {
    self.channel = channel
    self.inbox = inbox
  }

  /// - Parameters:
  ///   - source: the client's own address.
  ///   - below: makes what stands between it and the socket, the lowest first.
  static func connect(
    port: Int, from source: String = "127.0.0.1",
    below: @escaping @Sendable () throws -> [any ChannelHandler] = { [] }
  ) async throws -> RawClient {
    let inbox = Inbox<[UInt8]?>(capacity: 100_000)
    let channel = try await ClientBootstrap(group: .singletonMultiThreadedEventLoopGroup)
      .bind(to: try SocketAddress(ipAddress: source, port: 0))
      .channelInitializer { channel in
        channel.eventLoop.makeCompletedFuture {
          try channel.pipeline.syncOperations.addHandlers(try below() + [Receiver(inbox: inbox)])
        }
      }
      .connect(host: "127.0.0.1", port: port).get()
    return RawClient(channel: channel, inbox: inbox)
  }

  private final class Receiver: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    let inbox: Inbox<[UInt8]?>
    init(inbox: Inbox<[UInt8]?>) { self.inbox = inbox }
    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
      inbox.offer(Array(unwrapInboundIn(data).readableBytesView))
    }
    func channelInactive(context: ChannelHandlerContext) { inbox.offer(nil) }
    func errorCaught(context: ChannelHandlerContext, error: any Error) {
      context.close(promise: nil)
    }
  }

  // MARK: Bytes

  func send(_ bytes: [UInt8]) { channel.writeAndFlush(ByteBuffer(bytes: bytes), promise: nil) }
  func send(_ text: String) { send(Array(text.utf8)) }

  /// Waits for more bytes. False at the end of the connection.
  private func fill() async throws -> Bool {
    if isClosed { return false }
    let events = await inbox.next(until: .now + patience)
    if events.isEmpty { throw TestFailure("nothing came") }
    for event in events {
      buffer += event ?? []
      isClosed = event == nil
    }
    return true
  }

  private func take(_ count: Int) async throws -> [UInt8] {
    while buffer.count < count {
      guard try await fill() else { throw TestFailure("the connection ended") }
    }
    defer { buffer.removeFirst(count) }
    return Array(buffer[..<count])
  }

  /// Waits until the server has closed the connection.
  func end() async throws {
    while try await fill() {}
  }

  // MARK: HTTP

  /// - Parameter isHead: the response has no body whatever it says.
  func response(isHead: Bool = false) async throws -> Response {
    var head: [UInt8] = []
    while !head.suffix(4).elementsEqual("\r\n\r\n".utf8) { head += try await take(1) }
    var lines = String(decoding: head, as: UTF8.self).components(separatedBy: "\r\n")
    var out = Response()
    out.status = Int(lines.removeFirst().split(separator: " ")[1]) ?? 0
    for line in lines {
      let parts = line.split(separator: ":", maxSplits: 1)
      if parts.count == 2 {
        out.headers[parts[0].lowercased()] = parts[1].trimmingCharacters(in: .whitespaces)
      }
    }
    let count = Int(out.headers["content-length"] ?? "0") ?? 0
    if !isHead { out.body = try await take(count) }
    return out
  }

  func request(
    _ method: String, _ path: String, token: String? = nil, body: String? = nil,
    headers: [String] = []
  ) async throws -> Response {
    send(Self.text(method, path, token: token, body: body, headers: headers))
    return try await response(isHead: method == "HEAD")
  }

  static func text(
    _ method: String, _ path: String, token: String? = nil, body: String? = nil,
    headers: [String] = []
  ) -> String {
    var lines = ["\(method) \(path) HTTP/1.1", "Host: edge"] + headers
    if let token { lines.append("Authorization: Bearer \(token)") }
    if let body { lines.append("Content-Length: \(body.utf8.count)") }
    return lines.joined(separator: "\r\n") + "\r\n\r\n" + (body ?? "")
  }

  // MARK: WebSocket

  static func upgradeHeaders(_ subprotocol: String?) -> [String] {
    [
      "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13",
      "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
    ] + (subprotocol.map { ["Sec-WebSocket-Protocol: \($0)"] } ?? [])
  }

  @discardableResult
  func upgrade(
    _ subprotocol: String? = DeviceCodec.protobuf.subprotocol, token: String? = nil,
    headers: [String] = [], extra: String = ""
  ) async throws -> Response {
    let headers = Self.upgradeHeaders(subprotocol) + headers
    send(Self.text("GET", "/v1/connect", token: token, headers: headers) + extra)
    return try await response()
  }

  func say(_ id: UInt64, _ command: ClientCommand) {
    let opcode: UInt8 = codec == .json ? 1 : 2
    send(clientFrame(opcode, codec.encode(ClientFrame(id: id, command: command))))
  }

  /// The next frame of any kind.
  func frame() async throws -> Frame {
    let head = try await take(2)
    var count = Int(head[1])
    if count == 126 {
      count = try await take(2).reduce(0) { $0 << 8 | Int($1) }
    } else if count == 127 {
      count = try await take(8).reduce(0) { $0 << 8 | Int($1) }
    }
    return Frame(opcode: head[0] & 0x0f, payload: try await take(count))
  }

  /// The next message of the device protocol, past the edge's pings.
  func message() async throws -> ServerFrame {
    var frame = try await frame()
    while frame.opcode == 9 { frame = try await self.frame() }
    guard frame.opcode == (codec == .json ? 1 : 2) else {
      throw TestFailure("a frame of kind \(frame.opcode): \(frame.payload)")
    }
    return try frame.payload.withUnsafeBytes { try codec.decodeServer($0) }
  }

  /// The next message, which must be a reply.
  func reply() async throws -> (id: UInt64, reply: ServerReply) {
    let message = try await message()
    guard case .reply(let id, let reply) = message else {
      throw TestFailure("no reply: \(message)")
    }
    return (id, reply)
  }

  func errorReply() async throws -> (id: UInt64, code: CallError.Code) {
    let (id, reply) = try await reply()
    guard let code = reply.error?.code else { throw TestFailure("no error: \(reply)") }
    return (id, code)
  }

  /// Says a command. The next message must be the reply to it.
  @discardableResult
  func ask(_ id: UInt64, _ command: ClientCommand) async throws -> ServerReply {
    say(id, command)
    let (answered, reply) = try await reply()
    guard answered == id else { throw TestFailure("the reply to \(answered): \(reply)") }
    return reply
  }

  @discardableResult
  func attach(_ request: AttachRequest, as id: UInt64 = 1) async throws -> AttachedInfo {
    let reply = try await ask(id, .attach(request))
    guard case .attached(let info) = reply else { throw TestFailure("\(reply)") }
    return info
  }

  /// Opens a WebSocket and attaches.
  @discardableResult
  func attach(token: String, device: String) async throws -> AttachedInfo {
    guard try await upgrade(codec.subprotocol).status == 101 else {
      throw TestFailure("no upgrade")
    }
    return try await attach(AttachRequest(token: token, device: device))
  }

  /// The next message, which must be a notice.
  func notice() async throws -> Notice {
    let message = try await message()
    guard case .notice(let notice) = message else { throw TestFailure("no notice: \(message)") }
    return notice
  }

  /// The next close code, past all frames before it.
  func closeCode() async throws -> Int {
    while true {
      if let code = try await frame().closeCode { return code }
    }
  }

  /// From now on the client reads nothing, and does not close when the edge ends its output.
  func stopReading() async throws {
    try await channel.setOption(.allowRemoteHalfClosure, value: true).get()
    try await channel.setOption(.autoRead, value: false).get()
  }

  func readAgain() async throws { try await channel.setOption(.autoRead, value: true).get() }
}

extension ServerReply {
  var error: CallError? { if case .error(let error) = self { error } else { nil } }
  var code: CallError.Code? { error?.code }
}
