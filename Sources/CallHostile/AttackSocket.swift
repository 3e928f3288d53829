import CallClient
import NIOCore

/// A TCP connection that sends any bytes, and reads or does not.
final class AttackSocket: ChannelInboundHandler {
  typealias InboundIn = ByteBuffer
  typealias OutboundOut = ByteBuffer

  /// Limit of bytes that wait because the edge reads no more. Policy: further bytes are not sent.
  static let unsentMax = 262_144

  private unowned let attack: AttackContext
  private var context: ChannelHandlerContext?
  private var unsentBytes = 0
  private var isClosed = false
  var onOpen: (AttackSocket) -> Void = { _ in }
  var onRead: (AttackSocket, ByteBuffer) -> Void = { _, _ in }
  /// Called once, also where the connection could not be opened.
  var onEnd: () -> Void = {}

  init(_ attack: AttackContext) { self.attack = attack }

  /// - Returns: whether the bytes are sent.
  @discardableResult
  func write(_ bytes: some Collection<UInt8>) -> Bool {
    guard let context, !isClosed, unsentBytes < Self.unsentMax else { return false }
    let buffer = context.channel.allocator.buffer(bytes: bytes)
    let count = buffer.readableBytes
    unsentBytes += count
    attack.account.bytesSent += count
    let bound = NIOLoopBound(self, eventLoop: context.eventLoop)
    context.writeAndFlush(wrapOutboundOut(buffer)).whenComplete { _ in
      bound.value.unsentBytes -= count
    }
    return true
  }

  func stopReading() {
    _ = context?.channel.setOption(.autoRead, value: false)
  }

  /// The connection could not be opened.
  func failed() { end(counting: \.connectionsFailed) }

  private func end(counting count: WritableKeyPath<AttackAccount, Int>) {
    guard !isClosed else { return }
    isClosed = true
    attack.account[keyPath: count] += 1
    onEnd()
    // The closures hold owners of this object.
    (onOpen, onRead, onEnd) = ({ _ in }, { _, _ in }, {})
  }

  func channelActive(context: ChannelHandlerContext) {
    self.context = context
    attack.account.connections += 1
    onOpen(self)
  }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    onRead(self, unwrapInboundIn(data))
  }

  func channelInactive(context: ChannelHandlerContext) {
    self.context = nil
    end(counting: \.connectionsClosed)
  }

  func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }
}

extension AttackContext {
  /// Keeps raw connections open.
  /// - Returns: the open ones, by number.
  func keepSockets(
    _ opened: @escaping (AttackSocket, _ number: Int) -> Void
  ) -> AttackFleet<AttackSocket> {
    let fleet = AttackFleet<AttackSocket>()
    keepOpen { [weak self] number, ended in
      guard let self else { return }
      let socket = AttackSocket(self)
      socket.onOpen = { socket in
        fleet.add(number, socket)
        opened(socket, number)
      }
      socket.onEnd = {
        fleet.remove(number)
        ended()
      }
      connect(socket)
    }
    return fleet
  }

  /// Keeps WebSockets open after the handshake.
  /// - Returns: those that the edge has accepted, by number.
  func keepWebSockets(
    subprotocol: @escaping (_ number: Int) -> String,
    opened: @escaping (AttackSocket, _ number: Int) -> Void
  ) -> AttackFleet<AttackSocket> {
    let upgraded = AttackFleet<AttackSocket>()
    let edge = edges[0]
    let all = keepSockets { [weak self] socket, number in
      socket.onRead = { socket, bytes in
        self?.countHTTP(bytes)
        guard AttackBytes.isUpgraded(bytes) else { return }
        socket.onRead = { _, _ in }
        upgraded.add(number, socket)
        opened(socket, number)
      }
      let handshake = WebSocketHandshake(
        nonce: [UInt8](repeating: 0, count: 16), subprotocol: subprotocol(number))
      socket.write(handshake.request(edge).utf8)
    }
    all.onEnd = { upgraded.remove($0) }
    return upgraded
  }

  func countHTTP(_ bytes: ByteBuffer) {
    for status in AttackBytes.statuses(bytes) { account.count(answer: status) }
  }
}

/// The open connections of an attack, which act in turn.
final class AttackFleet<Member> {
  private(set) var members: [Int: Member] = [:]
  var onEnd: (_ number: Int) -> Void = { _ in }
  private var turn = 0

  func add(_ number: Int, _ member: Member) { members[number] = member }

  func remove(_ number: Int) {
    guard members.removeValue(forKey: number) != nil else { return }
    onEnd(number)
  }

  /// The next open one of `count`, in the order of their numbers; nil where none is open.
  func next(of count: Int) -> (number: Int, member: Member)? {
    guard !members.isEmpty else { return nil }
    for _ in 0..<count {
      turn = (turn + 1) % count
      if let member = members[turn] { return (turn, member) }
    }
    return nil
  }
}

/// The bytes that raw attackers send, and their reading of answers.
package enum AttackBytes {
  package enum Opcode: UInt8 {
    case text = 0x1
    case binary = 0x2
    case ping = 0x9
  }

  /// A client's WebSocket frame, masked with zeros. The header states the length `declared`, if given.
  package static func frame(
    _ opcode: Opcode, _ payload: some Collection<UInt8>, declared: Int? = nil
  ) -> [UInt8] {
    let length = declared ?? payload.count
    var bytes: [UInt8] = [0x80 | opcode.rawValue]
    switch length {
    case ..<126: bytes.append(0x80 | UInt8(length))
    case ..<65_536: bytes += [0x80 | 126, UInt8(length >> 8), UInt8(length & 0xFF)]
    default:
      bytes.append(0x80 | 127)
      for shift in stride(from: 56, through: 0, by: -8) {
        bytes.append(UInt8(truncatingIfNeeded: length >> shift))
      }
    }
    bytes += [0, 0, 0, 0]
    bytes.append(contentsOf: payload)
    return bytes
  }

  static func get(_ path: String, _ edge: EdgeAddress, token: String? = nil) -> String {
    "GET \(path) HTTP/1.1\r\nHost: \(edge.host):\(edge.port)\r\n"
      + (token.map { "Authorization: Bearer \($0)\r\n" } ?? "") + "\r\n"
  }

  private static let version = Array("HTTP/1.1 ".utf8)

  /// The status codes of the responses that begin in these bytes.
  static func statuses(_ bytes: ByteBuffer) -> [String] {
    let view = bytes.readableBytesView
    var found: [String] = []
    var at = view.startIndex
    while at + 12 <= view.endIndex {
      guard view[at] == version[0], view[at..<(at + 9)].elementsEqual(version) else {
        at += 1
        continue
      }
      found.append(String(decoding: view[(at + 9)..<(at + 12)], as: UTF8.self))
      at += 12
    }
    return found
  }

  static func isUpgraded(_ bytes: ByteBuffer) -> Bool { statuses(bytes).first == "101" }
}
