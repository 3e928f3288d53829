internal import Synchronization

/// A number that only grows.
public final class Counter: Sendable {
  private let storage = Atomic<UInt64>(0)
  public init() {}
  public func increment(by amount: UInt64 = 1) {
    storage.wrappingAdd(amount, ordering: .relaxed)
  }
  public var value: UInt64 { storage.load(ordering: .relaxed) }
}

/// A number that moves.
public final class Gauge: Sendable {
  private let storage = Atomic<Int64>(0)
  public init() {}
  public func set(_ value: Int64) { storage.store(value, ordering: .relaxed) }
  public func add(_ amount: Int64) { storage.wrappingAdd(amount, ordering: .relaxed) }
  public var value: Int64 { storage.load(ordering: .relaxed) }
}

/// All metrics of a node, and their text for Prometheus.
///
/// Handles are made once, at start; asking for the same name and labels again gives the same handle,
/// so that two roles in one process can share a registry. Ids of users, devices and calls are never
/// labels.
public final class MetricsRegistry: Sendable {
  private enum Source: Sendable {
    case counter(Counter)
    case gauge(Gauge)
    case reading(@Sendable () -> Double, type: String)
    case histogram(LatencyHistogram)
  }
  private struct Entry: Sendable {
    var name: String
    var help: String
    var labels: [(String, String)]
    /// When it was added, among all.
    var order: Int
    var source: Source
  }
  /// By name with labels.
  private let entries = Mutex<[String: Entry]>([:])

  public init() {}

  public func counter(_ name: String, _ help: String, labels: [(String, String)] = []) -> Counter {
    let made = Counter()
    if case .counter(let counter) = add(name, help, labels, .counter(made)) { return counter }
    return made
  }

  public func gauge(_ name: String, _ help: String, labels: [(String, String)] = []) -> Gauge {
    let made = Gauge()
    if case .gauge(let gauge) = add(name, help, labels, .gauge(made)) { return gauge }
    return made
  }

  /// - Parameter bounds: of a histogram that is made now.
  public func histogram(
    _ name: String, _ help: String, labels: [(String, String)] = [],
    bounds: LatencyHistogram.Bounds = .latencies
  ) -> LatencyHistogram {
    let made = LatencyHistogram(bounds: bounds)
    if case .histogram(let histogram) = add(name, help, labels, .histogram(made)) {
      return histogram
    }
    return made
  }

  /// A value read when somebody asks. `type` is `gauge` or `counter`. Under a name and labels that
  /// are taken, the first reading stays.
  public func reading(
    _ name: String, _ help: String, type: String = "gauge", labels: [(String, String)] = [],
    _ read: @escaping @Sendable () -> Double
  ) {
    add(name, help, labels, .reading(read, type: type))
  }

  /// The source that stands under the name and labels: the given one, unless there was one.
  @discardableResult
  private func add(
    _ name: String, _ help: String, _ labels: [(String, String)], _ source: Source
  ) -> Source {
    let series = name + Self.text(labels)
    return entries.withLock { entries in
      if let known = entries[series] { return known.source }
      entries[series] = Entry(
        name: name, help: help, labels: labels, order: entries.count, source: source)
      return source
    }
  }

  /// The Prometheus text format, version 0.0.4. Histograms are in seconds.
  public func render() -> String {
    let all = entries.withLock { Array($0.values) }
    var out = ""
    var described: Set<String> = []
    for entry in all.sorted(by: { ($0.name, $0.order) < ($1.name, $1.order) }) {
      if described.insert(entry.name).inserted {
        out +=
          "# HELP \(entry.name) \(entry.help)\n# TYPE \(entry.name) \(Self.type(entry.source))\n"
      }
      Self.render(entry, into: &out)
    }
    return out
  }

  private static func type(_ source: Source) -> String {
    switch source {
    case .counter: "counter"
    case .gauge: "gauge"
    case .reading(_, let type): type
    case .histogram: "histogram"
    }
  }

  private static func render(_ entry: Entry, into out: inout String) {
    switch entry.source {
    case .counter(let counter):
      out += "\(entry.name)\(text(entry.labels)) \(counter.value)\n"
    case .gauge(let gauge):
      out += "\(entry.name)\(text(entry.labels)) \(gauge.value)\n"
    case .reading(let read, _):
      out += "\(entry.name)\(text(entry.labels)) \(text(read()))\n"
    case .histogram(let histogram):
      for (upper, count) in histogram.cumulative {
        let labels = entry.labels + [("le", "\(Double(upper) / 1e6)")]
        out += "\(entry.name)_bucket\(text(labels)) \(count)\n"
      }
      let count = histogram.count
      out += "\(entry.name)_bucket\(text(entry.labels + [("le", "+Inf")])) \(count)\n"
      out += "\(entry.name)_sum\(text(entry.labels)) \(Double(histogram.sumMicroseconds) / 1e6)\n"
      out += "\(entry.name)_count\(text(entry.labels)) \(count)\n"
    }
  }

  private static func text(_ labels: [(String, String)]) -> String {
    if labels.isEmpty { return "" }
    return "{" + labels.map { "\($0.0)=\"\(JSONText.escaped($0.1))\"" }.joined(separator: ",") + "}"
  }

  private static func text(_ value: Double) -> String {
    if value.isNaN { return "NaN" }
    if value.isInfinite { return value < 0 ? "-Inf" : "+Inf" }
    return value == value.rounded() && abs(value) < 1e15 ? "\(Int64(value))" : "\(value)"
  }
}
