/// What a correct sender never does, whether APNs would refuse or tolerate it.
///
/// A refused push alone is not a violation: a token may be gone.
public enum APNsViolation: String, Sendable, CaseIterable {
  // Connections.
  /// The TLS handshake agreed on no `h2`.
  case noALPN
  /// Something else than HTTP/2 was spoken.
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
  /// A push on a connection whose provider token was found expired: it had to be closed.
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
  /// A VoIP push that the app cannot read: it reports no call, and iOS ends it.
  case unreadablePush
  /// A VoIP push that ends a call, to a device whose registration did not ask for such.
  case unwantedEndPush
  /// A second call push, with another `apns-id`, for a call that the device has had.
  case doubledCall
  /// A VoIP push that ends a call that never rang here.
  case endWithoutCall
}

extension APNsReason {
  /// The sender's mistake that this answer tells of; nil where a faultless sender may get it.
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
    // Tokens come from devices: a sender cannot know better. A malformed one it can: the rules say so.
    case .badDeviceToken, .deviceTokenNotForTopic, .unregistered, .expiredToken: nil
    case .badCertificate, .badCertificateEnvironment, .forbidden, .idleTimeout, .tooManyRequests,
      .internalServerError, .serviceUnavailable, .shutdown:
      nil
    }
  }
}
