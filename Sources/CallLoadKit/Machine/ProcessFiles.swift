import FoundationEssentials
import Glibc
import Synchronization

/// The kernel's figures of processes and of the machine, from /proc.
package enum ProcessFiles {
  package struct Sample: Sendable, Equatable {
    /// User and system time since the process started.
    package var cpuMicroseconds: UInt64 = 0
    package var residentBytes: UInt64 = 0
    /// The greatest resident size since the process started.
    package var residentPeakBytes: UInt64 = 0
  }

  /// nil where the process has ended.
  package static func sample(processID: Int32) -> Sample? {
    guard let stat = read("/proc/\(processID)/stat"),
      let status = read("/proc/\(processID)/status"), let ticks = cpuTicks(stat: stat)
    else { return nil }
    let ticksPerSecond = UInt64(max(sysconf(Int32(_SC_CLK_TCK)), 1))
    return Sample(
      cpuMicroseconds: ticks * 1_000_000 / ticksPerSecond,
      residentBytes: residentBytes(status: status) ?? 0,
      residentPeakBytes: kilobytes("VmHWM:", in: status) ?? 0)
  }

  /// utime and stime of a `/proc/PID/stat`. The program's name in it may hold spaces and brackets.
  package static func cpuTicks(stat: String) -> UInt64? {
    guard let bracket = stat.lastIndex(of: ")") else { return nil }
    let fields = stat[stat.index(after: bracket)...].split(separator: " ")
    // The first field behind the name is the third in proc(5)'s count; utime is the 14th.
    guard fields.count > 12, let user = UInt64(fields[11]), let system = UInt64(fields[12]) else {
      return nil
    }
    return user + system
  }

  package static func residentBytes(status: String) -> UInt64? { kilobytes("VmRSS:", in: status) }

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

  /// A file of /proc, whose size is not known before it is read.
  package static func read(_ path: String) -> String? {
    FileManager.default.contents(atPath: path).map { String(decoding: $0, as: UTF8.self) }
  }

  private static func kilobytes(_ name: String, in text: String) -> UInt64? {
    guard let line = text.split(separator: "\n").first(where: { $0.hasPrefix(name) }) else {
      return nil
    }
    return line.split(whereSeparator: \.isWhitespace).dropFirst().first
      .flatMap { UInt64($0) }.map { $0 * 1_024 }
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
