internal import CallCore
internal import CallTelemetry
internal import NIOCore
internal import NIOSSL
internal import NIOTLS

/// Stands before a connection's TLS handler until the handshake is over, and limits how many bytes the handshake takes.
/// It adds the TLS handler with the peer's first byte, so a peer that sends nothing costs no TLS state.
final class TLSHandshakeHandler: ChannelInboundHandler, RemovableChannelHandler {
  typealias InboundIn = ByteBuffer

  private enum State {
    case waiting
    case handshaking
    /// The peer does not speak TLS, and gets an error.
    case refused
  }

  /// The first byte of every handshake: the type of its record.
  private static let handshakeRecord: UInt8 = 22

  private let tls: EdgeTLS
  private let bytesMax: Int
  private let metrics: EdgeMetrics
  private var state = State.waiting
  private var bytesRead = 0

  init(_ tls: EdgeTLS, _ shared: EdgeShared) {
    self.tls = tls
    bytesMax = shared.gate.limits.handshakeBytesMax
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
    bytesRead += buffer.readableBytes
    guard bytesRead <= bytesMax else {
      metrics.count(limit: .handshakeBytes)
      return context.close(promise: nil)
    }
    context.fireChannelRead(data)
  }

  private func begin(_ context: ChannelHandlerContext) throws {
    let handler = NIOSSLServerHandler(context: tls.certificate.context)
    try context.pipeline.syncOperations.addHandlers(
      [TLSExactWrites(), handler, TLSSlices(), TLSHandshakeMetrics(self, metrics)],
      position: .after(self))
  }

  /// Answers a peer that speaks HTTP, such as a browser or a health check, and closes the connection.
  private func refuse(_ first: UInt8, _ context: ChannelHandlerContext) {
    state = .refused
    metrics.count(limit: .noTLS)
    guard (UInt8(ascii: "A")...UInt8(ascii: "Z")).contains(first) else {
      return context.close(promise: nil)
    }
    context.close(
      with: HTTPAnswer(CallError(.malformedFrame, "This port speaks TLS: https:// and wss://.")))
  }
}

/// Stands after a connection's TLS handler until the handshake is over, and counts its result.
private final class TLSHandshakeMetrics: ChannelInboundHandler, RemovableChannelHandler {
  typealias InboundIn = ByteBuffer

  private let handshake: TLSHandshakeHandler
  private let metrics: EdgeMetrics

  init(_ handshake: TLSHandshakeHandler, _ metrics: EdgeMetrics) {
    self.handshake = handshake
    self.metrics = metrics
  }

  func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
    guard case .handshakeCompleted? = event as? TLSUserEvent else {
      return context.fireUserInboundEventTriggered(event)
    }
    metrics.tlsHandshakes.increment()
    // Neither is needed from now on, and the connection may stay open for days.
    let pipeline = context.pipeline.syncOperations
    pipeline.removeHandler(handshake, promise: nil)
    pipeline.removeHandler(context: context, promise: nil)
  }

  func channelInactive(context: ChannelHandlerContext) {
    metrics.tlsHandshakesFailed.increment()
    context.fireChannelInactive()
  }
}
