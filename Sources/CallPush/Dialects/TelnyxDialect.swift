internal import CallCore

/// Telnyx WebRTC. `metadata` names the call; the alert's text says what it is about, to the letter:
/// "Missed call!" (SDK 3.0.0), "Answered Elsewhere" (4.0.0), and a call for anything else.
///
/// On Android (FCM) the text is the member `message`, and `metadata` is JSON in a string. The
/// Android SDK takes all but "Missed call!" for a call, so it is sent nothing else of an end.
enum TelnyxDialect {
  static func form(_ purpose: PushPurpose, _ provider: PushProvider) -> PayloadForm? {
    guard let text = text(purpose) else { return nil }
    switch provider {
    case .apns:
      return PayloadForm(.voip) { draft in
        [
          PayloadMember("aps", [PayloadMember("alert", text)]),
          metadata(draft), CallmeshDialect.note(draft),
        ]
      }
    case .fcm:
      if purpose == .answeredElsewhere { return nil }
      return PayloadForm(.voip) { draft in
        [PayloadMember("message", text), metadata(draft), CallmeshDialect.note(draft)]
      }
    case .webPush, .none: return nil
    }
  }

  private static func text(_ purpose: PushPurpose) -> String? {
    switch purpose {
    case .ring: "Incoming call!"
    case .missed: "Missed call!"
    case .answeredElsewhere: "Answered Elsewhere"
    case .cancel, .ended, .missedNotice: nil
    }
  }

  /// `voice_sdk_id` and `call_id` are required. The former is put into the socket's address by the
  /// SDK, which proxies log: so it is the call's id, and not the capability.
  private static func metadata(_ draft: PushDraft) -> PayloadMember {
    let call = draft.job.call.description
    return PayloadMember(
      "metadata",
      [
        PayloadMember("voice_sdk_id", call),
        PayloadMember("call_id", call),
        PayloadMember("caller_name", draft.job.caller.user),
        PayloadMember("caller_number", draft.job.caller.user),
      ])
  }
}
