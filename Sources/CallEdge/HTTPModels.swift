package import CallCore
internal import CallWire
internal import FoundationEssentials

/// The bodies of the HTTP API. Field names are those of the device protocol's JSON.
enum HTTPModels {
  struct ErrorBody: Encodable {
    struct Details: Encodable {
      var code: UInt16
      var name: String
      var message: String
      var retryAfterMs: UInt32?
    }
    var error: Details
    init(_ error: CallError) {
      let wait = error.retryAfterMilliseconds
      self.error = Details(
        code: error.code.rawValue, name: error.code.name, message: error.message,
        retryAfterMs: wait > 0 ? wait : nil)
    }
  }

  struct Registered: Encodable {
    var device: String
    var expiresAtMs: Int64
    var removedDevices: [String]
  }

  struct State: Encodable {
    struct Call: Encodable {
      var callee: String
      var id: String
    }
    struct By: Encodable {
      var user: String
      var device: String
      var deviceName: String
    }
    var call: Call
    var phase: String
    var version: UInt64
    var reason: String?
    var by: By?
    var atMs: Int64
    var deadlineMs: Int64?
    var missed: Bool
    init(_ state: CallState) {
      call = Call(callee: state.callee, id: state.call.description)
      phase = state.phase.name
      version = state.version
      reason = state.reason?.name
      by = state.by.map {
        By(user: $0.user, device: $0.device.text, deviceName: $0.deviceName)
      }
      atMs = state.at.milliseconds
      deadlineMs = state.deadline?.milliseconds
      missed = state.missed
    }
  }

  struct Nothing: Encodable {}

  struct Readiness: Encodable {
    var ready: Bool
    /// In words, what is missing.
    var missing: [String]
    /// At most 32 of them.
    var shardsWithoutOwner: [Int]
  }

  struct RegisterBody: Decodable {
    struct Token: Decodable {
      var provider: String
      var environment: String?
      var topic: String?
      var token: String
    }
    /// Needed where the token names no device.
    var device: String?
    var deviceName: String?
    var voipToken: Token?
    var alertToken: Token?
    var dialect: String?
    var sdkName: String?
    var sdkVersion: String?
  }

  struct DeclineBody: Decodable {
    var device: String?
    /// `everywhere`, the default, or `here`.
    var scope: String?
  }

  static func encode(_ value: some Encodable) -> [UInt8] {
    let encoder = JSONEncoder()
    encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
    // Plain values of the types above always encode.
    return (try? encoder.encode(value)).map { Array($0) } ?? Array("{}".utf8)
  }

  /// No body has more; see `decode`.
  private static let bracketsMax = 128

  /// An empty body stands for an empty object.
  static func decode<T: Decodable>(_ type: T.Type, _ body: [UInt8]) throws(CallError) -> T {
    // FoundationEssentials' decoder (of Swift 6.3) traps on a text that ends 512 brackets deep.
    let brackets = body.count { $0 == UInt8(ascii: "[") || $0 == UInt8(ascii: "{") }
    guard brackets <= bracketsMax else {
      throw CallError(.malformedFrame, "The body is nested too deeply.")
    }
    do {
      return try JSONDecoder().decode(type, from: Data(body.isEmpty ? Array("{}".utf8) : body))
    } catch DecodingError.dataCorrupted {
      throw CallError(.malformedFrame, "The body is not JSON.")
    } catch DecodingError.keyNotFound(let key, _) {
      throw CallError(.invalidField, "The field \(key.stringValue) is missing.")
    } catch DecodingError.typeMismatch(_, let context), DecodingError.valueNotFound(_, let context)
    {
      let path = context.codingPath.map(\.stringValue).joined(separator: ".")
      throw CallError(.invalidField, "The field \(path) has the wrong type.")
    } catch {
      throw CallError(.malformedFrame, "The body could not be read.")
    }
  }
}

extension HTTPModels.RegisterBody {
  /// Checked by the rules of the device protocol.
  func request(limits: CallLimits) throws(CallError) -> RegistrationRequest {
    let request = RegistrationRequest(
      deviceName: deviceName ?? "", voipToken: try voipToken?.pushToken(),
      alertToken: try alertToken?.pushToken(), dialect: dialect ?? "", sdkName: sdkName ?? "",
      sdkVersion: sdkVersion ?? "")
    // The codec holds the rules of every field: what it reads back was checked.
    let frame = DeviceCodec.protobuf.encode(ClientFrame(id: 1, command: .register(request)))
    let refusal = frame.withUnsafeBytes { bytes -> CallError? in
      do throws(FrameError) {
        _ = try DeviceCodec.protobuf.decodeClient(bytes, limits: limits)
        return nil
      } catch {
        return error.error
      }
    }
    if let refusal { throw refusal }
    return request
  }
}

extension HTTPModels.RegisterBody.Token {
  func pushToken() throws(CallError) -> PushToken {
    guard let known = PushProvider.allCases.first(where: { $0.name == provider }) else {
      throw CallError(.invalidPushToken, "The provider is apns, fcm or webPush.")
    }
    return PushToken(
      provider: known, environment: environment ?? "", topic: topic ?? "", token: token)
  }
}

extension HTTPModels.DeclineBody {
  func declineScope() throws(CallError) -> DeclineScope {
    switch scope {
    case nil, "everywhere": .everywhere
    case "here": .here
    default: throw CallError(.invalidField, "The scope is everywhere or here.")
    }
  }
}

extension CallError.Code {
  /// The HTTP status that goes with an error.
  package var httpStatus: Int {
    switch self {
    case .malformedFrame, .unknownCommand, .wrongFrameType, .notAttached, .alreadyAttached,
      .invalidField, .unsupportedSubprotocol, .invalidDevice, .invalidPushToken,
      .headersTooLarge, .descriptionTooLarge, .invalidCallee, .invalidRingTimeout:
      400
    case .notAccepted, .expired: 401
    case .forbidden, .notParty: 403
    case .noSuchResource, .unknownDevice, .unknownCall: 404
    case .methodNotAllowed: 405
    case .callIDTaken, .callEnded, .wrongState: 409
    case .frameTooLarge: 413
    case .rateLimited, .tooManyCalls, .tooManyLiveCalls, .tooManySignals: 429
    case .internalError: 500
    case .tryAgain, .draining, .overloaded: 503
    }
  }
}
