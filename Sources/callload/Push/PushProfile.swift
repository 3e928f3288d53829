package import CallCore

/// An app as it is on people's phones: its SDK, what it registers, and which pushes it can bear after
/// a ring. The last column is the vendors' documents', not the cluster's: so the cluster is held to
/// them.
package struct PushProfile: Sendable, Equatable {
  package var dialect: PushDialect
  package var sdkName: String
  package var sdkVersion: String
  /// Said outright at registration; nil: the cluster is to know it from the SDK.
  package var said: PushCapabilities?
  package var takes: PushCapabilities
  package var hasAlertToken: Bool
  package var weight: Double

  init(
    _ dialect: PushDialect, _ sdkName: String, _ sdkVersion: String, said: PushCapabilities? = nil,
    takes: PushCapabilities = [], alerts: Bool = false, weight: Double = 1
  ) {
    self.dialect = dialect
    self.sdkName = sdkName
    self.sdkVersion = sdkVersion
    self.said = said
    self.takes = takes
    hasAlertToken = alerts
    self.weight = weight
  }

  var majorVersion: Int? { sdkVersion.split(separator: ".").first.flatMap { Int($0) } }

  package static let all: [PushProfile] = [
    PushProfile(
      .callmesh, "CallmeshSwift", "1.0.0", takes: [.ended, .missedNotice], alerts: true, weight: 3),
    PushProfile(
      .callmesh, "CallmeshSwift", "1.0.0",
      said: [.missed, .answeredElsewhere, .cancel, .missedNotice],
      takes: [.missed, .answeredElsewhere, .cancel, .missedNotice], alerts: true),
    PushProfile(.callmesh, "CallmeshSwift", "1.0.0", said: [], takes: []),
    PushProfile(.apple, "Notes", "1"),
    PushProfile(.fcsdk, "FCSDK", "4.1.0"),
    PushProfile(.telnyx, "iOS", "2.2.0"),
    PushProfile(.telnyx, "iOS-3.2.1", "3.2.1", takes: .missed),
    PushProfile(.telnyx, "iOS-4.1.2", "4.1.2"),
    PushProfile(.telnyx, "iOS-mpn-4.1.2", "4.1.2", takes: [.missed, .answeredElsewhere]),
    PushProfile(.twilio, "TwilioVoice", "2.0.9", takes: .cancel),
    PushProfile(.twilio, "TwilioVoice", "2.1.0"),
    PushProfile(.twilio, "TwilioVoice", "4.5.0", takes: .cancel),
    PushProfile(.twilio, "TwilioVoice", "6.13.0"),
    PushProfile(.sinch, "SinchRTC", "5.12.0"),
  ]
}
