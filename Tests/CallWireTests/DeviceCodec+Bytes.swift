import CallCore
import CallWire
import Testing

struct Unexpected: Error {}

extension DeviceCodec {
  func decodeClient(
    _ bytes: [UInt8], limits: CallLimits = CallLimits()
  ) throws(FrameError) -> ClientFrame {
    try bytes.withUnsafeBufferPointer { (buffer) throws(FrameError) in
      try decodeClient(UnsafeRawBufferPointer(buffer), limits: limits)
    }
  }

  func decodeServer(_ bytes: [UInt8]) throws(FrameError) -> ServerFrame {
    try bytes.withUnsafeBufferPointer { (buffer) throws(FrameError) in
      try decodeServer(UnsafeRawBufferPointer(buffer))
    }
  }

  /// Why bytes of a device are refused; expects that they are.
  func refusal(_ bytes: [UInt8], limits: CallLimits = CallLimits()) -> FrameError? {
    #expect(throws: FrameError.self) { try decodeClient(bytes, limits: limits) }
  }

  func refusal(_ frame: ClientFrame) -> FrameError? { refusal(encode(frame)) }

  /// The frame as an edge reads it.
  func read(_ frame: ClientFrame) throws(FrameError) -> ClientFrame {
    try decodeClient(encode(frame))
  }
}

extension FrameError {
  var code: CallError.Code { error.code }
}
