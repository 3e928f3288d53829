internal import CCallProto
public import CallCore

/// The two forms of the device protocol: one schema, two encodings.
public enum DeviceCodec: Sendable, CaseIterable {
  case protobuf
  case json

  /// The most bytes a device's frame may have in protobuf.
  public static let frameBytesMaximum = 131_072
  /// The most bytes that JSON needs for one byte of text: `\u0001`.
  private static let escapeBytesMaximum = 6

  /// The most bytes a device's frame may have. Whatever fits into protobuf fits into JSON, however its
  /// text is escaped.
  /// - Parameter protobufBytes: the limit in protobuf.
  public func frameBytesMaximum(protobufBytes: Int = Self.frameBytesMaximum) -> Int {
    switch self {
    case .protobuf: protobufBytes
    case .json: protobufBytes * Self.escapeBytesMaximum
    }
  }

  /// The WebSocket subprotocol.
  public var subprotocol: String {
    switch self {
    case .protobuf: "callmesh.v1.pb"
    case .json: "callmesh.v1.json"
    }
  }

  /// Reads a device's frame. Checks form and size of every field (ids, limits of headers and
  /// descriptions), not whether the command makes sense. Push tokens come out in their one form.
  /// - Throws: `FrameError`, with the frame's id where it could be read.
  public func decodeClient(_ bytes: UnsafeRawBufferPointer, limits: CallLimits) throws(FrameError)
    -> ClientFrame
  {
    guard bytes.count <= frameBytesMaximum() else { throw unsafe tooLarge(bytes) }
    let frame: ClientFrame
    do throws(Fault) {
      switch self {
      case .protobuf:
        frame = try Unpacker.value(
          Callmesh__V1__ClientFrame.self, bytes, memoryPerByte: 16, isDeviceProtocol: true)
      case .json:
        frame = try MessageReader.value(
          Callmesh__V1__ClientFrame.self, bytes, .clientFrame, memoryPerByte: 16)
      }
    } catch {
      throw FrameError(id: recoverID(bytes), error: CallError(error))
    }
    do throws(CallError) {
      return try FrameRules(limits: limits).checked(frame)
    } catch {
      throw FrameError(id: frame.id, error: error)
    }
  }

  public func encode(_ frame: ClientFrame) -> [UInt8] {
    switch self {
    case .protobuf: Packer.bytes(Callmesh__V1__ClientFrame.self, frame)
    case .json: MessageWriter.bytes(Callmesh__V1__ClientFrame.self, frame, .clientFrame)
    }
  }

  /// Reads an edge's frame, for clients. Codes of errors that this version does not know are read
  /// as `internalError`.
  /// - Throws: `FrameError`.
  public func decodeServer(_ bytes: UnsafeRawBufferPointer) throws(FrameError) -> ServerFrame {
    do throws(Fault) {
      switch self {
      case .protobuf:
        return try Unpacker.value(
          Callmesh__V1__ServerFrame.self, bytes, memoryPerByte: 256, isDeviceProtocol: true)
      case .json:
        return try MessageReader.value(Callmesh__V1__ServerFrame.self, bytes, .serverFrame)
      }
    } catch {
      throw FrameError(id: 0, error: CallError(error))
    }
  }

  public func encode(_ frame: ServerFrame) -> [UInt8] {
    var bytes: [UInt8] = []
    withEncoded(frame) { bytes = unsafe [UInt8]($0) }
    return bytes
  }

  /// Calls `body` with the frame's bytes, which exist only during the call. It must not encode anything itself.
  @safe
  package func withEncoded(_ frame: ServerFrame, _ body: (UnsafeRawBufferPointer) -> Void) {
    switch self {
    case .protobuf: Packer.withBytes(Callmesh__V1__ServerFrame.self, frame, body)
    case .json:
      unsafe MessageWriter.bytes(Callmesh__V1__ServerFrame.self, frame, .serverFrame)
        .withUnsafeBytes(body)
    }
  }

  /// A frame that is larger than allowed is refused under its id, where that stands in its beginning.
  public static let idSearchedBytes = 1024

  /// - Parameter beginning: what there is of the frame; its first `idSearchedBytes` count.
  public func tooLarge(_ beginning: UnsafeRawBufferPointer) -> FrameError {
    let searched = unsafe UnsafeRawBufferPointer(rebasing: beginning.prefix(Self.idSearchedBytes))
    let sentence = "A frame is at most \(frameBytesMaximum()) bytes."
    return FrameError(
      id: recoverID(searched),
      error: self == .json ? CallError(.frameTooLarge, sentence) : CallError(.frameTooLarge))
  }

  @safe
  private func recoverID(_ bytes: UnsafeRawBufferPointer) -> UInt64 {
    switch self {
    case .protobuf: Self.recoverProtobufID(bytes)
    case .json: Self.recoverJSONID(bytes)
    }
  }
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

extension CallError {
  /// The error for bytes of a device that could not be read.
  init(_ fault: Fault) {
    switch fault {
    case .malformed: self.init(.malformedFrame)
    case .unknownMember, .laterFormat: self.init(.unknownCommand)
    case .secondCommand: self.init(.unknownCommand, fault.sentence)
    case .unknownCapability: self.init(Code.unknownCapability)
    case .field, .missing: self.init(.invalidField, fault.sentence)
    }
  }
}
