internal import CallCore

/// As in Apple's "Responding to VoIP Notifications from PushKit": `callUUID` and `handle`. An app
/// made after it knows one push, the call; of the end it hears over its connection.
enum AppleDialect {
  static func form(_ purpose: PushPurpose, _ provider: PushProvider) -> PayloadForm? {
    guard purpose == .ring, provider == .apns else { return nil }
    return PayloadForm(.voip) { draft in
      [
        PayloadMember("callUUID", draft.job.call.description),
        PayloadMember("handle", draft.job.caller.user),
        CallmeshDialect.note(draft),
      ]
    }
  }
}

/// Fusion Client SDK, article "VoIPCallsAndCallKit": `UUID`, `handle` and `hasVideo`. Its handler
/// returns without reporting the call where one of the three is missing or of another type, and the
/// system kills the app for it.
enum FCSDKDialect {
  static func form(_ purpose: PushPurpose, _ provider: PushProvider) -> PayloadForm? {
    guard purpose == .ring, provider == .apns else { return nil }
    return PayloadForm(.voip) { draft in
      [
        PayloadMember("UUID", draft.job.call.description),
        PayloadMember("handle", draft.job.caller.user),
        PayloadMember("hasVideo", draft.job.video),
        CallmeshDialect.note(draft),
      ]
    }
  }
}
