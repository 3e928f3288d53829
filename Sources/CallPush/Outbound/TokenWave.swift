internal import CallBus
package import CallCore
internal import CallTelemetry
internal import Logging
internal import Synchronization

/// Whether a provider refuses so many tokens that the fault is more likely its own, or the configuration's: the wrong
/// environment, team, project or key.
package struct TokenWave: Sendable {
  private struct Answer {
    var fingerprint: String
    var isRefused: Bool
    var at: Timestamp
  }

  /// The latest answers that it considers: one for each of so many tokens, none older than `age`.
  package static let answersMax = 20
  package static let age = Span.seconds(3600)
  /// A wave is at least so many refused tokens, and more than half of all.
  package static let refusedMin = 5

  private var answers: [Answer] = []

  package init() {}

  package mutating func note(_ fingerprint: String, isRefused: Bool, now: Timestamp) {
    answers.removeAll { $0.fingerprint == fingerprint || $0.at + Self.age <= now }
    answers.append(Answer(fingerprint: fingerprint, isRefused: isRefused, at: now))
    if answers.count > Self.answersMax { answers.removeFirst() }
  }

  package var refused: Int { answers.count { $0.isRefused } }
  package var isOn: Bool { refused >= Self.refusedMin && 2 * refused > answers.count }
}

/// A provider's refusal of a token.
package struct TokenRefusal: Sendable, Equatable {
  /// The provider's word for it.
  package var reason: String
  /// It may as well be about our own key, even for a token that was never accepted.
  package var mayBeOurs: Bool
  package init(_ reason: String, mayBeOurs: Bool = false) {
    self.reason = reason
    self.mayBeOurs = mayBeOurs
  }
}

/// Decides what it means that a provider refuses a token. One for each sender.
///
/// A token that was never accepted is wrong. One that was accepted before, or any of a wave, is in doubt: a push that
/// changes what rings is tried until its deadline, and the registration stays (`TokenStanding`).
final class TokenRefusals: Sendable {
  struct Verdict: Equatable {
    /// If no later attempt succeeds.
    var outcome: PushOutcome
    /// No later attempt would.
    var isFinal = false
  }

  private let wave = Mutex(TokenWave())
  private let warning = Mutex(LogOnce())
  private let logger: Logger
  private let doubted: Counter
  private let waves: Gauge

  init(name: String, provider: PushProvider, metrics: MetricsRegistry, logger: Logger) {
    let labels = [("provider", provider.name), ("sender", name)]
    doubted = metrics.counter(
      "callmesh_push_tokens_doubted_total",
      "Refusals of tokens that the provider had accepted before, or that came in a wave.",
      labels: labels)
    waves = metrics.gauge(
      "callmesh_push_token_wave",
      "1 while the provider refuses most tokens: no registration ends for that.", labels: labels)
    var logger = logger
    logger[metadataKey: "sender"] = "\(name)"
    self.logger = logger
  }

  func accepted(_ token: PushToken, now: Timestamp) {
    note(token, isRefused: false, now: now)
  }

  func judge(_ refusal: TokenRefusal, of message: PushMessage, now: Timestamp) -> Verdict {
    let isWave = note(message.token, isRefused: true, now: now)
    guard isWave || refusal.mayBeOurs || message.trust != .unproven else {
      return Verdict(outcome: .tokenRefused(reason: refusal.reason, isSure: true), isFinal: true)
    }
    doubted.increment()
    guard isWave else { return Verdict(outcome: .tokenRefused(reason: refusal.reason)) }
    if let times = warning.withLock({ $0.admit(now) }) {
      logger.error(
        "The provider refuses most tokens. Check environment, team, project and key. No registration ends for this.",
        metadata: .keys([.reason: "\(refusal.reason)", .count: "\(times)"]))
    }
    return Verdict(outcome: .failed(reason: refusal.reason))
  }

  @discardableResult
  private func note(_ token: PushToken, isRefused: Bool, now: Timestamp) -> Bool {
    let isOn = wave.withLock { wave in
      wave.note(token.fingerprint, isRefused: isRefused, now: now)
      return wave.isOn
    }
    waves.set(isOn ? 1 : 0)
    return isOn
  }
}
