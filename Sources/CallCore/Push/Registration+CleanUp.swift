/// The push that stops a device that a push made ring. `docs/push-ends.md` has the table, and the reasons.
extension Registration {
  /// The push that describes the end best, of those that the device takes and its dialect has; nil: none fits.
  package func cleanUp(of reason: EndReason) -> PushPurpose? {
    choices(of: reason).first(where: takes)
  }

  private func choices(of reason: EndReason) -> [PushPurpose] {
    switch reason {
    // If a side hung up, or the media failed, another device had answered.
    case .answeredElsewhere, .declined, .glare, .hungUp, .failed, .moved, .transferred:
      // Telnyx's SDK 3 knows one push for every end. It waits for its user before it logs in, so it rings on
      // without that push, and reports the call as answered elsewhere with it.
      dialect == .telnyx
        ? [.answeredElsewhere, .missed, .cancel, .ended] : [.answeredElsewhere, .cancel, .ended]
    case .cancelled, .unanswered, .busy, .unreachable: [.missed, .cancel, .ended]
    }
  }

  private func takes(_ purpose: PushPurpose) -> Bool {
    guard let capability = purpose.capability, capabilities.contains(capability),
      let token = token(for: purpose)
    else { return false }
    return dialect.has(purpose, at: token.provider)
  }
}

extension PushPurpose {
  /// The capability that a registration needs for such a push; nil where it needs none.
  package var capability: PushCapabilities? {
    switch self {
    case .ring: nil
    case .missed: .missed
    case .answeredElsewhere: .answeredElsewhere
    case .cancel: .cancel
    case .ended: .ended
    case .missedNotice: .missedNotice
    }
  }
}

extension PushDialect {
  /// Whether the dialect has a form of such a push for a provider. A device may declare more than its dialect has.
  package func has(_ purpose: PushPurpose, at provider: PushProvider) -> Bool {
    if provider == .none { return false }
    // The app itself reads alerts, and the service worker of a browser every push.
    if purpose == .ended || purpose == .missedNotice || provider == .webPush { return true }
    return switch self {
    case .callmesh: true
    case .apple, .fcsdk, .sinch: purpose == .ring && provider == .apns
    // To the SDK for Android every text but "Missed call!" is a call.
    case .telnyx:
      purpose == .ring || purpose == .missed
        || purpose == .answeredElsewhere && provider == .apns
    case .twilio: purpose == .ring || purpose == .cancel
    }
  }
}
