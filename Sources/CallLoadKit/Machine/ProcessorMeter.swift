package import CallCore

/// Finds the times in which the machine's processors had nothing left: then load and cluster keep each other waiting, whatever
/// either does. From /proc/stat, so time that a hypervisor took away counts as used.
package struct ProcessorMeter: Sendable {
  package struct Ticks: Sendable, Equatable {
    package var idle: UInt64
    package var all: UInt64

    package init(idle: UInt64, all: UInt64) { (self.idle, self.all) = (idle, all) }

    /// nil where the text is not that of /proc/stat, see proc(5).
    package init?(stat: String) {
      guard let line = stat.split(separator: "\n").first, line.hasPrefix("cpu ") else { return nil }
      // user, nice, system, idle, iowait, irq, softirq, steal; a guest's time is part of user's.
      let fields = line.split(separator: " ").dropFirst().prefix(8).map { UInt64($0) ?? 0 }
      guard fields.count == 8 else { return nil }
      (idle, all) = (fields[3] + fields[4], fields.reduce(0, +))
    }
  }

  /// A tick is 10 ms of one processor, so a shorter time says little.
  private static let interval: Span = .milliseconds(500)
  /// Less idle time than this share is none.
  private static let leastIdle = 0.05

  private var last: (at: Timestamp, ticks: Ticks)?

  package init() {}

  /// - Parameter read: called where a time is over, twice a second.
  /// - Returns: since when the processors were busy all the time until now; nil where they were not, or it is not known.
  package mutating func busySince(at now: Timestamp, _ read: () -> Ticks?) -> Timestamp? {
    guard last.map({ $0.at + Self.interval <= now }) ?? true, let ticks = read() else { return nil }
    defer { last = (now, ticks) }
    guard let last, last.ticks.all < ticks.all, last.ticks.idle <= ticks.idle else { return nil }
    let idle = Double(ticks.idle - last.ticks.idle) / Double(ticks.all - last.ticks.all)
    return idle < Self.leastIdle ? last.at : nil
  }
}
