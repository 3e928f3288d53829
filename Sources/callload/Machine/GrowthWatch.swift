import Synchronization

/// Samples of what must not grow: resident memory of each process, and the store.
package final class GrowthWatch: Sendable {
  private let series = Mutex<[String: [UInt64]]>([:])

  package func add(_ values: [String: UInt64]) {
    series.withLock { series in
      for (name, value) in values { series[name, default: []].append(value) }
    }
  }

  /// - Parameter files: of each process, by how much the files that it keeps in memory may yet grow.
  package func findings(files: [String: UInt64] = [:]) -> [Growth] {
    series.withLock { series in
      series.compactMap { Growth(name: $0.key, $0.value, files: files[$0.key] ?? 0) }
        .sorted { $0.name < $1.name }
    }
  }
}

/// How something changed from the second quarter of a run, when it is warm, to the last.
package struct Growth: Sendable, Equatable {
  package var name: String
  /// Medians, in bytes.
  package var before: UInt64
  package var after: UInt64
  /// By how much files that are kept in memory may yet grow.
  package var files: UInt64

  /// Allocators and file blocks come in pieces of some megabytes.
  static let noiseBytes: UInt64 = 8 << 20

  /// Nothing where there are too few samples to tell.
  package init?(name: String, _ samples: [UInt64], files: UInt64 = 0) {
    guard samples.count >= 8 else { return nil }
    let quarter = samples.count / 4
    self.name = name
    self.files = files
    before = Self.median(samples[quarter..<(2 * quarter)])
    after = Self.median(samples[(samples.count - quarter)...])
  }

  package var isFlat: Bool { after <= before + before / 4 + Self.noiseBytes + files }

  private static func median(_ values: ArraySlice<UInt64>) -> UInt64 {
    let sorted = values.sorted()
    return sorted[sorted.count / 2]
  }
}
