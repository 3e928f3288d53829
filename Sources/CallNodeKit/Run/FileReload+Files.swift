package import CallAuth
internal import CallEdge
package import CallTelemetry
package import Logging

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
      files: [path], readsAtStart: true,
      texts: Texts(
        success: "keys of apps were read",
        failure: "The file of keys is not usable; the former keys stay."),
      counters: (counter("taken"), counter("refused")), logger: logger
    ) {
      attempt { tokens.replace(keys: try AppKeys.load(path: path)) }
    }
  }

  /// The certificate of an edge, for new connections.
  static func certificate(_ tls: EdgeTLS, logger: Logger) -> FileReload {
    FileReload(
      files: [tls.certificateFile, tls.keyFile], readsAtStart: true,
      texts: Texts(
        success: "the certificate was read again",
        failure: "The certificate is not usable; the former one stays."), logger: logger
    ) {
      attempt { try tls.reload() }
    }
  }

  /// The keys of push providers.
  static func pushKeys(_ files: [String], _ senders: PushSenders, logger: Logger) -> FileReload {
    FileReload(
      files: files, interval: .seconds(5),
      texts: Texts(
        success: "push keys were read again",
        failure: "A push key is not usable; the former one stays."),
      logger: logger, read: senders.reload)
  }

  private static func attempt(_ read: () throws -> Void) -> [String] {
    do {
      try read()
      return []
    } catch {
      return ["\(error)"]
    }
  }
}
