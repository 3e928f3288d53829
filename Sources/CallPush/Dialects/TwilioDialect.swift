internal import CallCore
internal import CallWire
internal import Crypto

/// Twilio Voice: `twi_message_type` is the kind of the push. APNs and FCM get the same members, all strings.
///
/// Twilio's ids are two letters and 32 hex digits. That of the call is its UUID. Those of account and message are
/// always the same for the same app or push.
enum TwilioDialect {
  static func form(_ purpose: PushPurpose) -> PayloadForm? {
    switch purpose {
    case .ring: PayloadForm(kind: .voip, members: call)
    case .cancel: PayloadForm(kind: .voip, members: cancel)
    case .missed, .answeredElsewhere, .ended, .missedNotice: nil
    }
  }

  @Sendable
  private static func call(_ draft: PushDraft) -> [PayloadMember] {
    let job = draft.job
    let capability = draft.content.capability
    // As `application/x-www-form-urlencoded`, with `%20` for a space, which every reader decodes, unlike `+`.
    let parameters = draft.headers.map {
      "\(PercentEncoding.encode($0.name))=\(PercentEncoding.encode($0.value))"
    }
    let members: [PayloadMember?] = [
      PayloadMember("aps", []),
      PayloadMember("twi_message_type", "twilio.voice.call"),
      PayloadMember("twi_call_sid", "CA" + job.call.hex),
      // The SDK presents this when it attaches for the call.
      PayloadMember("twi_bridge_token", capability.isEmpty ? job.call.description : capability),
      PayloadMember("twi_from", address(job.caller.user)),
      PayloadMember("twi_to", address(job.user.user)),
      PayloadMember("twi_account_sid", sid("AC", job.user.app)),
      PayloadMember(
        "twi_message_id", sid("WB", "\(job.call) \(job.device.text) \(job.purpose.name)")),
      draft.headers.isEmpty ? nil : PayloadMember("twi_params", parameters.joined(separator: "&")),
      CallmeshDialect.note(draft),
    ]
    return members.compactMap(\.self)
  }

  @Sendable
  private static func cancel(_ draft: PushDraft) -> [PayloadMember] {
    let job = draft.job
    return [
      PayloadMember("aps", []),
      PayloadMember("twi_message_type", "twilio.voice.cancel"),
      PayloadMember("twi_call_sid", "CA" + job.call.hex),
      PayloadMember("twi_from", address(job.caller.user)),
      PayloadMember("twi_to", address(job.user.user)),
      CallmeshDialect.note(draft),
    ]
  }

  /// E.164 numbers are unchanged; anything else is a client's identity.
  private static func address(_ user: String) -> String {
    OutsideAddress.isE164(user) ? user : "client:" + user
  }

  private static func sid(_ prefix: String, _ text: String) -> String {
    prefix + hexText(SHA256.hash(data: Array(text.utf8)).prefix(16))
  }
}
