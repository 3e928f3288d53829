internal import CCallProto
internal import CallCore

extension DeviceCodec {
  @safe
  static func decodeJSONClient(_ bytes: UnsafeRawBufferPointer) throws(Fault) -> ClientFrame {
    try MessageReader.value(Callmesh__V1__ClientFrame.self, bytes, .clientFrame, memoryPerByte: 16)
  }

  @safe
  static func decodeJSONServer(_ bytes: UnsafeRawBufferPointer) throws(Fault) -> ServerFrame {
    try MessageReader.value(Callmesh__V1__ServerFrame.self, bytes, .serverFrame)
  }

  /// The number of a frame whose command could not be read, as far as the text is JSON; 0 where
  /// there is none.
  @safe
  static func recoverJSONID(_ bytes: UnsafeRawBufferPointer) -> UInt64 {
    var json = unsafe JSONCursor(bytes)
    var id: UInt64 = 0
    do throws(Fault) {
      try json.object("") { (json, key) throws(Fault) in
        if "id" ~= key { id = try json.number("id") } else { try json.skip() }
      }
    } catch {}  // It is refused anyhow; what came before the fault counts.
    return id
  }
}
