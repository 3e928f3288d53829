internal import FoundationEssentials
internal import ServiceLifecycle
internal import UnixSignals

/// Has files read again without a restart: when one of them changed, and on SIGHUP. Files are looked
/// at by name, so that it does not matter whether one is written over or replaced.
package struct FileReload: Service {
  private let files: [String]
  private let interval: Duration
  private let reload: @Sendable (_ why: String) -> Void

  /// - Parameter reload: reads them, told why. Runs on no event loop.
  package init(
    files: [String], interval: Duration = .seconds(2),
    reload: @escaping @Sendable (_ why: String) -> Void
  ) {
    self.files = files
    self.interval = interval
    self.reload = reload
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

  private func watch() async {
    var read = Self.stamps(of: files)
    var seen = read
    while !Task.isCancelled {
      try? await Task.sleep(for: interval)
      // Before they are read: what changes meanwhile is seen the next time.
      let now = Self.stamps(of: files)
      // What goes on changing is still being written, or the second file of two is.
      let isSettled = now == seen
      seen = now
      guard isSettled, now != read, !Task.isCancelled else { continue }
      read = now
      reload("a file changed")
    }
  }

  private struct Stamp: Equatable {
    var modified: Date?
    var size: UInt64?
    var file: UInt64?
  }

  /// One that is replaced has another number.
  private static func stamps(of files: [String]) -> [Stamp] {
    files.map { path in
      // Tools that renew certificates turn links.
      let target = URL(filePath: path).resolvingSymlinksInPath().path
      let facts = try? FileManager.default.attributesOfItem(atPath: target)
      return Stamp(
        modified: facts?[.modificationDate] as? Date, size: facts?[.size] as? UInt64,
        file: facts?[.systemFileNumber] as? UInt64)
    }
  }
}
