import FoundationEssentials
import Glibc

/// The kernel's figures of processes, from /proc.
package enum ProcessFiles {
  package struct Sample: Sendable, Equatable {
    /// User and system time since the process started.
    package var cpuMicroseconds: UInt64 = 0
    package var residentBytes: UInt64 = 0
    /// The greatest resident size since the process started.
    package var residentPeakBytes: UInt64 = 0

    package init(
      cpuMicroseconds: UInt64 = 0, residentBytes: UInt64 = 0, residentPeakBytes: UInt64 = 0
    ) {
      self.cpuMicroseconds = cpuMicroseconds
      self.residentBytes = residentBytes
      self.residentPeakBytes = residentPeakBytes
    }
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

  /// A file of /proc, whose size is not known before it is read.
  package static func read(_ path: String) -> String? {
    FileManager.default.contents(atPath: path).map { String(decoding: $0, as: UTF8.self) }
  }

  /// A figure of a file such as `/proc/PID/status`, in bytes.
  package static func kilobytes(_ name: String, in text: String) -> UInt64? {
    guard let line = text.split(separator: "\n").first(where: { $0.hasPrefix(name) }) else {
      return nil
    }
    return line.split(whereSeparator: \.isWhitespace).dropFirst().first
      .flatMap { UInt64($0) }.map { $0 * 1_024 }
  }
}
