import CallClient
package import CallCore
import Glibc

/// The share of devices without a session, and how they wake.
package struct SleepOptions: Sendable, Equatable {
  /// The share of devices without a session among all devices, 0 to 1.
  package var share: Double
  /// Median time from the push's arrival at the provider until the device connects.
  package var wakeDelayMilliseconds: Double = 300
  /// The share of pushes whose device never wakes.
  package var neverShare: Double = 0.02
  /// The share of pushes whose device wakes when the call is over.
  package var lateShare: Double = 0.02
  /// The share of sleeping devices' refusals that are sent over HTTP with the push's capability.
  package var byPushShare: Double = 0.5
  /// The provider answers some pushes with an error for the moment, forgets tokens in a wave, and some devices registered the wrong environment.
  package var isProviderTroubled = false

  package init(share: Double) { self.share = share }
}

/// Which devices sleep, their apps, and how they wake: all by the seed.
package struct SleepPlan: Sendable {
  package enum Wake: Sendable, Equatable {
    case after(Span)
    case afterTheCall
    case never
  }

  package let options: SleepOptions
  private let seed: UInt64
  private let profiles: [PushProfile?]
  private let tokens: [String: Int]

  package static let bundle = "com.example.calls"
  package static let environment = "production"

  package init(_ options: SleepOptions, roster: Roster, seed: UInt64) {
    self.options = options
    self.seed = seed
    profiles = (0..<roster.devices).map { device in
      var random = SplitMix64(seed: seed &* 0x2545_F491_4F6C_DD1D &+ UInt64(device))
      guard Double.random(in: 0..<1, using: &random) < options.share,
        !roster.isStrict(roster.user(of: device))
      else { return nil }
      return PushProfile.all.drawn(by: \.weight, &random)
    }
    var tokens: [String: Int] = [:]
    for (device, profile) in profiles.enumerated() where profile != nil {
      tokens[Self.token(device, seed, kind: 1)] = device
      if profile?.hasAlertToken == true { tokens[Self.token(device, seed, kind: 2)] = device }
    }
    self.tokens = tokens
  }

  package func sleeps(_ device: Int) -> Bool { profiles[device] != nil }
  package func profile(_ device: Int) -> PushProfile? { profiles[device] }
  package var sleepers: [Int] { profiles.indices.filter { profiles[$0] != nil } }
  package func device(token: String) -> Int? { tokens[token] }

  package func voipToken(_ device: Int) -> PushToken? {
    profiles[device].map { _ in token(device, kind: 1, topic: Self.bundle + ".voip") }
  }

  package func alertToken(_ device: Int) -> PushToken? {
    guard profiles[device]?.hasAlertToken == true else { return nil }
    return token(device, kind: 2, topic: Self.bundle)
  }

  /// Whether the provider knows the device's tokens in its sandbox only, which the device does not say.
  package func isOfSandbox(_ device: Int) -> Bool {
    options.isProviderTroubled && device.isMultiple(of: 10)
  }

  private func token(_ device: Int, kind: UInt64, topic: String) -> PushToken {
    let isUnsaid = isOfSandbox(device) && device.isMultiple(of: 20)
    return PushToken(
      provider: .apns, environment: isUnsaid ? "" : Self.environment, topic: topic,
      token: Self.token(device, seed, kind: kind))
  }

  /// 64 hex digits, as Apple's are.
  private static func token(_ device: Int, _ seed: UInt64, kind: UInt64) -> String {
    var random = SplitMix64(seed: seed ^ (kind << 60) ^ UInt64(device) &* 0x9E37_79B9_7F4A_7C15)
    return (0..<4).map { _ in
      let digits = String(random.next(), radix: 16)
      return String(repeating: "0", count: 16 - digits.count) + digits
    }.joined()
  }

  /// How a device reacts to a push. A device that the call's part needs wakes.
  func wake(_ device: Int, for plan: CallPlan) -> Wake {
    var random = SplitMix64(seed: plan.seed ^ UInt64(device) &* 0xD1B5_4A32_D192_ED03)
    let fate = Double.random(in: 0..<1, using: &random)
    // Log-normal, as in real networks, and cut off: some calls ring for seconds only.
    let spread = gaussian(&random) * 0.6
    let factor = min(3, max(0.2, Glibc.exp(spread)))
    if !plan.needs(device) {
      if fate < options.neverShare { return .never }
      if fate < options.neverShare + options.lateShare { return .afterTheCall }
    }
    return .after(Span(microseconds: Int64(options.wakeDelayMilliseconds * 1000 * factor)))
  }

  /// Whether the device sends its refusal over HTTP, without a session.
  func actsByPush(_ device: Int, in plan: CallPlan) -> Bool {
    guard sleeps(device) else { return false }
    switch plan.kind {
    case .declinedEverywhere, .declinedHere: guard device == plan.actor else { return false }
    case .busy: break
    default: return false
    }
    var random = SplitMix64(seed: plan.seed &+ UInt64(device) &* 0xA24B_AED4_963E_E407)
    return Double.random(in: 0..<1, using: &random) < options.byPushShare
  }
}

extension CallPlan {
  /// Whether the part cannot be played while this callee's device sleeps.
  func needs(_ device: Int) -> Bool {
    switch kind {
    case .unanswered: false
    case .busy, .crossing: true
    case .twoAnswer: device == actor || device == other
    case .declinedHere: device == actor || answersThen && device == other
    case .answered, .declinedEverywhere, .cancelled, .cancelAtAnswer, .calleeReturns,
      .callerReturns, .pulled, .forwarded, .group, .transferred, .secondCall, .consulted:
      device == actor
    }
  }
}

/// A normal deviate (Box and Muller).
private func gaussian(_ random: inout some RandomNumberGenerator) -> Double {
  let u = 1 - Double.random(in: 0..<1, using: &random)
  let v = Double.random(in: 0..<1, using: &random)
  return Glibc.sqrt(-2 * Glibc.log(u)) * Glibc.cos(2 * .pi * v)
}

/// An app: its SDK, what it registers, and the clean-up pushes that it accepts after a ring. `takes` follows
/// the vendors' documents and not the cluster, so that the cluster is compared with them.
package struct PushProfile: Sendable, Equatable {
  package var dialect: PushDialect
  package var sdkName: String
  package var sdkVersion: String
  /// Stated at registration; nil: the cluster has to infer it from the SDK.
  package var stated: PushCapabilities?
  package var takes: PushCapabilities = []
  package var hasAlertToken = false
  package var weight = 1.0

  var majorVersion: Int? { sdkVersion.split(separator: ".").first.flatMap { Int($0) } }

  package static let all: [PushProfile] = [
    PushProfile(
      dialect: .callmesh, sdkName: "CallmeshSwift", sdkVersion: "1.0.0",
      takes: [.ended, .missedNotice], hasAlertToken: true, weight: 3),
    PushProfile(
      dialect: .callmesh, sdkName: "CallmeshSwift", sdkVersion: "1.0.0",
      stated: [.missed, .answeredElsewhere, .cancel, .missedNotice],
      takes: [.missed, .answeredElsewhere, .cancel, .missedNotice], hasAlertToken: true),
    PushProfile(
      dialect: .callmesh, sdkName: "CallmeshSwift", sdkVersion: "1.0.0", stated: [], takes: []),
    PushProfile(dialect: .apple, sdkName: "Notes", sdkVersion: "1"),
    PushProfile(dialect: .fcsdk, sdkName: "FCSDK", sdkVersion: "4.1.0"),
    PushProfile(dialect: .telnyx, sdkName: "iOS", sdkVersion: "2.2.0"),
    PushProfile(dialect: .telnyx, sdkName: "iOS-3.2.1", sdkVersion: "3.2.1", takes: .missed),
    PushProfile(dialect: .telnyx, sdkName: "iOS-4.1.2", sdkVersion: "4.1.2"),
    PushProfile(
      dialect: .telnyx, sdkName: "iOS-mpn-4.1.2", sdkVersion: "4.1.2",
      takes: [.missed, .answeredElsewhere]),
    PushProfile(dialect: .twilio, sdkName: "TwilioVoice", sdkVersion: "2.0.9", takes: .cancel),
    PushProfile(dialect: .twilio, sdkName: "TwilioVoice", sdkVersion: "2.1.0"),
    PushProfile(dialect: .twilio, sdkName: "TwilioVoice", sdkVersion: "4.5.0", takes: .cancel),
    PushProfile(dialect: .twilio, sdkName: "TwilioVoice", sdkVersion: "6.13.0"),
    PushProfile(dialect: .sinch, sdkName: "SinchRTC", sdkVersion: "5.12.0"),
  ]
}
