import CallLoadKit
import FoundationEssentials
import Glibc
import Testing

@Suite struct ChildProcessTests {
  /// A child with an inherited connection would keep it open after this process closed it: a node that is
  /// started again in a run with faults once kept whole relays and devices so.
  @Test func aChildHoldsNothingOfOurs() async throws {
    var ends: [Int32] = [0, 0]
    // As NIO's sockets are: without FD_CLOEXEC.
    try #require(pipe(&ends) == 0)
    defer { for end in ends { close(end) } }
    let ours = try #require(Self.target("/proc/self/fd/\(ends[0])"))
    let child = try await ChildLauncher.start(
      ChildCommand(
        name: "sleep", executable: try #require(Executables.find("sleep", also: ["/bin"])),
        arguments: ["600"], logPath: "/dev/null"))
    defer {
      child.send(SIGKILL)
      while child.poll() == nil { usleep(1000) }
    }
    let folder = "/proc/\(child.processID)/fd"
    let files = try FileManager.default.contentsOfDirectory(atPath: folder)
    #expect(files.contains("0"), "the child runs and may be looked at")
    #expect(files.compactMap { Self.target("\(folder)/\($0)") }.filter { $0 == ours } == [])
  }

  @Test("statistics of a process with an odd name") func processFiles() {
    let stat =
      "42 (a (b) c) S 1 42 42 0 -1 4194560 100 0 0 0 250 50 0 0 20 0 9 0 1234 1000 100 0"
    #expect(ProcessFiles.cpuTicks(stat: stat) == 300)
    #expect(ProcessFiles.cpuTicks(stat: "42 (x") == nil)
    #expect(ProcessFiles.cpuTicks(stat: "42 (x) S 1 2") == nil)
    #expect(ProcessFiles.residentBytes(status: "Name:\tx\nVmRSS:\t  2048 kB\n") == 2_097_152)
    #expect(ProcessFiles.residentBytes(status: "Name:\tx\n") == nil)
  }

  @Test("of a crash's log the beginning and the thread that crashed are shown")
  func crashLog() {
    let log = """
      one
      two
      a.swift:1: Fatal error: unexpectedly found nil
      Thread 0:
      0 main
      Thread 3 crashed:
      0 boom
      1 caller
      """
    #expect(
      ChildProcess.telling(log, lines: 2) == [
        "one", "two", "a.swift:1: Fatal error: unexpectedly found nil", "Thread 3 crashed:",
        "0 boom",
      ])
    #expect(ChildProcess.telling("a\nb\nc", lines: 2) == ["b", "c"])
  }

  /// The target of an open file, as the kernel names it: `pipe:[4711]`.
  private static func target(_ path: String) -> String? {
    var buffer = [CChar](repeating: 0, count: 256)
    let count = readlink(path, &buffer, buffer.count)
    guard count > 0 else { return nil }
    return String(decoding: buffer[..<count].map { UInt8(bitPattern: $0) }, as: UTF8.self)
  }
}
