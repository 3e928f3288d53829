import CallClient
import NIOCore

/// A TCP connection that sends whatever bytes it is given, and reads or does not.
final class AttackSocket: ChannelInboundHandler {
  typealias InboundIn = ByteBuffer
  typealias OutboundOut = ByteBuffer

  /// Bytes that wait because the edge takes no more. Policy: what comes then is not sent.
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

  /// - Returns: whether it was taken.
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
    guard let context else { return }
    _ = context.channel.setOption(.autoRead, value: false)
  }

  func close() {
    guard !isClosed else { return }
    isClosed = true
    context?.close(promise: nil)
    end()
  }

  func failed() {
    guard !isClosed else { return }
    isClosed = true
    attack.account.connectionsFailed += 1
    end()
  }

  private func end() {
    onEnd()
    // They hold whoever holds this.
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
    guard !isClosed else { return }
    isClosed = true
    attack.account.connectionsClosed += 1
    end()
  }

  func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }
}

extension AttackContext {
  /// Keeps raw connections open, and returns those that are, by number.
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

  /// Keeps WebSockets open after the handshake, and returns those that the edge has accepted, by number.
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

/// The connections of an attack that are open, and whose turn it is.
final class AttackFleet<Member> {
  private(set) var members: [Int: Member] = [:]
  var onEnd: (_ number: Int) -> Void = { _ in }
  private var turn = 0

  func add(_ number: Int, _ member: Member) { members[number] = member }

  func remove(_ number: Int) {
    guard members.removeValue(forKey: number) != nil else { return }
    onEnd(number)
  }

  /// The next of so many, in the order of their numbers; nil where none is open.
  func next(of count: Int) -> (number: Int, member: Member)? {
    guard !members.isEmpty else { return nil }
    for _ in 0..<count {
      turn = (turn + 1) % count
      if let member = members[turn] { return (turn, member) }
    }
    return nil
  }
}
