internal import CallCore
internal import Logging

/// The nodes' log, as lines of the trace.
enum SimLog {
  static func logger(_ world: SimWorld, _ node: String) -> Logger {
    var logger = Logger(label: "simulation") { _ in SimLogHandler(world: world, node: node) }
    logger.logLevel = world.trace.isOn ? .debug : .critical
    return logger
  }
}

private struct SimLogHandler: LogHandler {
  let world: SimWorld
  let node: String
  var metadata: Logger.Metadata = [:]
  var logLevel = Logger.Level.debug

  subscript(metadataKey key: String) -> Logger.Metadata.Value? {
    get { metadata[key] }
    set { metadata[key] = newValue }
  }

  func log(event: LogEvent) {
    let all = metadata.merging(event.metadata ?? [:]) { _, new in new }
    let details = all.filter { $0.key != "node" }.sorted { $0.key < $1.key }
      .map { "\($0.key)=\($0.value)" }.joined(separator: " ")
    let text = "[\(event.level)] \(event.message) \(details)"
    if event.level >= .notice { world.incident(node, text) } else { world.note(node, text) }
    if event.level == .critical { world.count("log.critical") }
  }
}
