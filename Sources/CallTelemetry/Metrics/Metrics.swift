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

/// A number that rises and falls.
public final class Gauge: Sendable {
  private let storage = Atomic<Int64>(0)
  public init() {}
  public func set(_ value: Int64) { storage.store(value, ordering: .relaxed) }
  public func add(_ amount: Int64) { storage.wrappingAdd(amount, ordering: .relaxed) }
  public var value: Int64 { storage.load(ordering: .relaxed) }
}

/// One line of a metric in the Prometheus text format.
private struct Sample {
  /// Follows the metric's name.
  var suffix = ""
  /// The upper bound of a histogram's bucket.
  var bound: String?
  var value: String
}

/// All metrics of a node, and their text for Prometheus.
///
/// Handles are made once, at start. A name and labels that are registered already return the handle that was
/// made first, so that two roles in one process can share a registry. Ids of users, devices and calls are never
/// labels.
public final class MetricsRegistry: Sendable {
  private struct Entry: Sendable {
    var name: String
    var help: String
    /// The type as Prometheus names it.
    var type: String
    var labels: [(String, String)]
    /// The position in the order of registration.
    var order: Int
    /// The counter, gauge or histogram; of a reading nothing.
    var handle: any Sendable
    var samples: @Sendable () -> [Sample]
  }
  /// By name with labels.
  private let entries = Mutex<[String: Entry]>([:])

  public init() {}

  public func counter(_ name: String, _ help: String, labels: [(String, String)] = []) -> Counter {
    let made = Counter()
    return register(name, help, "counter", labels, made) { [Sample(value: "\(made.value)")] }
  }

  public func gauge(_ name: String, _ help: String, labels: [(String, String)] = []) -> Gauge {
    let made = Gauge()
    return register(name, help, "gauge", labels, made) { [Sample(value: "\(made.value)")] }
  }

  /// - Parameter bounds: apply only to a histogram that is not registered yet.
  public func histogram(
    _ name: String, _ help: String, labels: [(String, String)] = [],
    bounds: DurationHistogram.Bounds = .latencies
  ) -> DurationHistogram {
    let made = DurationHistogram(bounds: bounds)
    return register(name, help, "histogram", labels, made) { made.samples }
  }

  /// Registers a value that is read for each scrape. `type` is `gauge` or `counter`. The first reading under a
  /// name and labels stays.
  public func reading(
    _ name: String, _ help: String, type: String = "gauge", labels: [(String, String)] = [],
    _ read: @escaping @Sendable () -> Double
  ) {
    register(name, help, type, labels, ()) { [Sample(value: Self.text(read()))] }
  }

  /// Returns the handle that is registered under the name and labels: `made`, unless there was one.
  @discardableResult
  private func register<Handle: Sendable>(
    _ name: String, _ help: String, _ type: String, _ labels: [(String, String)], _ made: Handle,
    _ samples: @escaping @Sendable () -> [Sample]
  ) -> Handle {
    let series = name + Self.text(labels)
    return entries.withLock { entries in
      if let known = entries[series] { return known.handle as? Handle ?? made }
      entries[series] = Entry(
        name: name, help: help, type: type, labels: labels, order: entries.count, handle: made,
        samples: samples)
      return made
    }
  }

  /// The Prometheus text format, version 0.0.4. Histograms are in seconds.
  public func render() -> String {
    let all = entries.withLock { Array($0.values) }
    var out = ""
    var described: Set<String> = []
    for entry in all.sorted(by: { ($0.name, $0.order) < ($1.name, $1.order) }) {
      if described.insert(entry.name).inserted {
        out += "# HELP \(entry.name) \(entry.help)\n# TYPE \(entry.name) \(entry.type)\n"
      }
      for sample in entry.samples() {
        let labels = entry.labels + (sample.bound.map { [("le", $0)] } ?? [])
        out += "\(entry.name)\(sample.suffix)\(Self.text(labels)) \(sample.value)\n"
      }
    }
    return out
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

extension DurationHistogram {
  fileprivate var samples: [Sample] {
    let count = "\(count)"
    let buckets = cumulative.map {
      Sample(
        suffix: "_bucket", bound: "\(Double($0.upperMicroseconds) / 1e6)", value: "\($0.count)")
    }
    return buckets + [
      Sample(suffix: "_bucket", bound: "+Inf", value: count),
      Sample(suffix: "_sum", value: "\(Double(sumMicroseconds) / 1e6)"),
      Sample(suffix: "_count", value: count),
    ]
  }
}
