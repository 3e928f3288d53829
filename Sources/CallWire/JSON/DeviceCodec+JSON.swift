extension DeviceCodec {
  static func decodeJSONClient(_ bytes: UnsafeRawBufferPointer) throws(Fault) -> ClientFrame {
    try JSONParse.whole(bytes, JSONParse.clientFrame)
  }

  static func decodeJSONServer(_ bytes: UnsafeRawBufferPointer) throws(Fault) -> ServerFrame {
    try JSONParse.whole(bytes, JSONParse.serverFrame)
  }

  static func recoverJSONID(_ bytes: UnsafeRawBufferPointer) -> UInt64 {
    JSONParse.frameID(bytes)
  }
}
