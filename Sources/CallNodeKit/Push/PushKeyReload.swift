internal import CallTelemetry
internal import Logging
internal import ServiceLifecycle

/// Takes new keys without a restart: when one of their files changed, and on SIGHUP.
struct PushKeyReload: Service {
  var files: [String]
  var senders: PushSenders
  var logger: Logger

  func run() async throws {
    try await FileReload(files: files, interval: .seconds(5), reload: reload).run()
  }

  private func reload(_ why: String) {
    let problems = senders.reload()
    for problem in problems {
      logger.error(
        "A push key is not usable; the former one stays.",
        metadata: .keys([.reason: "\(why)", .error: "\(problem)"]))
    }
    if problems.isEmpty {
      logger.notice("push keys were read again", metadata: .keys([.reason: "\(why)"]))
    }
  }
}
