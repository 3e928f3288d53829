internal import Glibc

/// This process's use of CPU and memory so far.
public enum ProcessSample {
  package static var processID: Int32 { getpid() }

  /// User and system time of all threads, since the process began.
  package static var cpuSeconds: Double { seconds(of: CLOCK_PROCESS_CPUTIME_ID) }

  /// Resident memory, in bytes; 0 where the system does not say.
  package static var memoryBytes: UInt64 {
    let pageSize = sysconf(Int32(_SC_PAGESIZE))
    return residentPages(inStatm: readFile("/proc/self/statm")) * UInt64(max(0, pageSize))
  }

  /// Since the process began; since its first sample where the system does not say.
  package static var uptimeSeconds: Double {
    guard let ticks = startTicks(inStat: readFile("/proc/self/stat")) else {
      return (ContinuousClock.now - firstSample) / .seconds(1)
    }
    let started = Double(ticks) / Double(max(1, sysconf(Int32(_SC_CLK_TCK))))
    return max(0, seconds(of: clockid_t(CLOCK_BOOTTIME)) - started)
  }

  private static let firstSample = ContinuousClock.now

  /// Registers CPU, memory, start and uptime under the names that Prometheus's own clients use, and the version
  /// of the build.
  public static func register(in metrics: MetricsRegistry) {
    metrics.reading(
      "process_cpu_seconds_total", "User and system CPU time spent.", type: "counter"
    ) { cpuSeconds }
    metrics.reading("process_resident_memory_bytes", "Resident memory.") { Double(memoryBytes) }
    metrics.reading("process_uptime_seconds", "Time since the process began.") { uptimeSeconds }
    // Read once: if the start moved when the wall clock is set, it would look like a restart.
    let started = Double(CalendarTime.nowMilliseconds()) / 1000 - uptimeSeconds
    metrics.reading("process_start_time_seconds", "When the process began, since 1970.") { started }
    metrics.gauge(
      "callmesh_build_info", "Always 1; the label tells the version.",
      labels: [("version", CallmeshVersion.current)]
    ).set(1)
  }

  private static func seconds(of clock: clockid_t) -> Double {
    var time = timespec()
    clock_gettime(clock, &time)
    return Double(time.tv_sec) + Double(time.tv_nsec) / 1e9
  }

  /// The second number of `/proc/self/statm`.
  package static func residentPages(inStatm text: String) -> UInt64 {
    let fields = text.split(separator: " ")
    return fields.count > 1 ? UInt64(fields[1]) ?? 0 : 0
  }

  /// When the process began, in clock ticks since boot: field 22 of `/proc/self/stat`. Fields are counted
  /// from the last `)`, since the program's name may hold spaces and brackets.
  package static func startTicks(inStat text: String) -> UInt64? {
    guard let bracket = text.lastIndex(of: ")") else { return nil }
    let fields = text[text.index(after: bracket)...].split(separator: " ")
    return fields.count > 19 ? UInt64(fields[19]) : nil
  }

  private static func readFile(_ path: String) -> String {
    let file = open(path, O_RDONLY | O_CLOEXEC)
    guard file >= 0 else { return "" }
    defer { close(file) }
    return String(unsafeUninitializedCapacity: 2048) { buffer in
      max(0, read(file, buffer.baseAddress, buffer.count))
    }
  }
}
