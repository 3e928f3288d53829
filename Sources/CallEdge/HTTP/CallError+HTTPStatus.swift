package import CallCore

extension CallError.Code {
  /// The HTTP status that goes with an error.
  package var httpStatus: Int {
    switch self {
    case .malformedFrame, .unknownCommand, .wrongFrameType, .notAttached, .alreadyAttached,
      .invalidField, .unsupportedSubprotocol, .invalidDevice, .invalidPushToken,
      .unknownDialect, .unknownCapability, .invalidUserForDialect, .headersTooLarge,
      .descriptionTooLarge, .invalidCallee, .invalidRingTimeout:
      400
    case .notAccepted, .expired, .tokenTooLong, .revoked: 401
    case .forbidden, .notParty, .foreignPushTopic: 403
    case .noSuchResource, .unknownDevice, .unknownCall: 404
    case .methodNotAllowed: 405
    case .callIDTaken, .wrongState: 409
    case .frameTooLarge: 413
    case .rateLimited, .tooManyDevices, .tooManyCalls, .tooManyLiveCalls, .tooManySignals: 429
    case .internalError: 500
    case .tryAgain, .draining, .overloaded: 503
    }
  }
}
