internal import CallTelemetry
internal import FoundationEssentials
internal import Logging
internal import ServiceLifecycle
internal import UnixSignals

/// Takes new keys without a restart: when one of their files changed, and on SIGHUP.
struct PushKeyReload: Service {
  var files: [String]
  var senders: PushSenders
  var logger: Logger
  var interval: Duration = .seconds(5)

  func run() async throws {
    let signals = await UnixSignalsSequence(trapping: .sighup)
    await withTaskGroup(of: Void.self) { group in
      group.addTask { await watchFiles() }
      group.addTask { for await _ in signals { reload("SIGHUP") } }
      try? await gracefulShutdown()
      group.cancelAll()
    }
  }

  private func watchFiles() async {
    var seen = signature
    while !Task.isCancelled {
      try? await Task.sleep(for: interval)
      let now = signature
      guard now != seen, !Task.isCancelled else { continue }
      seen = now
      reload("a file changed")
    }
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

  private struct Stamp: Equatable {
    var modified: Date?
    var size: UInt64?
    var file: UInt64?
  }

  /// Of all files. One that is replaced has another number.
  private var signature: [Stamp] {
    files.map { path in
      let facts = try? FileManager.default.attributesOfItem(atPath: path)
      return Stamp(
        modified: facts?[.modificationDate] as? Date, size: facts?[.size] as? UInt64,
        file: facts?[.systemFileNumber] as? UInt64)
    }
  }
}
