package import CallCore

/// Whether a webhook takes anything at all. A value; time and chance are arguments.
///
/// Failures of the events of one call or device do not count against the webhook, which may refuse just these events.
/// If the events of several calls or devices fail and none is taken, the webhook is away. It is away at once if it
/// answers so: for a while (`Retry-After` with 429 and 503), or for good (410).
package struct WebhookHealth: Sendable {
  private enum Phase {
    /// The calls and devices with failures since the last success. Can become: away.
    case answering(failing: Set<AppEvent.Line>)
    /// An event tries whether the webhook is back. Can become: answering.
    case away(Away)
  }

  private struct Away {
    /// When the next event tries.
    var probeAt: Timestamp
    var failures = 1
    /// One is under way.
    var isProbing = false
    var demand: Demand?
  }

  /// A demand of an answer that concerns all events of the webhook.
  package enum Demand: Sendable, Equatable {
    case pause(Span)
    case gone
  }

  /// So many calls or devices with failures make a webhook count as away.
  package static let linesMax = 5
  package static let pauseMax = Span.seconds(300)
  private static let backoff = Backoff(.seconds(1), to: pauseMax)
  /// The interval at which a webhook that is gone is tried, and the longest pause that an answer can demand.
  package static let longPause = Span.seconds(3600)

  private var phase = Phase.answering(failing: [])

  /// - Parameter isGone: it was gone when its former owner stored that.
  package init(isGone: Bool = false) {
    if isGone { phase = .away(Away(probeAt: Timestamp(microseconds: 0), demand: .gone)) }
  }

  private var away: Away? { if case .away(let away) = phase { away } else { nil } }

  package var isAway: Bool { away != nil }
  package var isGone: Bool { away?.demand == .gone }

  /// When the next event tries.
  package var probeAt: Timestamp { away?.probeAt ?? .distantFuture }

  /// An event tries whether the webhook is back, while no other attempt is under way.
  package mutating func probes() {
    guard var away else { return }
    away.isProbing = true
    phase = .away(away)
  }

  /// - Returns: whether the webhook is back.
  package mutating func succeeded() -> Bool {
    // An attempt from before the demand takes nothing from it.
    if let away, away.demand != nil, !away.isProbing { return false }
    let wasAway = isAway
    phase = .answering(failing: [])
    return wasAway
  }

  /// - Parameter chance: a random number, for jitter.
  package mutating func failed(
    _ line: AppEvent.Line, demand: Demand? = nil, now: Timestamp, chance: UInt64
  ) {
    var next = Away(probeAt: now, demand: demand)
    switch phase {
    case .answering(var failing):
      failing.insert(line)
      guard failing.count >= Self.linesMax || demand != nil else {
        phase = .answering(failing: failing)
        return
      }
    case .away(let away):
      // Otherwise the attempt began before the webhook counted as away. What fails together is one failure: if each
      // attempt doubled the pause, 16 that fail in one moment would make the longest one.
      guard away.isProbing || demand != nil else { return }
      next.failures = away.failures + (away.isProbing ? 1 : 0)
      if !away.isProbing { next.probeAt = away.probeAt }
    }
    next.probeAt = max(next.probeAt, now + pause(demand, failures: next.failures, chance: chance))
    phase = .away(next)
  }

  private func pause(_ demand: Demand?, failures: Int, chance: UInt64) -> Span {
    let ours = Self.backoff.pause(after: failures - 1, chance: chance)
    return switch demand {
    // One that demands none, again and again, is not tried in a tight loop.
    case .pause(let span): max(ours, min(span, Self.longPause))
    case .gone: Backoff(Self.longPause, to: Self.longPause).pause(after: 0, chance: chance)
    case nil: ours
    }
  }
}
