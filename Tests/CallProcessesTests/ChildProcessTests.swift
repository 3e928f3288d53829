import CallProcesses
import FoundationEssentials
import Glibc
import Testing

@Suite struct ChildProcessTests {
  private static func sleep() throws -> ChildCommand {
    ChildCommand(
      name: "sleep", executable: try #require(Executables.find("sleep", also: ["/bin"])),
      arguments: ["600"])
  }

  private static func shell(_ script: String) -> ChildCommand {
    ChildCommand(name: "sh", executable: "/bin/sh", arguments: ["-c", script])
  }

  /// A child with an inherited connection would keep it open after this process closed it: a node that is
  /// started again in a run with faults once kept whole relays and devices so.
  @Test func aChildHoldsNothingOfOurs() async throws {
    var ends: [Int32] = [0, 0]
    // As NIO's sockets are: without FD_CLOEXEC.
    try #require(pipe(&ends) == 0)
    defer { for end in ends { close(end) } }
    let ours = try #require(Self.target("/proc/self/fd/\(ends[0])"))
    let child = try await ChildLauncher.start(Self.sleep())
    defer { child.killNow() }
    let folder = "/proc/\(child.processID)/fd"
    let files = try FileManager.default.contentsOfDirectory(atPath: folder)
    #expect(files.contains("0"), "the child runs and may be looked at")
    #expect(files.compactMap { Self.target("\(folder)/\($0)") }.filter { $0 == ours } == [])
  }

  @Test func whatAProgramPrintsIsReadApart() async throws {
    var command = Self.shell("cat; echo wrong >&2; exit 3")
    var output = try await CommandOutput.of(command, input: Array("right".utf8))
    #expect(output.end == .exited(3) && output.status == 3)
    #expect(output.text == "right" && output.errors == "wrong\n")
    command = Self.shell("kill -TERM $$")
    output = try CommandOutput.now(command)
    #expect(output.end == .signalled(SIGTERM) && output.status == 143)
  }

  @Test func aProgramThatTakesTooLongIsKilled() async throws {
    let output = try await CommandOutput.of(Self.sleep(), timeout: .milliseconds(50))
    #expect(output.end == .signalled(SIGKILL))
  }

  @Test func aProgramThatIsNotThereIsSaidSo() async throws {
    let command = ChildCommand(name: "none", executable: "/nowhere/none", arguments: [])
    await #expect(throws: ProcessFailure.self) { try await ChildLauncher.start(command) }
    #expect(throws: ProcessFailure.self) { try ChildLauncher.startNow(command) }
  }

  /// Settings in this shell must not change what is measured.
  @Test func settingsAreNotPassedOn() {
    let own = ["CALLMESH_PORT": "1", "PATH": "/bin"]
    var command = Self.shell("true")
    command.environment["CALLMESH_HOST"] = "x"
    #expect(command.variables(of: own) == ["PATH": "/bin", "CALLMESH_HOST": "x"])
    command.inherits = .all
    #expect(command.variables(of: own).count == 3)
    command.inherits = .nothing
    #expect(command.variables(of: own) == ["CALLMESH_HOST": "x"])
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
