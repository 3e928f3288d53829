public import CallCore

/// The two forms of the device protocol: one schema, two encodings.
public enum DeviceCodec: Sendable, CaseIterable {
  case protobuf
  case json

  /// The WebSocket subprotocol.
  public var subprotocol: String {
    switch self {
    case .protobuf: "callmesh.v1.pb"
    case .json: "callmesh.v1.json"
    }
  }

  /// Reads a device's frame. Checks form and size of every field (ids, limits of headers and
  /// descriptions), not whether the command makes sense.
  /// - Throws: `FrameError`, with the frame's id where it could be read.
  public func decodeClient(_ bytes: UnsafeRawBufferPointer, limits: CallLimits) throws(FrameError)
    -> ClientFrame
  {
    throw FrameError(id: 0, error: CallError(.internalError))
  }

  public func encode(_ frame: ClientFrame) -> [UInt8] { [] }

  /// Reads an edge's frame, for clients.
  public func decodeServer(_ bytes: UnsafeRawBufferPointer) throws(FrameError) -> ServerFrame {
    throw FrameError(id: 0, error: CallError(.internalError))
  }

  public func encode(_ frame: ServerFrame) -> [UInt8] { [] }
}

/// Why a frame was refused, and the command's id as far as it could be read.
public struct FrameError: Error, Sendable, Equatable {
  public var id: UInt64
  public var error: CallError
  public init(id: UInt64, error: CallError) {
    self.id = id
    self.error = error
  }
}
