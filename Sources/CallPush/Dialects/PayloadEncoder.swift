public import CallCore

/// Encodes the payloads of pushes in the dialect that the device's SDK reads.
///
/// A pure function: the same content gives the same bytes. The forms are in `docs/device-protocol.md`, "Push payloads".
public enum PayloadEncoder {
  public static func encode(_ content: PushContent) -> PayloadOutcome {
    let job = content.job
    var draft = PushDraft(content)
    guard let form = DialectTable.form(of: job) else {
      return .noSuchPush
    }
    if let refusal = form.refusal(draft) { return .refused(refusal) }

    let limit = Self.bytesMaximum(job.token.provider, form.kind)
    var (bytes, apple) = render(form.members(draft), for: job.token.provider)
    while bytes.count + apple.count > limit {
      let count = bytes.count + apple.count
      guard draft.shed(count - limit) else {
        return .refused(.tooLarge(bytes: count, limit: limit))
      }
      (bytes, apple) = render(form.members(draft), for: job.token.provider)
    }
    var payload = PushPayload(bytes: bytes, kind: form.kind)
    payload.apple = apple
    payload.shed = draft.left
    // PushKit does not collapse.
    if job.token.provider != .apns || form.kind != .voip { payload.collapseKey = job.call.hex }
    return .payload(payload)
  }

  /// The most bytes of a payload.
  ///
  /// APNs: "Generating a remote notification". FCM: "About FCM messages" allows 4096 bytes of data. We count the JSON
  /// text with quotes and escapes, which is never less than FCM counts, and what FCM adds for Apple's system. Web Push: 4096 bytes of body (RFC 8030, 7.2)
  /// less 86 of header, 16 of tag and 1 of padding.
  public static func bytesMaximum(_ provider: PushProvider, _ kind: PushMessage.Kind) -> Int {
    switch provider {
    case .apns: kind == .voip ? 5120 : 4096
    case .fcm: 4096
    case .webPush: 3993
    case .none: 0
    }
  }

  /// The payload, and the part of FCM's message that only Apple's system gets.
  private static func render(
    _ members: [PayloadMember], for provider: PushProvider
  ) -> (bytes: [UInt8], apple: [UInt8]) {
    guard provider == .fcm else { return (PayloadMember.json(members), []) }
    let apple = members.filter { $0.isForAppleAlone && !$0.isEmptyObject }
    return (PayloadMember.flatJSON(members), apple.isEmpty ? [] : PayloadMember.json(apple))
  }
}

/// The form of one kind of push in one dialect.
struct PayloadForm: Sendable {
  var kind: PushMessage.Kind
  /// Why the push cannot be written, whatever optional parts it sheds.
  var refusal: @Sendable (PushDraft) -> PayloadRefusal? = { _ in nil }
  /// The payload's top level.
  var members: @Sendable (PushDraft) -> [PayloadMember]
}

/// The pushes of each dialect.
enum DialectTable {
  /// - Returns: nil if the dialect has no such push.
  static func form(of job: PushJob) -> PayloadForm? {
    let (purpose, provider) = (job.purpose, job.token.provider)
    if provider == .none { return nil }
    // The app itself reads alert pushes, whatever its SDK reads, and so does a browser's service worker.
    if purpose == .ended || purpose == .missedNotice || provider == .webPush {
      return CallmeshDialect.form(purpose, provider)
    }
    let isRingOfApple = purpose == .ring && provider == .apns
    return switch job.dialect {
    case .callmesh: CallmeshDialect.form(purpose, provider)
    case .apple: isRingOfApple ? AppleDialect.ring : nil
    case .fcsdk: isRingOfApple ? FCSDKDialect.ring : nil
    case .sinch:
      isRingOfApple ? job.hasAlertToken ? SinchDialect.alert : SinchDialect.ring : nil
    case .telnyx: TelnyxDialect.form(purpose, provider)
    case .twilio: TwilioDialect.form(purpose)
    }
  }
}
