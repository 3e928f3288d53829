internal import CallCore

/// As in Apple's "Responding to VoIP Notifications from PushKit": `callUUID` and `handle`. An app that follows it reads
/// one push, the call. It learns of the end over its connection. The caller's name is apart, for CallKit's
/// `localizedCallerName`.
enum AppleDialect {
  static let ring = PayloadForm(kind: .voip) { draft in
    let name = draft.caller.name
    return [
      PayloadMember("callUUID", draft.job.call.description),
      PayloadMember("handle", draft.job.caller.user),
      name.isEmpty ? nil : PayloadMember("callerName", name),
      CallmeshDialect.note(draft),
    ].compactMap(\.self)
  }
}

/// Fusion Client SDK, article "VoIPCallsAndCallKit": `UUID`, `handle` and `hasVideo`. If one of the three is missing or
/// has another type, its handler returns without reporting the call, and the system kills the app for it.
enum FCSDKDialect {
  static let ring = PayloadForm(kind: .voip) { draft in
    [
      PayloadMember("UUID", draft.job.call.description),
      PayloadMember("handle", draft.job.caller.user),
      PayloadMember("hasVideo", draft.job.video),
      CallmeshDialect.note(draft),
    ]
  }
}

/// Telnyx WebRTC. `metadata` names the call, and the exact text of the alert selects its kind: "Missed call!" (SDK
/// 3.0.0), "Answered Elsewhere" (4.0.0); any other text is a call.
///
/// On Android (FCM) the text is the member `message`, and `metadata` is JSON in a string. The Android SDK reads every
/// text except "Missed call!" as a call, so it gets no other push of an end.
enum TelnyxDialect {
  static func form(_ purpose: PushPurpose, _ provider: PushProvider) -> PayloadForm? {
    guard let text = text(purpose) else { return nil }
    let message: PayloadMember
    switch provider {
    case .apns: message = PayloadMember("aps", [PayloadMember("alert", text)])
    case .fcm where purpose != .answeredElsewhere: message = PayloadMember("message", text)
    case .fcm, .webPush, .none: return nil
    }
    return PayloadForm(kind: .voip) { [message, metadata($0), CallmeshDialect.note($0)] }
  }

  private static func text(_ purpose: PushPurpose) -> String? {
    switch purpose {
    case .ring: "Incoming call!"
    case .missed: "Missed call!"
    case .answeredElsewhere: "Answered Elsewhere"
    case .cancel, .ended, .missedNotice: nil
    }
  }

  /// `voice_sdk_id` and `call_id` are required. The SDK puts the former into the socket's address, which proxies log.
  /// So it is the call's id and not the capability.
  private static func metadata(_ draft: PushDraft) -> PayloadMember {
    let call = draft.job.call.description
    return PayloadMember(
      "metadata",
      [
        PayloadMember("voice_sdk_id", call),
        PayloadMember("call_id", call),
        PayloadMember("caller_name", draft.caller.shownName),
        PayloadMember("caller_number", draft.job.caller.user),
      ])
  }
}

/// Sinch: an opaque text of at most 100 bytes, which the app passes to its client. Its key is `SIN` if the app's server
/// sends the push and `sin` if Sinch does. The payload has both, for apps of either kind.
///
/// A device without a token for VoIP rings by an alert. Its text is one of Sinch's localisation keys: with the caller's
/// display name, or without one. They are not in VoIP pushes, where the SDK or the app writes the text itself.
///
/// If the caller's header `SIN` contains a text of Sinch, it is forwarded unchanged. Else the text is ours and names
/// the call: `cm1.<call>.<sent>.<deadline>.<a or v>`, with times as milliseconds in hex, and a letter for audio or
/// video.
///
/// iOS has no push for the end (`isTimedOut`, by the age). The form on Android is not published.
enum SinchDialect {
  static let payloadBytesMaximum = 100
  static let relayHeader = "SIN"

  static let ring = PayloadForm(kind: .voip, refusal: refusal, members: members)

  static let alert = PayloadForm(kind: .alert, refusal: refusal) { draft in
    let name = draft.caller.name
    let text =
      name.isEmpty
      ? PayloadMember("alert", [PayloadMember("loc-key", "SIN_INCOMING_CALL")])
      : AlertForm.alert("SIN_INCOMING_CALL_DISPLAY_NAME", draft)
    return [PayloadMember("aps", [text, PayloadMember("sound", "default")])] + members(draft)
  }

  @Sendable
  private static func members(_ draft: PushDraft) -> [PayloadMember] {
    let payload = payload(draft.job)
    return [
      PayloadMember("SIN", payload), PayloadMember("sin", payload), CallmeshDialect.note(draft),
    ]
  }

  @Sendable
  private static func refusal(_ draft: PushDraft) -> PayloadRefusal? {
    let count = payload(draft.job).utf8.count
    return count > payloadBytesMaximum ? .relayedTooLarge(bytes: count) : nil
  }

  private static func payload(_ job: PushJob) -> String {
    if let relayed = job.headers.first(where: { $0.name == relayHeader }) { return relayed.value }
    let times = "\(hex(job.decidedAt.milliseconds)).\(hex(job.ringDeadline.milliseconds))"
    return "cm1.\(job.call.hex).\(times).\(job.video ? "v" : "a")"
  }

  private static func hex(_ milliseconds: Int64) -> String {
    String(max(0, milliseconds), radix: 16)
  }
}
