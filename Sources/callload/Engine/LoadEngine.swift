/// Connects devices, lets them call each other, and judges what each was told.
///
/// `run` does all of it. A search over rates calls `connect` once, `load` as often as it likes, and
/// `disconnect`.
package final class LoadEngine: Sendable {
  let options: LoadOptions
  let progress: LoadProgress

  package init(options: LoadOptions, progress: LoadProgress) {
    self.options = options
    self.progress = progress
  }

  /// Connects, loads at `options.rate` for `options.durationSeconds`, disconnects.
  package func run() async throws -> RunResult { RunResult() }

  /// Connects and registers all devices. Devices that could not are counted, not thrown.
  /// - Throws: `LoadError` where an option makes no sense or no device could connect.
  package func connect() async throws {}

  /// One stage of load on the connected devices, settled and judged.
  package func load(rate: Double, duration: Double) async throws -> RunResult { RunResult() }

  package func disconnect() async {}

  /// Ends what is under way early; `run` or `load` then report what there is.
  package func stop() {}
}

package struct LoadError: Error, CustomStringConvertible {
  package var description: String
  package init(_ description: String) { self.description = description }
}
