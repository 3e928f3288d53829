internal import CallCore

extension DeviceCodec {
  static func decodeJSONClient(_ bytes: UnsafeRawBufferPointer) throws(Fault) -> ClientFrame {
    throw .malformed
  }
  static func decodeJSONServer(_ bytes: UnsafeRawBufferPointer) throws(Fault) -> ServerFrame {
    throw .malformed
  }
  static func recoverJSONID(_ bytes: UnsafeRawBufferPointer) -> UInt64 { 0 }
}

enum JSONForm {
  static func bytes(_ frame: ClientFrame) -> [UInt8] { [] }
  static func bytes(_ frame: ServerFrame) -> [UInt8] { [] }
}
