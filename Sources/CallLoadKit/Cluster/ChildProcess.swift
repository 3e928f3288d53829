import FoundationEssentials
package import Glibc
import NIOPosix
import Synchronization

package enum ProcessEnd: Sendable, Equatable, CustomStringConvertible {
  case exited(Int32)
  case signalled(Int32)

  package var description: String {
    switch self {
    case .exited(let status): "exited with status \(status)"
    case .signalled(let signal): "was ended by signal \(signal)"
    }
  }
}

/// A process of the local cluster. Its output goes into a file.
package final class ChildProcess: Sendable {
  package let name: String
  package let processID: pid_t
  package let logPath: String
  private let end = Mutex<ProcessEnd?>(nil)
  private let mayEnd = Atomic(false)

  init(name: String, processID: pid_t, logPath: String) {
    self.name = name
    self.processID = processID
    self.logPath = logPath
  }

  /// Returns nil while it runs. Never waits.
  package func poll() -> ProcessEnd? {
    end.withLock { end in
      if let end { return end }
      var status: Int32 = 0
      var answer = waitpid(processID, &status, WNOHANG)
      while answer == -1, errno == EINTR { answer = waitpid(processID, &status, WNOHANG) }
      guard answer == processID else { return nil }
      let signal = status & 0x7F
      end = signal == 0 ? .exited((status >> 8) & 0xFF) : .signalled(signal)
      return end
    }
  }

  /// Waits for its end; nil where it still runs after `timeout`.
  package func end(within timeout: Duration) async -> ProcessEnd? {
    let deadline = ContinuousClock.now + timeout
    while poll() == nil, ContinuousClock.now < deadline { await Pause.milliseconds(5) }
    return poll()
  }

  /// Kills it, where it still runs, and waits for its end.
  package func killed() async -> ProcessEnd {
    send(SIGKILL)
    while true {
      if let end = poll() { return end }
      await Pause.milliseconds(2)
    }
  }

  package func expectEnd() { mayEnd.store(true, ordering: .relaxed) }
  package var isExpectedToEnd: Bool { mayEnd.load(ordering: .relaxed) }

  /// Sends a signal, unless the process is known to have ended (its id may be another's by then).
  package func send(_ signal: Int32) {
    end.withLock { end in
      if end == nil { _ = kill(processID, signal) }
    }
  }

  package func logTail() -> String {
    guard let data = FileManager.default.contents(atPath: logPath), !data.isEmpty else {
      return "    (it wrote nothing)"
    }
    return Self.telling(String(decoding: data.suffix(65_536), as: UTF8.self))
      .map { "    " + $0 }.joined(separator: "\n")
  }

  /// The lines of a log that explain an end: the last ones; of a crash, the first ones.
  package static func telling(_ log: String, lines most: Int = 15) -> [Substring] {
    let lines = log.split(separator: "\n")
    let crash = lines.lastIndex { $0.contains("Fatal error") || $0.contains("Program crashed") }
    guard let crash else { return Array(lines.suffix(most)) }
    let thread = lines[crash...].firstIndex { $0.hasSuffix("crashed:") } ?? crash + 1
    return Array(lines[max(crash - 2, 0)...crash]) + Array(lines[thread...].prefix(most))
  }
}

package struct ChildCommand: Sendable {
  package var name: String
  package var executable: String
  /// The program that every second start runs.
  package var otherExecutable: String?
  package var arguments: [String]
  package var logPath: String
  /// In addition to callload's own environment.
  package var environment: [String: String] = [:]

  package init(name: String, executable: String, arguments: [String], logPath: String) {
    self.name = name
    self.executable = executable
    self.arguments = arguments
    self.logPath = logPath
  }

  /// The same with the other program, where there are two.
  package var other: ChildCommand {
    var other = self
    if let otherExecutable {
      other.executable = otherExecutable
      other.otherExecutable = executable
    }
    return other
  }
}

/// Starts processes that end with this one, even when this one is killed: util-linux's `setpriv` asks the
/// kernel to kill the child when the thread that started it is gone, so one thread starts all. Without
/// `setpriv`, a SIGKILL of this process leaves children behind.
package enum ChildLauncher {
  private static let threads: NIOThreadPool = {
    let pool = NIOThreadPool(numberOfThreads: 1)
    pool.start()
    return pool
  }()
  private typealias CloseFrom =
    @convention(c) (
      UnsafeMutablePointer<posix_spawn_file_actions_t>, CInt
    ) -> CInt
  /// In glibc since 2.34, but not imported by Swift.
  private static let closeFrom: CloseFrom? =
    dlsym(nil, "posix_spawn_file_actions_addclosefrom_np")
    .map { unsafeBitCast($0, to: CloseFrom.self) }
  private static let setpriv: String? = Executables.find("setpriv", also: ["/usr/bin"])

  /// - Throws: ``SetupError`` with the system's reason.
  package static func start(_ command: ChildCommand) async throws -> ChildProcess {
    var words = [command.executable] + command.arguments
    if let setpriv { words = [setpriv, "--pdeathsig", "KILL", "--"] + words }
    let arguments = words
    // Also in a cancelled task, which has to undo its faults.
    let processID = try await withCheckedThrowingContinuation { continuation in
      threads.submit { _ in
        continuation.resume(
          with: Result { try spawn(arguments, command) })
      }
    }
    return ChildProcess(name: command.name, processID: processID, logPath: command.logPath)
  }

  private static func spawn(_ words: [String], _ command: ChildCommand) throws -> pid_t {
    var attributes = posix_spawnattr_t()
    posix_spawnattr_init(&attributes)
    defer { posix_spawnattr_destroy(&attributes) }
    // A process group of its own: Ctrl-C reaches this process only, and the children live until the report is made.
    let flags = POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK
    posix_spawnattr_setflags(&attributes, Int16(flags))
    posix_spawnattr_setpgroup(&attributes, 0)
    var signals = sigset_t()
    sigfillset(&signals)
    posix_spawnattr_setsigdefault(&attributes, &signals)
    sigemptyset(&signals)
    posix_spawnattr_setsigmask(&attributes, &signals)

    var files = posix_spawn_file_actions_t()
    posix_spawn_file_actions_init(&files)
    defer { posix_spawn_file_actions_destroy(&files) }
    posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0)
    posix_spawn_file_actions_addopen(
      &files, 1, command.logPath, O_WRONLY | O_CREAT | O_APPEND, 0o600)
    posix_spawn_file_actions_adddup2(&files, 1, 2)
    // A child with inherited NIO sockets would keep connections open that this process has closed.
    _ = closeFrom?(&files, 3)

    var arguments: [UnsafeMutablePointer<CChar>?] = words.map { strdup($0) }
    arguments.append(nil)
    // Settings of nodes in this shell must not change what is measured.
    var variables: [UnsafeMutablePointer<CChar>?] = ProcessInfo.processInfo.environment
      .filter { !$0.key.hasPrefix("CALLMESH_") }.merging(command.environment) { $1 }
      .map { strdup("\($0.key)=\($0.value)") }
    variables.append(nil)
    defer { for text in arguments + variables { free(text) } }
    var processID: pid_t = 0
    let status = posix_spawn(&processID, words[0], &files, &attributes, arguments, variables)
    guard status == 0 else {
      throw SetupError("cannot start \(words[0]): \(String(cString: strerror(status)))")
    }
    return processID
  }
}

/// Why a run could not begin: a sentence that names the cause and the remedy.
package struct SetupError: Error, CustomStringConvertible, Equatable {
  package var description: String
  package init(_ description: String) { self.description = description }
}

package enum Executables {
  package static func find(_ name: String, also folders: [String] = []) -> String? {
    let path = ProcessInfo.processInfo.environment["PATH"] ?? ""
    return (path.split(separator: ":").map(String.init) + folders)
      .map { $0 + "/" + name }
      .first(where: isExecutable)
  }

  package static func isExecutable(_ path: String) -> Bool {
    var isFolder = false
    return FileManager.default.fileExists(atPath: path, isDirectory: &isFolder) && !isFolder
      && FileManager.default.isExecutableFile(atPath: path)
  }

  /// The path of this program; nil without /proc.
  package static var own: String? {
    try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")
  }

  package static func beside(_ name: String) -> String? {
    guard let own, let slash = own.lastIndex(of: "/") else { return nil }
    let path = own[...slash] + name
    return isExecutable(String(path)) ? String(path) : nil
  }
}
