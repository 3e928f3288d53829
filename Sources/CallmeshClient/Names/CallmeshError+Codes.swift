internal import CallCore

extension CallmeshError {
  /// A code below 900 is one of the device protocol's; it never changes its meaning. Those from 900 on are this library's own.
  public struct Code: RawRepresentable, Hashable, Sendable {
    public let rawValue: UInt16
    public init(rawValue: UInt16) { self.rawValue = rawValue }

    init(_ code: CallError.Code) { self.init(rawValue: code.rawValue) }

    public static let malformedFrame = Code(.malformedFrame)
    public static let frameTooLarge = Code(.frameTooLarge)
    public static let unknownCommand = Code(.unknownCommand)
    public static let wrongFrameType = Code(.wrongFrameType)
    public static let notAttached = Code(.notAttached)
    public static let alreadyAttached = Code(.alreadyAttached)
    public static let invalidField = Code(.invalidField)
    public static let rateLimited = Code(.rateLimited)
    public static let unsupportedSubprotocol = Code(.unsupportedSubprotocol)
    public static let noSuchResource = Code(.noSuchResource)
    public static let methodNotAllowed = Code(.methodNotAllowed)
    public static let notAccepted = Code(.notAccepted)
    public static let expired = Code(.expired)
    public static let forbidden = Code(.forbidden)
    public static let tokenTooLong = Code(.tokenTooLong)
    public static let revoked = Code(.revoked)
    public static let invalidDevice = Code(.invalidDevice)
    public static let invalidPushToken = Code(.invalidPushToken)
    public static let unknownDevice = Code(.unknownDevice)
    public static let unknownDialect = Code(.unknownDialect)
    public static let unknownCapability = Code(.unknownCapability)
    public static let invalidUserForDialect = Code(.invalidUserForDialect)
    public static let tooManyDevices = Code(.tooManyDevices)
    public static let foreignPushTopic = Code(.foreignPushTopic)
    public static let unknownCall = Code(.unknownCall)
    public static let callIDTaken = Code(.callIDTaken)
    public static let notParty = Code(.notParty)
    public static let wrongState = Code(.wrongState)
    public static let tooManyCalls = Code(.tooManyCalls)
    public static let tooManyLiveCalls = Code(.tooManyLiveCalls)
    public static let headersTooLarge = Code(.headersTooLarge)
    public static let descriptionTooLarge = Code(.descriptionTooLarge)
    public static let tooManySignals = Code(.tooManySignals)
    public static let invalidCallee = Code(.invalidCallee)
    public static let invalidRingTimeout = Code(.invalidRingTimeout)
    public static let noGateway = Code(.noGateway)
    public static let informationTooLarge = Code(.informationTooLarge)
    public static let pushDataTooLarge = Code(.pushDataTooLarge)
    public static let tooManyMoves = Code(.tooManyMoves)
    public static let transferring = Code(.transferring)
    public static let refusedByApp = Code(.refusedByApp)
    public static let unknownUser = Code(.unknownUser)
    public static let userUnavailable = Code(.userUnavailable)
    public static let appAway = Code(.appAway)
    public static let invalidRules = Code(.invalidRules)
    public static let internalError = Code(.internalError)
    public static let tryAgain = Code(.tryAgain)
    public static let draining = Code(.draining)
    public static let overloaded = Code(.overloaded)

    /// The device is not started, or was stopped.
    public static let stopped = Code(rawValue: 900)
    /// Another copy of this device attached, or the device was removed.
    public static let replaced = Code(rawValue: 901)
    /// `DeviceOptions.getToken` failed, or neither it nor a token was given.
    public static let noToken = Code(rawValue: 902)
  }
}

extension CallmeshError.Code {
  /// The code in words.
  public var name: String {
    switch self {
    case .stopped: "stopped"
    case .replaced: "replaced"
    case .noToken: "noToken"
    default: CallError.Code(rawValue: rawValue)?.name ?? "unknownError"
    }
  }

  var sentence: String {
    switch self {
    case .stopped: "The device is stopped."
    case .replaced: "The device attached elsewhere, or was removed."
    case .noToken: "There is no token."
    default: CallError.Code(rawValue: rawValue)?.sentence ?? "The reason is not known."
    }
  }
}
