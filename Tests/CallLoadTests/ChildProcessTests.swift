import FoundationEssentials
import Glibc
import Testing
import callload

@Suite struct ChildProcessTests {
  /// A child that held a connection of ours would keep it alive after we closed it: a node that is
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

  /// What an open file is, as the kernel names it: `pipe:[4711]`.
  private static func target(_ path: String) -> String? {
    var buffer = [CChar](repeating: 0, count: 256)
    let count = readlink(path, &buffer, buffer.count)
    guard count > 0 else { return nil }
    return String(decoding: buffer[..<count].map { UInt8(bitPattern: $0) }, as: UTF8.self)
  }
}
