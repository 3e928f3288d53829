package import CallProcesses
import FoundationEssentials
import Glibc
import Synchronization

extension ProcessFiles {
  package static func machine() -> MachineFacts {
    var facts = MachineFacts()
    facts.cpus = ProcessInfo.processInfo.activeProcessorCount
    let info = read("/proc/cpuinfo") ?? ""
    if let line = info.split(separator: "\n").first(where: { $0.hasPrefix("model name") }),
      let colon = line.firstIndex(of: ":")
    {
      facts.cpuModel = line[line.index(after: colon)...]
        .split(separator: " ").joined(separator: " ")
    }
    facts.memoryBytes = kilobytes("MemTotal:", in: read("/proc/meminfo") ?? "") ?? 0
    let release = read("/proc/sys/kernel/osrelease") ?? ""
    facts.kernel = "Linux " + release.split(whereSeparator: \.isNewline).joined()
    return facts
  }
}

/// Samples of resident memory of each process, and of the store, which must not grow.
package final class GrowthWatch: Sendable {
  private let series = Mutex<[String: [UInt64]]>([:])

  package func add(_ values: [String: UInt64]) {
    series.withLock { series in
      for (name, value) in values { series[name, default: []].append(value) }
    }
  }

  /// - Parameter files: by process, the possible growth of the files that it keeps in memory.
  package func findings(files: [String: UInt64] = [:]) -> [Growth] {
    series.withLock { series in
      series.compactMap { Growth(name: $0.key, $0.value, files: files[$0.key] ?? 0) }
        .sorted { $0.name < $1.name }
    }
  }
}

/// The change of a size from the second quarter of a run, when it is warm, to the last.
package struct Growth: Sendable, Equatable {
  package var name: String
  /// Medians, in bytes.
  package var before: UInt64
  package var after: UInt64
  /// The possible growth of the files that it keeps in memory.
  package var files: UInt64

  /// Allocators and file blocks come in pieces of some megabytes.
  static let noiseBytes: UInt64 = 8 << 20

  /// nil with too few samples.
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
