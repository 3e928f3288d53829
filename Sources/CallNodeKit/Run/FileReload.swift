package import CallAuth
internal import CallEdge
package import CallTelemetry
internal import FoundationEssentials
package import Logging
internal import ServiceLifecycle
internal import UnixSignals

/// Reads files again without a restart: when one of them changed, and on SIGHUP. Files are looked up by name each
/// time, so that they may be overwritten or replaced. While a file is wrong, its former content stays in force.
package struct FileReload: Service {
  private let files: [String]
  private let interval: Duration
  private let readsAtStart: Bool
  private let success: String
  private let failure: String
  private let counters: (taken: Counter, refused: Counter)?
  private let logger: Logger
  private let read: @Sendable () throws -> [String]

  /// - Parameters:
  ///   - readsAtStart: whether the service also reads the files when it starts, since they may have changed while
  ///     the node waited for the cluster.
  ///   - success: the log line when all files are good.
  ///   - failure: the log line for each problem.
  ///   - counters: count accepted and refused reads.
  ///   - read: reads the files. Returns or throws their problems. Runs on no event loop.
  package init(
    files: [String], interval: Duration = .seconds(2), readsAtStart: Bool = false, success: String,
    failure: String, counters: (taken: Counter, refused: Counter)? = nil, logger: Logger,
    read: @escaping @Sendable () throws -> [String]
  ) {
    self.files = files
    self.interval = interval
    self.readsAtStart = readsAtStart
    self.success = success
    self.failure = failure
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
    var problems: [String]
    do { problems = try read() } catch { problems = ["\(error)"] }
    for problem in problems {
      logger.error("\(failure)", metadata: .keys([.reason: "\(why)", .error: "\(problem)"]))
    }
    (problems.isEmpty ? counters?.taken : counters?.refused)?.increment()
    if problems.isEmpty { logger.notice("\(success)", metadata: .keys([.reason: "\(why)"])) }
  }

  private func watch() async {
    var used = Self.stamps(of: files)
    if readsAtStart { reload("start") }
    var seen = used
    while !Task.isCancelled {
      try? await Task.sleep(for: interval)
      // Taken before the files are read, so that the next round notices a change during the reading.
      let now = Self.stamps(of: files)
      // While a file keeps changing, it or the second of two is still being written.
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
    /// The inode's number, which differs in a file that replaces another.
    var file: UInt64?
  }

  private static func stamps(of files: [String]) -> [Stamp] {
    files.map { path in
      // Tools that renew certificates replace symbolic links.
      let target = URL(filePath: path).resolvingSymlinksInPath().path
      let facts = try? FileManager.default.attributesOfItem(atPath: target)
      return Stamp(
        modified: facts?[.modificationDate] as? Date, size: facts?[.size] as? UInt64,
        file: facts?[.systemFileNumber] as? UInt64)
    }
  }
}

extension FileReload {
  /// The keys of apps.
  package static func appKeys(
    path: String, tokens: TokenAuthority, metrics: MetricsRegistry, logger: Logger
  ) -> FileReload {
    func counter(_ result: String) -> Counter {
      metrics.counter(
        "callmesh_keys_reloads_total",
        "Reads of the file of keys, at the start and when it changed, by result.",
        labels: [("result", result)])
    }
    return FileReload(
      files: [path], readsAtStart: true, success: "keys of apps were read",
      failure: "The file of keys is not usable; the former keys stay.",
      counters: (counter("taken"), counter("refused")), logger: logger
    ) {
      tokens.replace(keys: try AppKeys.load(path: path))
      return []
    }
  }

  /// The certificate of an edge, for new connections.
  static func certificate(_ tls: EdgeTLS, logger: Logger) -> FileReload {
    FileReload(
      files: [tls.certificateFile, tls.keyFile], readsAtStart: true,
      success: "the certificate was read again",
      failure: "The certificate is not usable; the former one stays.", logger: logger
    ) {
      try tls.reload()
      return []
    }
  }

  /// The secret of TURN servers, for new credentials.
  static func relaySecret(_ secret: RelaySecret, logger: Logger) -> FileReload {
    FileReload(
      files: [secret.file], readsAtStart: true,
      success: "the secret of TURN servers was read again",
      failure: "The secret of TURN servers is not usable; the former one stays.", logger: logger
    ) {
      try secret.reload()
      return []
    }
  }

  /// The keys of push providers.
  static func pushKeys(_ files: [String], _ senders: PushSenders, logger: Logger) -> FileReload {
    FileReload(
      files: files, interval: .seconds(5), success: "push keys were read again",
      failure: "A push key is not usable; the former one stays.", logger: logger,
      read: senders.reload)
  }
}
