import CallCore
import CallWire

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
}
