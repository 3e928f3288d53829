package import CallCore
internal import Logging

/// A readable log of a run. Policy at its capacity: the oldest lines are dropped. Costs one
/// comparison while it is off.
package final class SimTrace {
  package struct Line: Sendable {
    package var time: Timestamp
    package var node: String
    package var call: CallID?
    package var text: String
    /// Whether the line is about an incident of a node, a device or a shard.
    package var isIncident = false
  }

  private let capacity = 200_000
  package let isOn: Bool
  /// A hash of all lines so far, in order. Two runs with the same hash did the same.
  package private(set) var hash: UInt64 = 0xCBF2_9CE4_8422_2325
  private var ring: [Line] = []
  private var start = 0

  package init(isOn: Bool = false) { self.isOn = isOn }

  func add(_ line: Line) {
    mix(line.time.microseconds)
    for byte in line.node.utf8 { mix(byte) }
    for byte in line.text.utf8 { mix(byte) }
    if ring.count < capacity {
      ring.append(line)
    } else {
      ring[start] = line
      start = (start + 1) % capacity
    }
  }

  private func mix(_ value: UInt8) { hash = (hash ^ UInt64(value)) &* 0x100_0000_01B3 }
  private func mix(_ value: Int64) {
    hash = (hash ^ UInt64(bitPattern: value)) &* 0x100_0000_01B3
  }

  package var lines: [Line] { Array(ring[start...] + ring[..<start]) }

  /// The lines about one call. With `context` also the incidents, between the first and the last of
  /// them, of nodes, and of the devices and shards that take part in the call.
  package func lines(of call: CallID, context: Bool = false) -> [Line] {
    let all = lines
    guard context, let first = all.firstIndex(where: { $0.call == call }),
      let last = all.lastIndex(where: { $0.call == call })
    else { return all.filter { $0.call == call } }
    let meanwhile = all[first...last]
    let parts = Set(meanwhile.filter { $0.call == call }.map(\.node))
    return meanwhile.filter { line in
      line.call == call
        || (line.isIncident && (parts.contains(line.node) || !Self.isOneOfMany(line.node)))
    }
  }

  /// A world has many devices and journals, few of which take part in a call.
  private static func isOneOfMany(_ node: String) -> Bool {
    node.utf8.contains(UInt8(ascii: "/")) || node.hasPrefix("journal ")
  }

  /// The lines that led to a failure, as text: those of its call, with context, or the last ones if
  /// it concerns no call. Long stories are cut in the middle.
  package func story(of failure: SimFailure, linesMost: Int = 200) -> [String] {
    guard let call = failure.call else {
      let all = lines
      // The world is torn down after it.
      let stop = all.lastIndex { $0.node == "world" && $0.text.hasPrefix("STOP") }
      let end = stop.map { $0 + 1 } ?? all.count
      return all.prefix(end).suffix(linesMost).map(Self.text)
    }
    let found = lines(of: call, context: true).map(Self.text)
    guard found.count > linesMost else { return found }
    let head = linesMost / 4
    return Array(found.prefix(head)) + ["… \(found.count - linesMost) lines left out …"]
      + Array(found.suffix(linesMost - head))
  }

  /// One line as text: seconds since the world's beginning, node, what happened.
  package static func text(_ line: Line) -> String {
    let microseconds = (line.time - SimWorld.beginning).microseconds
    let fraction = String(1_000_000 + microseconds % 1_000_000).dropFirst()
    let node = line.node + String(repeating: " ", count: max(0, 12 - line.node.utf8.count))
    return "\(microseconds / 1_000_000).\(fraction)  \(node)  \(line.text)"
  }
}

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
