internal import CallAuth
internal import CallEdge
package import CallTelemetry
internal import FoundationEssentials
package import Logging
internal import ServiceLifecycle
internal import UnixSignals

/// Reads files again without a restart: when one of them changed, and on SIGHUP. Files are compared by
/// name, so that it does not matter whether one is overwritten or replaced. A file that is wrong leaves
/// in force what was read before.
package struct FileReload: Service {
  /// How the log tells of it.
  package struct Texts: Sendable {
    var success: String
    var failure: String
    package init(success: String, failure: String) {
      self.success = success
      self.failure = failure
    }
  }

  private let files: [String]
  private let interval: Duration
  private let readsAtStart: Bool
  private let texts: Texts
  private let counters: (taken: Counter, refused: Counter)?
  private let logger: Logger
  private let read: @Sendable () -> [String]

  /// - Parameters:
  ///   - readsAtStart: also reads them when the service starts: they may have changed while the node waited
  ///     for the cluster.
  ///   - counters: count what `read` took and refused.
  ///   - read: reads the files. Returns what is wrong with them, a sentence each. Runs on no event loop.
  package init(
    files: [String], interval: Duration = .seconds(2), readsAtStart: Bool = false, texts: Texts,
    counters: (taken: Counter, refused: Counter)? = nil, logger: Logger,
    read: @escaping @Sendable () -> [String]
  ) {
    self.files = files
    self.interval = interval
    self.readsAtStart = readsAtStart
    self.texts = texts
    self.counters = counters
    self.logger = logger
    self.read = read
  }

  package func run() async throws {
    let signals = await UnixSignalsSequence(trapping: .sighup)
    await withTaskGroup(of: Void.self) { group in
      group.addTask { await watch() }
      group.addTask { for await _ in signals { reload("SIGHUP") } }
      try? await gracefulShutdown()
      group.cancelAll()
    }
  }

  /// Reads the files, and logs the result.
  /// - Parameter why: for the log.
  package func reload(_ why: String) {
    let problems = read()
    for problem in problems {
      logger.error(
        "\(texts.failure)", metadata: .keys([.reason: "\(why)", .error: "\(problem)"]))
    }
    (problems.isEmpty ? counters?.taken : counters?.refused)?.increment()
    if problems.isEmpty {
      logger.notice("\(texts.success)", metadata: .keys([.reason: "\(why)"]))
    }
  }

  private func watch() async {
    var used = Self.stamps(of: files)
    if readsAtStart { reload("start") }
    var seen = used
    while !Task.isCancelled {
      try? await Task.sleep(for: interval)
      // Taken before the files are read: the next round notices what changes meanwhile.
      let now = Self.stamps(of: files)
      // A file that keeps changing is still being written, or the second of two is.
      let isSettled = now == seen
      seen = now
      guard isSettled, now != used, !Task.isCancelled else { continue }
      used = now
      reload("a file changed")
    }
  }

  private struct Stamp: Equatable {
    var modified: Date?
    var size: UInt64?
    /// A file that replaces another has another number.
    var file: UInt64?
  }

  private static func stamps(of files: [String]) -> [Stamp] {
    files.map { path in
      // Tools that renew certificates change links.
      let target = URL(filePath: path).resolvingSymlinksInPath().path
      let facts = try? FileManager.default.attributesOfItem(atPath: target)
      return Stamp(
        modified: facts?[.modificationDate] as? Date, size: facts?[.size] as? UInt64,
        file: facts?[.systemFileNumber] as? UInt64)
    }
  }
}
