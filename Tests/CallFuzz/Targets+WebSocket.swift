internal import CallClient
internal import CallEdge
internal import NIOCore

extension FuzzTarget {
  /// First a byte that says how the rest is cut: however it comes, it means the same.
  static let webSocket = FuzzTarget("websocket") { bytes in
    var bytes = bytes
    let choice = bytes.takeChoice()
    let whole = words([bytes[...]], choice)
    let pieces = stride(from: 0, to: bytes.count, by: choice % 7 + 1).map {
      bytes[$0..<min(bytes.count, $0 + choice % 7 + 1)]
    }
    try promise(words(pieces, choice) == whole, "it depends on how it is cut: \(whole)")
  }

  private static func words(_ pieces: [ArraySlice<UInt8>], _ choice: Int) -> [String] {
    // As before the attach, and after it.
    let (small, large) = (300, 1000)
    var reader = WebSocketServerReader(
      messageBytesMax: small, skippedBytesMax: 2000, fragmentsMax: 8,
      beginningBytesMax: choice & 64 == 0 ? 0 : 16)
    let scratch = UnsafeMutableRawBufferPointer.allocate(byteCount: large, alignment: 16)
    defer { scratch.deallocate() }
    var words: [String] = []
    var rest: [UInt8] = []
    for piece in pieces {
      rest += piece
      var consumed = 0
      while let event = rest.withUnsafeBytes({ word(&reader, $0, &consumed, scratch) }) {
        words.append(event)
        if event.hasPrefix("violation") { return words }
        if choice & 128 != 0 { reader.messageBytesMax = large }
      }
      rest.removeFirst(consumed)
    }
    return words.filter { $0 != "nothing" } + ["\(reader.isAmidMessage) \(reader.keptBytes)"]
  }

  /// nil: nothing whole is there.
  private static func word(
    _ reader: inout WebSocketServerReader, _ input: UnsafeRawBufferPointer,
    _ consumed: inout Int, _ scratch: UnsafeMutableRawBufferPointer
  ) -> String? {
    switch reader.next(input, consumed: &consumed, scratch: scratch) {
    case .needMore: nil
    case .message(let kind, let payload): "\(kind) \(Array(payload))"
    case .ping(let payload): "ping \(Array(payload))"
    case .pong: "pong"
    case .nothing: "nothing"
    case .close(let code): "close \(code ?? 0)"
    case .tooLarge(let beginning): "too large \(Array(beginning))"
    case .violation(let reason): "violation \(reason)"
    }
  }

  /// Messages that an edge, or a peer that claims to be one, sends to a device.
  static let webSocketClient = FuzzTarget("websocket-client") { bytes in
    let handshake = WebSocketHandshake(
      nonce: [UInt8](repeating: 7, count: 16), subprotocol: "callmesh.v1.json")
    _ = handshake.refusal(of: bytes.text)
    var reader = WebSocketClientReader(messageMax: 1000)
    var buffer = ByteBuffer(bytes: bytes)
    while let event = try? reader.next(from: &buffer) {
      if case .text(let message) = event {
        try promise(message.readableBytes <= 1000, "a message of \(message.readableBytes) bytes")
      }
    }
  }
}
