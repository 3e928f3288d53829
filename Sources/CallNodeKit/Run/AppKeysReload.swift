package import CallAuth
package import CallTelemetry
package import Logging
internal import ServiceLifecycle

/// Puts the keys of apps in force when their file changes. A file that is wrong changes nothing.
package struct AppKeysReload: Service {
  private let path: String
  private let tokens: TokenAuthority
  private let logger: Logger
  private let taken: Counter
  private let refused: Counter

  package init(path: String, tokens: TokenAuthority, metrics: MetricsRegistry, logger: Logger) {
    self.path = path
    self.tokens = tokens
    self.logger = logger
    func counter(_ result: String) -> Counter {
      metrics.counter(
        "callmesh_keys_reloads_total",
        "Times that the file of keys was read, at the start and when it changed, by result.",
        labels: [("result", result)])
    }
    taken = counter("taken")
    refused = counter("refused")
  }

  package func run() async throws {
    // The file may have changed while the node waited for the cluster.
    reload("start")
    try await FileReload(files: [path], reload: reload).run()
  }

  package func reload(_ why: String) {
    do {
      let keys = try AppKeys.load(path: path)
      tokens.replace(keys: keys)
      taken.increment()
      logger.notice(
        "keys of apps were read",
        metadata: .keys([.reason: "\(why)", .count: "\(keys.appNames.count)"]))
    } catch {
      refused.increment()
      logger.error(
        "The file of keys is not usable; the former keys stay.",
        metadata: .keys([.reason: "\(why)", .error: "\(error)"]))
    }
  }
}
