public enum PushProvider: UInt8, Sendable, CaseIterable {
  case none = 0
  case apns = 1
  case fcm = 2
  case webPush = 3

  public var name: String { "\(self)" }
}

/// A push token as the device gave it. Its text goes to no log, metric or error.
public struct PushToken: Sendable, Hashable {
  public var provider: PushProvider
  public var environment: String
  /// APNs topic, FCM project; of Web Push the endpoint's origin.
  public var topic: String
  /// As the provider wants it; of Web Push the subscription, as JSON.
  public var token: String
  /// Identifies the token where its text must not be shown: 32 hex digits of the SHA-256 of provider and token.
  /// The edge computes it.
  public var fingerprint: String
  public init(
    provider: PushProvider, environment: String, topic: String, token: String,
    fingerprint: String = ""
  ) {
    self.provider = provider
    self.environment = environment
    self.topic = topic
    self.token = token
    self.fingerprint = fingerprint
  }
}

public struct RegistrationRequest: Sendable, Hashable {
  public var deviceName: String
  public var voipToken: PushToken?
  public var alertToken: PushToken?
  public var dialect: String
  public var sdkName: String
  public var sdkVersion: String
  /// The capabilities that the device declares; nil: they are derived from its SDK.
  public var capabilities: PushCapabilities?
  public init(
    deviceName: String = "", voipToken: PushToken? = nil, alertToken: PushToken? = nil,
    dialect: String = "", sdkName: String = "", sdkVersion: String = "",
    capabilities: PushCapabilities? = nil
  ) {
    self.deviceName = deviceName
    self.voipToken = voipToken
    self.alertToken = alertToken
    self.dialect = dialect
    self.sdkName = sdkName
    self.sdkVersion = sdkVersion
    self.capabilities = capabilities
  }
}

/// A device's registration, as the cluster keeps it.
public struct Registration: Sendable, Hashable {
  public var user: UserKey
  public var device: DeviceID
  public var request: RegistrationRequest
  /// When its tokens were registered last. A provider's report of an earlier time does not count (R12).
  public var registeredAt: Timestamp
  public var seenAt: Timestamp
  /// As the device declared them, or as its SDK had them when it registered.
  public var capabilities: PushCapabilities
  /// Whether its app had webhooks when it registered: then the app learns of its end.
  public var hasWebhooks = false
  /// The findings about its tokens, at most one entry for each.
  public var standings: [TokenStanding] = []

  /// - Parameter capabilities: nil: as the request declares them, or as its SDK has them.
  public init(
    user: UserKey, device: DeviceID, request: RegistrationRequest, registeredAt: Timestamp,
    seenAt: Timestamp, capabilities: PushCapabilities? = nil
  ) {
    self.user = user
    self.device = device
    self.request = request
    self.registeredAt = registeredAt
    self.seenAt = seenAt
    self.capabilities =
      capabilities ?? request.capabilities
      ?? request.derivedCapabilities
  }
}

/// A token's text is shown by nothing that prints it, however deep it is in what is printed: who has
/// it can be a nuisance to the device.
extension PushToken: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
  public var description: String {
    "PushToken(\(provider.name), \(environment), \(fingerprint.isEmpty ? "hidden" : fingerprint))"
  }
  public var debugDescription: String { description }
  public var customMirror: Mirror {
    Mirror(
      self,
      children: [
        "provider": provider.name, "environment": environment, "topic": topic,
        "fingerprint": fingerprint,
      ])
  }
}

// MARK: The needs of pushes

extension Registration {
  /// The token whose push makes the device ring: that for VoIP; else the other one, where its provider
  /// wakes an app by any push. On Apple's an alert only shows. Sinch alone rings by one: its text says who calls,
  /// it has a sound, and Sinch's SDK takes the call from it when the user opens it.
  public var ringToken: PushToken? {
    if let token = request.voipToken, token.provider != .none { return token }
    return wakingAlertToken
  }

  private var wakingAlertToken: PushToken? {
    guard let token = request.alertToken else { return nil }
    switch token.provider {
    case .fcm, .webPush: return token
    case .apns: return dialect == .sinch ? token : nil
    case .none: return nil
    }
  }

  /// The token for what need report no call: the alert token; else the other one, where its provider
  /// makes no difference.
  public var noticeToken: PushToken? {
    if let token = request.alertToken, token.provider != .none { return token }
    guard let token = request.voipToken else { return nil }
    switch token.provider {
    case .fcm, .webPush: return token
    case .apns, .none: return nil
    }
  }

  /// Whether the device is sent notices of missed calls.
  var takesNotices: Bool {
    capabilities.contains(.missedNotice) && noticeToken != nil
  }

  public func token(for purpose: PushPurpose) -> PushToken? {
    switch purpose {
    case .ring, .missed, .answeredElsewhere, .cancel: ringToken
    case .ended, .missedNotice: noticeToken
    }
  }

  /// How its SDK reads pushes; Callmesh's own dialect for an unknown name.
  public var dialect: PushDialect { PushDialect(rawValue: request.dialect) ?? .callmesh }

  /// The fingerprints of all its tokens, where they are known.
  var fingerprints: [String] {
    var all: [String] = []
    for token in [request.voipToken, request.alertToken] {
      if let print = token?.fingerprint, !print.isEmpty, !all.contains(print) { all.append(print) }
    }
    return all
  }

  /// Without the tokens of this fingerprint; nil: it has none.
  func without(_ fingerprint: String) -> Registration? {
    guard !fingerprint.isEmpty else { return nil }
    var less = self
    if request.voipToken?.fingerprint == fingerprint { less.request.voipToken = nil }
    if request.alertToken?.fingerprint == fingerprint { less.request.alertToken = nil }
    less.standings.removeAll { $0.fingerprint == fingerprint }
    return less == self ? nil : less
  }
}
