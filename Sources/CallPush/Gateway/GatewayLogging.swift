internal import CallCore
internal import CallTelemetry
internal import Logging

/// What gateways log of calls: each job that they take, at `trace`, and what became of it, at `debug`.
/// Never a token.
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
