internal import CallCore

/// Sinch: an opaque text of at most 100 bytes that the app hands to its client, under `SIN` where
/// the app's server sends the push, under `sin` where Sinch does; both stand here, so that apps of
/// either kind find theirs. The alert's text comes from Sinch's own localisation keys.
///
/// The text is Sinch's to make: where the caller's header `SIN` holds one it is handed on as it is.
/// Else it is ours, of which the call can be read: `cm1.<call>.<sent>.<deadline>.<a or v>`, the
/// times as milliseconds in hex, the last letter for audio or video.
///
/// On iOS there is no push for the end (`isTimedOut`, by the age); the form on Android is not
/// published.
enum SinchDialect {
  static let payloadBytesMaximum = 100
  static let relayHeader = "SIN"

  static func form(_ purpose: PushPurpose, _ provider: PushProvider) -> PayloadForm? {
    guard purpose == .ring, provider == .apns else { return nil }
    return PayloadForm(.voip, refusal: refusal) { draft in
      let payload = payload(draft.job)
      return [
        PayloadMember(
          "aps",
          [
            PayloadMember(
              "alert",
              [
                PayloadMember("loc-key", "SIN_INCOMING_CALL_DISPLAY_NAME"),
                PayloadMember("loc-args", .texts([draft.job.caller.user])),
              ])
          ]),
        PayloadMember("SIN", payload),
        PayloadMember("sin", payload),
        CallmeshDialect.note(draft),
      ]
    }
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
