internal import CallCore

extension DeviceCodec {
  static func decodeJSONClient(_ bytes: UnsafeRawBufferPointer) throws(Fault) -> ClientFrame {
    try JSONReader.read(ClientFrameJSON.self, bytes).frame
  }

  static func decodeJSONServer(_ bytes: UnsafeRawBufferPointer) throws(Fault) -> ServerFrame {
    try JSONReader.read(ServerFrameJSON.self, bytes).frame()
  }

  /// The number of a frame whose command could not be read; 0 where there is none.
  static func recoverJSONID(_ bytes: UnsafeRawBufferPointer) -> UInt64 {
    do throws(Fault) {
      return try JSONReader.read(FrameIDJSON.self, bytes).id ?? 0
    } catch {
      return 0
    }
  }
}
