/// A refusal, as a device sees it: a stable number, a stable name, and a sentence for a person.
///
/// Expected outcomes of calls (busy, declined, unanswered) are not errors; they are `EndReason`s.
public struct CallError: Error, Hashable, Sendable, CustomStringConvertible {
  public let code: Code
  public let message: String
  /// How long to wait before trying again; 0 where trying again does not help.
  public let retryAfterMilliseconds: UInt32

  public init(_ code: Code, _ message: String? = nil, retryAfterMilliseconds: UInt32 = 0) {
    self.code = code
    self.message = message ?? code.sentence
    self.retryAfterMilliseconds = retryAfterMilliseconds
  }

  public var description: String { "\(code.rawValue) \(code.name): \(message)" }

  /// The table of the wire: 1xx protocol, 2xx authentication, 3xx registration, 4xx call,
  /// 5xx cluster. Numbers are never used again for another meaning.
  public enum Code: UInt16, Sendable, CaseIterable {
    case malformedFrame = 100
    case frameTooLarge = 101
    case unknownCommand = 102
    case wrongFrameType = 103
    case notAttached = 104
    case alreadyAttached = 105
    case invalidField = 106
    case rateLimited = 107
    case unsupportedSubprotocol = 108
    case noSuchResource = 109
    case methodNotAllowed = 110

    case notAccepted = 200
    case expired = 201
    case forbidden = 202
    case tokenTooLong = 203
    case revoked = 204

    case invalidDevice = 300
    case invalidPushToken = 301
    case unknownDevice = 302
    case unknownDialect = 303
    case unknownCapability = 304
    case invalidUserForDialect = 305
    case tooManyDevices = 306
    case foreignPushTopic = 307

    case unknownCall = 400
    case callIDTaken = 401
    case notParty = 402
    // 403 was never raised.
    case wrongState = 404
    case tooManyCalls = 405
    case tooManyLiveCalls = 406
    case headersTooLarge = 407
    case descriptionTooLarge = 408
    case tooManySignals = 409
    case invalidCallee = 410
    case invalidRingTimeout = 411
    case noGateway = 412
    case informationTooLarge = 413
    case pushDataTooLarge = 414
    case tooManyMoves = 415
    case transferring = 416

    // Decisions of the app's hook about a call.
    case refusedByApp = 420
    case unknownUser = 421
    case userUnavailable = 422
    case appAway = 423

    case invalidRules = 430

    case internalError = 500
    case tryAgain = 501
    case draining = 502
    case overloaded = 503
  }
}

extension CallError.Code {
  /// The code's stable name.
  public var name: String { self == .callIDTaken ? "callIdTaken" : "\(self)" }

  /// The meaning of the code, for refusals that give no reason of their own. It names no limits that an operator
  /// may change: a refusal for such a limit names the one in force.
  public var sentence: String {
    switch self {
    case .malformedFrame: "The frame could not be read."
    case .frameTooLarge: "The frame is larger than the edge allows."
    case .unknownCommand: "The frame holds no command that this server knows."
    case .wrongFrameType: "This subprotocol uses the other kind of WebSocket frame."
    case .notAttached: "Send attach first."
    case .alreadyAttached: "This session is attached already."
    case .invalidField: "A field of the command is not valid."
    case .rateLimited: "Too many commands in a short time."
    case .unsupportedSubprotocol: "Offer the subprotocol callmesh.v1.pb or callmesh.v1.json."
    case .noSuchResource: "There is nothing at this path."
    case .methodNotAllowed: "This path does not take that method."
    case .notAccepted: "The token was not accepted."
    case .expired: "The token has expired."
    case .forbidden: "This belongs to another user."
    case .tokenTooLong: "The token is good for longer than tokens may be here."
    case .revoked: "The token was revoked."
    case .invalidDevice: "A device id is 1 to 64 bytes of text that can be seen."
    case .invalidPushToken: "A push token is what its provider gave the app, with the provider."
    case .unknownDevice: "This user has no such device."
    case .unknownDialect:
      "The dialect is callmesh, apple, fcsdk, telnyx, twilio or sinch, or absent."
    case .unknownCapability:
      "Capabilities are missed, answeredElsewhere, cancel, ended and missedNotice."
    case .invalidUserForDialect: "The sinch dialect takes user ids of 1 to 40 ASCII characters."
    case .tooManyDevices: "This user has too many devices."
    case .foreignPushTopic: "The app may not use this push topic."
    case .unknownCall: "There is no such call, or it ended long ago."
    case .callIDTaken: "This call id is in use for a call with other content."
    case .notParty: "This device has no part in the call."
    case .wrongState: "The call is not in a state that allows this."
    case .tooManyCalls: "Too many calls from one caller to one callee in a short time."
    case .tooManyLiveCalls: "Too many live calls on one device."
    case .headersTooLarge: "There are too many headers, or they are too long."
    case .descriptionTooLarge: "The session description is too large."
    case .tooManySignals: "Too many descriptions and candidates wait for one device."
    case .invalidCallee: "A user id is 1 to 128 bytes of text that can be seen."
    case .invalidRingTimeout: "The ring timeout is too short or too long."
    case .noGateway: "There is no such user, and no gateway to phone numbers and SIP addresses."
    case .informationTooLarge: "The information is too large."
    case .pushDataTooLarge: "The data for pushes are too large."
    case .tooManyMoves: "The call was taken over or transferred too often."
    case .transferring: "A side of this call is being transferred already."
    case .refusedByApp: "The app does not allow this call."
    case .unknownUser: "There is no such user."
    case .userUnavailable: "The user takes no calls at present."
    case .invalidRules: "The rules are not valid."
    case .appAway: "The app's server does not answer, and without it the app allows no call."
    case .internalError: "The server failed. The command may or may not have been carried out."
    case .tryAgain: "The cluster cannot answer just now. Send the same command again."
    case .draining: "This node takes no new work. Connect to another."
    case .overloaded: "The cluster has too much to do. Send the same command again later."
    }
  }
}
