internal import CallCore
internal import CallTelemetry
internal import Logging

/// Log lines of gateways about calls: each job at `trace`, and its outcome at `debug`. They contain no token.
extension Logger {
  func taken(_ job: PushJob, attempt: Int) {
    trace("push job taken", metadata: Self.keys(job, [.count: "\(attempt)"]))
  }

  func sent(_ job: PushJob, _ outcome: PushOutcome) {
    debug("push ended", metadata: Self.keys(job, [.reason: "\(outcome.kind.rawValue)"]))
  }

  private static func keys(
    _ job: PushJob, _ more: KeyValuePairs<LogKey, MetadataValue>
  ) -> Metadata {
    Metadata.keys([
      .call: "\(job.call)", .app: "\(job.user.app)", .user: "\(job.user.user)",
      .device: "\(job.device)", .purpose: "\(job.purpose.name)",
    ]).merging(.keys(more)) { _, new in new }
  }
}

/// Limits a log line to one in 10 s. The line contains the number of events that it represents.
struct LogOnce: Sendable {
  private var saidAt: Timestamp?
  private var count = 0
  mutating func admit(_ now: Timestamp) -> Int? {
    count += 1
    if let saidAt, now < saidAt + .seconds(10) { return nil }
    saidAt = now
    defer { count = 0 }
    return count
  }
}
