/// The reasons for which APNs refuses a push (Apple: "Handling notification responses from APNs").
public enum APNsReason: String, Sendable, CaseIterable {
  case badCollapseID = "BadCollapseId"
  case badDeviceToken = "BadDeviceToken"
  case badExpirationDate = "BadExpirationDate"
  case badMessageID = "BadMessageId"
  case badPriority = "BadPriority"
  case badTopic = "BadTopic"
  case deviceTokenNotForTopic = "DeviceTokenNotForTopic"
  case duplicateHeaders = "DuplicateHeaders"
  case idleTimeout = "IdleTimeout"
  case invalidPushType = "InvalidPushType"
  case missingDeviceToken = "MissingDeviceToken"
  case missingTopic = "MissingTopic"
  case payloadEmpty = "PayloadEmpty"
  case topicDisallowed = "TopicDisallowed"
  case badCertificate = "BadCertificate"
  case badCertificateEnvironment = "BadCertificateEnvironment"
  case expiredProviderToken = "ExpiredProviderToken"
  case forbidden = "Forbidden"
  case invalidProviderToken = "InvalidProviderToken"
  case missingProviderToken = "MissingProviderToken"
  case unrelatedKeyIDInToken = "UnrelatedKeyIdInToken"
  /// As on the wire; Apple's page writes `BadEnvironmentKeyIdInToken`.
  case badEnvironmentKeyInToken = "BadEnvironmentKeyInToken"
  case badPath = "BadPath"
  case methodNotAllowed = "MethodNotAllowed"
  case expiredToken = "ExpiredToken"
  case unregistered = "Unregistered"
  case payloadTooLarge = "PayloadTooLarge"
  case tooManyProviderTokenUpdates = "TooManyProviderTokenUpdates"
  case tooManyRequests = "TooManyRequests"
  case internalServerError = "InternalServerError"
  case serviceUnavailable = "ServiceUnavailable"
  case shutdown = "Shutdown"

  /// The HTTP status of the reason.
  public var status: Int {
    switch self {
    case .badCollapseID, .badDeviceToken, .badExpirationDate, .badMessageID, .badPriority,
      .badTopic, .deviceTokenNotForTopic, .duplicateHeaders, .idleTimeout, .invalidPushType,
      .missingDeviceToken, .missingTopic, .payloadEmpty, .topicDisallowed:
      400
    case .badCertificate, .badCertificateEnvironment, .expiredProviderToken, .forbidden,
      .invalidProviderToken, .missingProviderToken, .unrelatedKeyIDInToken,
      .badEnvironmentKeyInToken:
      403
    case .badPath: 404
    case .methodNotAllowed: 405
    case .expiredToken, .unregistered: 410
    case .payloadTooLarge: 413
    case .tooManyProviderTokenUpdates, .tooManyRequests: 429
    case .internalServerError: 500
    case .serviceUnavailable, .shutdown: 503
    }
  }
}

/// An error that a correct sender never makes, whether APNs refuses or tolerates it.
///
/// A refused push alone is no violation, since a token may be gone.
public enum APNsViolation: String, Sendable, CaseIterable {
  // Connections.
  /// The TLS handshake agreed on no `h2`.
  case noALPN
  /// The connection did not use HTTP/2.
  case notHTTP2
  /// A stream above the limit that was in force.
  case tooManyStreams
  /// PRIORITY, as a frame or within HEADERS: Apple asks not to send it.
  case priorityFrame
  /// A client may not push.
  case pushPromise
  /// More bytes than the flow control window allowed.
  case windowOverrun
  /// A frame or a header block against RFC 9113 or RFC 7541.
  case protocolError
  /// A header list over 8000 bytes.
  case headerListTooLarge
  /// `:path` went into HPACK's dynamic table, or came from it.
  case indexedPath
  /// `authorization` went into HPACK's dynamic table, or came from it.
  case indexedAuthorization
  /// Header fields that HTTP/2 forbids, or the same pseudo-header field twice.
  case malformedRequest

  // Requests.
  case badMethod
  case badPath
  case duplicateHeaders
  case badMessageID
  case missingProviderToken
  /// A provider token that is malformed, or of an unknown key, or signed wrongly, or from the future.
  case invalidProviderToken
  case expiredProviderToken
  /// A second provider token on a connection, too soon after the first.
  case providerTokenUpdates
  /// Another team, or another key, than the connection began with.
  case foreignProviderToken
  /// A push on a connection whose provider token had expired, and which had to be closed.
  case usedWedgedConnection
  case badTopic
  case badPushType
  case badPriority
  /// A VoIP push with another priority than 10.
  case voipPriority
  case badExpiration
  /// A VoIP push that may be stored: without `apns-expiration`, or with one more than 60 s ahead.
  case voipExpiration
  case badCollapseID
  case badPayload
  case payloadTooLarge
  case badToken
  /// A push type that the device token is not for.
  case tokenNotForTopic

  // Devices.
  /// A VoIP push that the app cannot read. It reports no call, and iOS ends the app.
  case unreadablePush
  /// A VoIP push that ends a call, to a device whose registration did not ask for such.
  case unwantedEndPush
  /// A second push, with another `apns-id`, for a call that the device has received.
  case doubledCall
  /// A VoIP push that ends a call that never rang here.
  case endWithoutCall
}

extension APNsReason {
  /// The sender's error that this answer shows; nil if a correct sender may get the answer.
  var violation: APNsViolation? {
    switch self {
    case .methodNotAllowed: .badMethod
    case .badPath, .missingDeviceToken: .badPath
    case .duplicateHeaders: .duplicateHeaders
    case .badMessageID: .badMessageID
    case .missingProviderToken: .missingProviderToken
    case .invalidProviderToken: .invalidProviderToken
    case .expiredProviderToken: .expiredProviderToken
    case .tooManyProviderTokenUpdates: .providerTokenUpdates
    case .unrelatedKeyIDInToken, .badEnvironmentKeyInToken: .foreignProviderToken
    case .missingTopic, .badTopic, .topicDisallowed: .badTopic
    case .invalidPushType: .badPushType
    case .badPriority: .badPriority
    case .badExpirationDate: .badExpiration
    case .badCollapseID: .badCollapseID
    case .payloadEmpty: .badPayload
    case .payloadTooLarge: .payloadTooLarge
    // Tokens come from devices, so a sender cannot detect these. It can detect a malformed token, which the rules count
    // separately.
    case .badDeviceToken, .deviceTokenNotForTopic, .unregistered, .expiredToken: nil
    case .badCertificate, .badCertificateEnvironment, .forbidden, .idleTimeout, .tooManyRequests,
      .internalServerError, .serviceUnavailable, .shutdown:
      nil
    }
  }
}
