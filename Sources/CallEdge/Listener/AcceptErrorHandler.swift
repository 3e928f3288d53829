internal import CallBus
internal import NIOCore

#if canImport(Glibc)
  internal import Glibc
#elseif canImport(Musl)
  internal import Musl
#else
  internal import Darwin
#endif

/// Stands on the listening socket: counts and logs that no connection could be accepted for want of file
/// descriptors or memory.
///
/// It needs an `AcceptBackoffHandler` after it. Otherwise the event loop would try again at once, for ever,
/// since the connection stays in the kernel's queue, and the socket readable.
final class AcceptErrorHandler: ChannelInboundHandler {
  typealias InboundIn = any Channel

  private let shared: EdgeShared

  init(_ shared: EdgeShared) { self.shared = shared }

  /// Adds both to a listening channel.
  static func install(on channel: any Channel, _ shared: EdgeShared) throws {
    try channel.pipeline.syncOperations.addHandlers(
      AcceptErrorHandler(shared),
      AcceptBackoffHandler(shouldForwardIOErrorCaught: false) { error in
        Self.isExhaustion(error) ? .seconds(1) : nil
      })
  }

  func errorCaught(context: ChannelHandlerContext, error: any Error) {
    if let error = error as? IOError, Self.isExhaustion(error) {
      shared.gate.refused(.descriptors, nil, now: shared.clock.now())
    }
    context.fireErrorCaught(error)
  }

  private static func isExhaustion(_ error: IOError) -> Bool {
    [EMFILE, ENFILE, ENOBUFS, ENOMEM].contains(error.errnoCode)
  }
}
