import FoundationEssentials
import NIOCore
import NIOPosix

/// A socket between the process of a run and a process of devices. Each message is a length of four bytes,
/// and so many bytes of JSON.
final class PartChannel: Sendable {
  private let channel: any Channel

  private init(_ channel: any Channel) { self.channel = channel }

  /// - Parameters:
  ///   - descriptor: of a connected socket, which the channel closes.
  ///   - received: called in the order of the messages, on the channel's loop.
  ///   - ended: called once, after the last message. The cause is nil where the other side closed it.
  static func open(
    _ descriptor: CInt, on group: any EventLoopGroup, bytesMax: Int,
    received: @escaping @Sendable (Data) -> Void,
    ended: @escaping @Sendable ((any Error)?) -> Void
  ) async throws -> PartChannel {
    let channel = try await ClientBootstrap(group: group)
      .channelInitializer { channel in
        channel.eventLoop.makeCompletedFuture {
          try channel.pipeline.syncOperations.addHandler(
            ByteToMessageHandler(LengthDecoder(bytesMax: bytesMax), maximumBufferSize: bytesMax + 4)
          )
          try channel.pipeline.syncOperations.addHandler(Receiver(received, ended))
        }
      }
      .withConnectedSocket(descriptor).get()
    return PartChannel(channel)
  }

  /// A message that cannot be sent is lost: the end of the channel shows that.
  func send(_ message: some Encodable) {
    guard let body = try? JSONEncoder().encode(message) else { return }
    var buffer = channel.allocator.buffer(capacity: body.count + 4)
    buffer.writeInteger(UInt32(body.count))
    buffer.writeBytes(body)
    channel.writeAndFlush(buffer, promise: nil)
  }

  func close() { channel.close(promise: nil) }
}

private struct LengthDecoder: ByteToMessageDecoder {
  typealias InboundOut = ByteBuffer
  let bytesMax: Int

  mutating func decode(context: ChannelHandlerContext, buffer: inout ByteBuffer) throws
    -> DecodingState
  {
    guard let length = buffer.getInteger(at: buffer.readerIndex, as: UInt32.self) else {
      return .needMoreData
    }
    guard length <= bytesMax else { throw MessageTooLong(bytes: Int(length)) }
    guard buffer.readableBytes >= 4 + Int(length) else { return .needMoreData }
    buffer.moveReaderIndex(forwardBy: 4)
    guard let body = buffer.readSlice(length: Int(length)) else { return .needMoreData }
    context.fireChannelRead(wrapInboundOut(body))
    return .continue
  }

  mutating func decodeLast(
    context: ChannelHandlerContext, buffer: inout ByteBuffer, seenEOF: Bool
  ) throws -> DecodingState { .needMoreData }
}

struct MessageTooLong: Error, CustomStringConvertible {
  var bytes: Int
  var description: String { "a message of \(Units.bytes(UInt64(bytes)))" }
}

private final class Receiver: ChannelInboundHandler {
  typealias InboundIn = ByteBuffer
  private let received: (Data) -> Void
  private let ended: ((any Error)?) -> Void
  private var cause: (any Error)?

  init(
    _ received: @escaping @Sendable (Data) -> Void,
    _ ended: @escaping @Sendable ((any Error)?) -> Void
  ) {
    self.received = received
    self.ended = ended
  }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    received(Data(unwrapInboundIn(data).readableBytesView))
  }

  func errorCaught(context: ChannelHandlerContext, error: any Error) {
    // The first of several errors is the cause. A broken connection is the end of the process, and no more.
    if cause == nil, error is MessageTooLong { cause = error }
    context.close(promise: nil)
  }

  func channelInactive(context: ChannelHandlerContext) { ended(cause) }
}
