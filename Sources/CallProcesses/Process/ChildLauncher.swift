import Dispatch
import FoundationEssentials
import Glibc
import NIOPosix
import Synchronization

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

  /// - Throws: ``ProcessFailure`` with the system's reason.
  package static func start(_ command: ChildCommand) async throws -> ChildProcess {
    // Also in a cancelled task, which has to undo its faults.
    try await withCheckedThrowingContinuation { continuation in
      start(command) { continuation.resume(with: $0) }
    }
  }

  /// Blocks the thread for the milliseconds that a start takes.
  /// - Throws: ``ProcessFailure`` with the system's reason.
  package static func startNow(_ command: ChildCommand) throws -> ChildProcess {
    let started = Mutex<Result<ChildProcess, any Error>?>(nil)
    let isDone = DispatchSemaphore(value: 0)
    start(command) { result in
      started.withLock { $0 = result }
      isDone.signal()
    }
    isDone.wait()
    return try started.withLock { $0! }.get()
  }

  private static func start(
    _ command: ChildCommand,
    then report: @escaping @Sendable (Result<ChildProcess, any Error>) -> Void
  ) {
    threads.submit { _ in
      report(
        Result {
          ChildProcess(
            name: command.name, processID: try spawn(command), logPath: command.logPath)
        })
    }
  }

  private static func spawn(_ command: ChildCommand) throws -> pid_t {
    // setpriv would say so in the log only.
    guard Executables.isExecutable(command.executable) else {
      throw ProcessFailure("cannot start \(command.executable): there is no such program")
    }
    var words = [command.executable] + command.arguments
    if let setpriv { words = [setpriv, "--pdeathsig", "KILL", "--"] + words }
    var attributes = posix_spawnattr_t()
    posix_spawnattr_init(&attributes)
    defer { posix_spawnattr_destroy(&attributes) }
    // A process group of its own: Ctrl-C reaches this process only, and the children live until the report is made.
    let flags = POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK
    posix_spawnattr_setflags(&attributes, Int16(flags))
    posix_spawnattr_setpgroup(&attributes, 0)
    // Threads of tasks block signals, and a child would inherit that.
    var signals = sigset_t()
    sigfillset(&signals)
    posix_spawnattr_setsigdefault(&attributes, &signals)
    sigemptyset(&signals)
    posix_spawnattr_setsigmask(&attributes, &signals)

    var files = posix_spawn_file_actions_t()
    posix_spawn_file_actions_init(&files)
    defer { posix_spawn_file_actions_destroy(&files) }
    redirect(command, in: &files)

    var arguments: [UnsafeMutablePointer<CChar>?] = words.map { strdup($0) }
    arguments.append(nil)
    var variables: [UnsafeMutablePointer<CChar>?] = command.variables(
      of: ProcessInfo.processInfo.environment
    )
    .map { strdup("\($0.key)=\($0.value)") }
    variables.append(nil)
    defer { for text in arguments + variables { free(text) } }
    var processID: pid_t = 0
    let status = posix_spawn(&processID, words[0], &files, &attributes, arguments, variables)
    guard status == 0 else {
      throw ProcessFailure("cannot start \(words[0]): \(String(cString: strerror(status)))")
    }
    return processID
  }

  private static func redirect(
    _ command: ChildCommand, in files: inout posix_spawn_file_actions_t
  ) {
    if let input = command.standardInput {
      posix_spawn_file_actions_adddup2(&files, input, 0)
    } else {
      posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0)
    }
    if let errors = command.standardError {
      posix_spawn_file_actions_adddup2(&files, errors, 2)
    }
    if let output = command.standardOutput {
      posix_spawn_file_actions_adddup2(&files, output, 1)
    } else {
      posix_spawn_file_actions_addopen(
        &files, 1, command.logPath, O_WRONLY | O_CREAT | O_APPEND, 0o600)
    }
    if command.standardError == nil { posix_spawn_file_actions_adddup2(&files, 1, 2) }
    // A child with inherited NIO sockets would keep connections open that this process has closed.
    _ = closeFrom?(&files, 3)
  }
}
