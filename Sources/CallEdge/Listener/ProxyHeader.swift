internal import NIOCore

/// The header that a proxy writes before a connection's own bytes: the PROXY protocol, version 2
/// (https://www.haproxy.org/download/1.8/doc/proxy-protocol.txt, 2.2).
package enum ProxyHeader {
  package enum Outcome: Equatable {
    /// The header has not arrived in full.
    case needMore
    /// The bytes are no header, or a longer one than allowed.
    case violation
    /// `bytes`: the length of the header. `source`: whose connection it is; nil where it is the proxy's own, or
    /// of a family without addresses.
    case header(bytes: Int, source: PeerAddress?)
  }

  /// The length of the part before the addresses.
  package static let fixedBytes = 16
  private static let signature: [UInt8] = [
    0x0d, 0x0a, 0x0d, 0x0a, 0x00, 0x0d, 0x0a, 0x51, 0x55, 0x49, 0x54, 0x0a,
  ]

  /// Reads the header.
  /// - Parameters:
  ///   - input: all that has arrived.
  ///   - bytesMax: how many bytes may follow the first 16.
  package static func read(_ input: UnsafeRawBufferPointer, bytesMax: Int) -> Outcome {
    // A peer that sends no header is refused at its first wrong byte.
    guard zip(input, signature).allSatisfy({ $0 == $1 }) else { return .violation }
    guard input.count >= fixedBytes else { return .needMore }
    let (version, command) = (input[12] >> 4, input[12] & 0x0f)
    let length = Int(input[14]) << 8 | Int(input[15])
    guard version == 2, command <= 1, length <= bytesMax else { return .violation }
    let addressBytes = addressBytes(of: input[13])
    guard command == 0 || length >= addressBytes else { return .violation }
    guard input.count >= fixedBytes + length else { return .needMore }
    // LOCAL: the proxy's own connection, as for a health check.
    let source = command == 0 ? nil : source(input[13], input)
    return .header(bytes: fixedBytes + length, source: source)
  }

  private static func addressBytes(of family: UInt8) -> Int {
    switch family >> 4 {
    case 1: 12
    case 2: 36
    case 3: 216
    default: 0
    }
  }

  private static func source(_ family: UInt8, _ input: UnsafeRawBufferPointer) -> PeerAddress? {
    func number<T: FixedWidthInteger>(at offset: Int, as type: T.Type) -> T {
      T(bigEndian: input.loadUnaligned(fromByteOffset: fixedBytes + offset, as: type))
    }
    switch family {
    case 0x11: return PeerAddress(v4: number(at: 0, as: UInt32.self))
    case 0x21:
      return PeerAddress(high: number(at: 0, as: UInt64.self), low: number(at: 8, as: UInt64.self))
    default: return nil
    }
  }
}

/// Takes the PROXY header off a trusted proxy's connection. It stands before all other handlers, TLS as well, and
/// leaves when it has the header. `HTTPHandler` closes a connection on which no request comes in time.
final class ProxyHeaderHandler: ChannelInboundHandler, RemovableChannelHandler {
  typealias InboundIn = ByteBuffer
  typealias InboundOut = ByteBuffer

  private var kept = ByteBuffer()
  private var isDone = false
  private let bytesMax: Int
  /// Is called once, with the header or the violation. Returns whether the connection goes on.
  private let found: (ProxyHeader.Outcome) -> Bool

  init(bytesMax: Int, found: @escaping (ProxyHeader.Outcome) -> Bool) {
    self.bytesMax = bytesMax
    self.found = found
  }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    if isDone { return context.fireChannelRead(data) }
    var buffer = unwrapInboundIn(data)
    kept.writeBuffer(&buffer)
    let outcome = kept.withUnsafeReadableBytes { ProxyHeader.read($0, bytesMax: bytesMax) }
    if outcome == .needMore { return }
    isDone = true
    guard found(outcome), case .header(let bytes, _) = outcome else {
      kept = ByteBuffer()
      return context.close(promise: nil)
    }
    kept.moveReaderIndex(forwardBy: bytes)
    let rest = kept
    kept = ByteBuffer()
    if rest.readableBytes > 0 { context.fireChannelRead(wrapInboundOut(rest)) }
    context.pipeline.syncOperations.removeHandler(context: context, promise: nil)
  }
}
