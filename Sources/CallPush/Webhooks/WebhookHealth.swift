package import CallCore

/// Whether a webhook takes anything at all. A value; time and chance are arguments.
///
/// The failures of one call's or device's events say nothing of the others: its events may be refused for their own
/// sake. If the events of several calls or devices fail and nothing is taken, the webhook is away.
package struct WebhookHealth: Sendable {
  private enum Phase {
    /// The calls and devices with failures since the last success. Can become: away.
    case answering(failing: Set<AppEvent.Line>)
    /// An event tries whether the webhook is back: one is under way, or the next one follows at `probeAt`. Can become:
    /// answering.
    case away(probeAt: Timestamp, failures: Int, isProbing: Bool)
  }

  /// So many calls or devices with failures make a webhook count as away.
  package static let linesMax = 5
  package static let firstPause = Span.seconds(1)
  package static let pauseMax = Span.seconds(300)

  private var phase = Phase.answering(failing: [])

  package init() {}

  package var isAway: Bool { if case .away = phase { true } else { false } }

  /// When the next event tries.
  package var probeAt: Timestamp {
    if case .away(let probeAt, _, _) = phase { probeAt } else { .distantFuture }
  }

  /// An event tries whether the webhook is back, while no other attempt is under way.
  package mutating func probes() {
    guard case .away(let probeAt, let failures, _) = phase else { return }
    phase = .away(probeAt: probeAt, failures: failures, isProbing: true)
  }

  /// - Returns: whether the webhook was away.
  package mutating func succeeded() -> Bool {
    let wasAway = isAway
    phase = .answering(failing: [])
    return wasAway
  }

  /// - Parameter chance: a random number, for jitter.
  package mutating func failed(_ line: AppEvent.Line, now: Timestamp, chance: UInt64) {
    var failures = 0
    switch phase {
    case .answering(var failing):
      failing.insert(line)
      guard failing.count >= Self.linesMax else {
        phase = .answering(failing: failing)
        return
      }
      failures = 1
    case .away(_, let before, let isProbing):
      // Otherwise the attempt began before the webhook counted as away. What fails together is one failure: if each
      // attempt doubled the pause, 16 that fail in one moment would make the longest one.
      guard isProbing else { return }
      failures = before + 1
    }
    let pause = AttemptContext.backoff(
      attempt: failures, first: Self.firstPause, most: Self.pauseMax, chance: chance)
    phase = .away(probeAt: now + pause, failures: failures, isProbing: false)
  }
}
