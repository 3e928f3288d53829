internal import CallAuth
package import CallCore
internal import CallWire
internal import NIOHTTP1

/// A whole HTTP response. It is thrown where it refuses a request.
struct HTTPAnswer: Error {
  var status: Int
  var contentType = "application/json"
  var headers: [(String, String)] = []
  var body: [UInt8]
  /// The error that the answer reports; it is counted.
  var error: CallError.Code?

  /// 200, with an empty JSON object.
  static var empty: HTTPAnswer { HTTPAnswer(status: 200, body: Array("{}".utf8)) }
}

extension HTTPAnswer {
  init(_ error: CallError, headers: [(String, String)] = []) {
    self.init(
      status: error.code.httpStatus, headers: headers,
      body: HTTPBodies.error(error), error: error.code)
    if error.retryAfterMilliseconds > 0 || status == 503 {
      // One second where the error gives no time: the cluster is likely to recover soon.
      let seconds = max(1, (UInt64(error.retryAfterMilliseconds) + 999) / 1000)
      self.headers.append(("retry-after", "\(seconds)"))
    }
    if status == 401 { self.headers.append(("www-authenticate", "Bearer")) }
  }

  init(_ failure: HTTPRoute.Failure) {
    switch failure {
    case .notFound: self.init(CallError(.noSuchResource))
    case .method(let allowed):
      self.init(CallError(.methodNotAllowed), headers: [("allow", allowed)])
    case .invalid(let error): self.init(error)
    }
  }

  init(_ reply: Reply, to body: Command.Body? = nil, device: DeviceID) {
    if case .app(let answer) = reply {
      self.init(status: 200, body: HTTPBodies.app(answer))
      return
    }
    switch ServerReply(reply, to: body, device: device) {
    case .error(let error): self.init(error)
    case .done, .attached, .calls: self = .empty
    case .registered(let info): self.init(status: 200, body: HTTPBodies.registered(info))
    case .history(let page): self.init(status: 200, body: HTTPBodies.history(page))
    case .rules(let rules): self.init(status: 200, body: HTTPBodies.userRules(rules))
    case .call(let state), .answer(_, let state):
      self.init(status: 200, body: HTTPBodies.callState(state))
    }
  }
}

extension CallError.Code {
  /// The HTTP status of an answer with this error.
  package var httpStatus: Int {
    switch self {
    case .malformedFrame, .unknownCommand, .wrongFrameType, .notAttached, .alreadyAttached,
      .invalidField, .unsupportedSubprotocol, .invalidDevice, .invalidPushToken,
      .unknownDialect, .unknownCapability, .invalidUserForDialect, .headersTooLarge,
      .descriptionTooLarge, .informationTooLarge, .pushDataTooLarge, .invalidCallee,
      .invalidRingTimeout, .invalidRules:
      400
    case .notAccepted, .expired, .tokenTooLong, .revoked: 401
    case .forbidden, .notParty, .foreignPushTopic, .refusedByApp: 403
    case .noSuchResource, .noGateway, .unknownDevice, .unknownCall, .unknownUser: 404
    case .methodNotAllowed: 405
    case .callIDTaken, .wrongState, .transferring, .userUnavailable: 409
    case .frameTooLarge: 413
    case .rateLimited, .tooManyDevices, .tooManyCalls, .tooManyLiveCalls, .tooManySignals,
      .tooManyMoves:
      429
    case .internalError: 500
    case .tryAgain, .draining, .overloaded, .appAway: 503
    }
  }
}
