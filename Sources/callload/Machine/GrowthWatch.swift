import Synchronization

/// Samples of what must not grow: resident memory of each process, and the store.
package final class GrowthWatch: Sendable {
  private let series = Mutex<[String: [UInt64]]>([:])

  package init() {}

  package func add(_ values: [String: UInt64]) {
    series.withLock { series in
      for (name, value) in values { series[name, default: []].append(value) }
    }
  }

  package var findings: [Growth] {
    series.withLock { series in
      series.compactMap { Growth(name: $0.key, $0.value) }.sorted { $0.name < $1.name }
    }
  }
}

/// How something changed from the second quarter of a run, when it is warm, to the last.
package struct Growth: Sendable, Equatable {
  package var name: String
  /// Medians, in bytes.
  package var before: UInt64
  package var after: UInt64

  /// Allocators and file blocks come in pieces of some megabytes.
  static let noiseBytes: UInt64 = 8 << 20

  /// Nothing where there are too few samples to tell.
  package init?(name: String, _ samples: [UInt64]) {
    guard samples.count >= 8 else { return nil }
    let quarter = samples.count / 4
    self.name = name
    before = Self.median(samples[quarter..<(2 * quarter)])
    after = Self.median(samples[(samples.count - quarter)...])
  }

  package var isFlat: Bool { after <= before + before / 4 + Self.noiseBytes }

  private static func median(_ values: ArraySlice<UInt64>) -> UInt64 {
    let sorted = values.sorted()
    return sorted[sorted.count / 2]
  }
}
