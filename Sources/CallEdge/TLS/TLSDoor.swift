internal import CallCore
internal import CallTelemetry
internal import NIOCore
internal import NIOSSL
internal import NIOTLS

/// Stands in front of a connection's TLS until the handshake is over, and bounds what that takes. TLS begins with the
/// peer's first byte, so who says nothing costs nothing of it.
final class TLSDoor: ChannelInboundHandler, RemovableChannelHandler {
  typealias InboundIn = ByteBuffer
  typealias OutboundOut = ByteBuffer

  private enum State {
    case waiting
    case handshaking
    /// The peer does not speak TLS, and is told so.
    case refused
  }

  /// The first byte of every handshake: the type of its record.
  private static let handshakeRecord: UInt8 = 22
  /// How long a peer that does not speak TLS may take to close its side.
  private static let linger = TimeAmount.seconds(1)

  private let tls: EdgeTLS
  private let gate: PeerGate
  private let metrics: EdgeMetrics
  private var state = State.waiting
  private var taken = 0

  init(_ tls: EdgeTLS, _ shared: EdgeShared) {
    self.tls = tls
    gate = shared.gate
    metrics = shared.metrics
  }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    let buffer = unwrapInboundIn(data)
    guard let first = buffer.readableBytesView.first else { return }
    switch state {
    case .refused: return
    case .handshaking: break
    case .waiting:
      guard first == Self.handshakeRecord else { return refuse(first, context) }
      state = .handshaking
      do {
        try begin(context)
      } catch {
        return context.close(promise: nil)
      }
    }
    taken += buffer.readableBytes
    guard taken <= gate.limits.handshakeBytesMax else {
      gate.metrics.limit(.handshakeBytes)
      return context.close(promise: nil)
    }
    context.fireChannelRead(data)
  }

  private func begin(_ context: ChannelHandlerContext) throws {
    let handler = NIOSSLServerHandler(context: tls.certificate.context)
    try context.pipeline.syncOperations.addHandlers(
      [TLSExactWrites(), handler, TLSSlices(), TLSWatch(self, metrics)], position: .after(self))
  }

  /// Says so to a browser or a health check; whatever else it is would not understand.
  private func refuse(_ first: UInt8, _ context: ChannelHandlerContext) {
    state = .refused
    gate.metrics.limit(.noTLS)
    guard (UInt8(ascii: "A")...UInt8(ascii: "Z")).contains(first) else {
      return context.close(promise: nil)
    }
    let answer = HTTPAnswer(
      CallError(.malformedFrame, "This port speaks TLS: https:// and wss://."))
    context.writeAndFlush(wrapOutboundOut(ByteBuffer(bytes: answer.bytes)), promise: nil)
    context.close(mode: .output, promise: nil)
    let channel = context.channel
    context.eventLoop.assumeIsolated().scheduleTask(in: Self.linger) { channel.close(promise: nil) }
  }
}

/// Stands behind a connection's TLS until the handshake is over, and counts what became of it.
private final class TLSWatch: ChannelInboundHandler, RemovableChannelHandler {
  typealias InboundIn = ByteBuffer

  private let door: TLSDoor
  private let metrics: EdgeMetrics

  init(_ door: TLSDoor, _ metrics: EdgeMetrics) {
    self.door = door
    self.metrics = metrics
  }

  func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
    guard case .handshakeCompleted? = event as? TLSUserEvent else {
      return context.fireUserInboundEventTriggered(event)
    }
    metrics.tlsHandshakes.increment()
    // Neither is left on a connection that may stay for days.
    let pipeline = context.pipeline.syncOperations
    pipeline.removeHandler(door, promise: nil)
    pipeline.removeHandler(context: context, promise: nil)
  }

  func channelInactive(context: ChannelHandlerContext) {
    metrics.tlsHandshakesFailed.increment()
    context.fireChannelInactive()
  }
}
