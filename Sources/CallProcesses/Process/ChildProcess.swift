import FoundationEssentials
package import Glibc
import Synchronization

/// A process that this one has started. Its end is collected under the lock under which signals are sent, so no signal
/// reaches another process that got its id.
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
      if answer == -1, errno == ECHILD {
        // The kernel keeps no end of a child where SIGCHLD was ignored when this program began.
        end = .exited(255)
        return end
      }
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

  /// Sends a signal, unless the process is known to have ended (its id may be another's by then). A kill ends its
  /// group as well, so that a shell's programs do not outlive the shell.
  package func send(_ signal: Int32) {
    end.withLock { end in
      if end == nil { _ = kill(signal == SIGKILL ? -processID : processID, signal) }
    }
  }

  // MARK: Blocking, for `defer` and `deinit`

  /// Asks it to end, and kills it after `timeout`. Blocks the thread until it has ended.
  @discardableResult
  package func stopNow(_ signal: Int32 = SIGTERM, timeout: Duration = .seconds(10)) -> ProcessEnd {
    expectEnd()
    send(signal)
    // A frozen process handles the signal only once it continues.
    send(SIGCONT)
    return endNow(within: timeout)
  }

  @discardableResult
  package func killNow() -> ProcessEnd { stopNow(SIGKILL) }

  /// Waits for its end, and kills it after `timeout`. Blocks the thread.
  package func endNow(within timeout: Duration) -> ProcessEnd {
    let deadline = ContinuousClock.now + timeout
    while true {
      if let end = poll() { return end }
      if ContinuousClock.now >= deadline { send(SIGKILL) }
      usleep(2000)
    }
  }

  // MARK: Its log

  /// The last lines of its log, each indented.
  package func logTail() -> String {
    guard let tail = Self.end(of: logPath), !tail.isEmpty else {
      return "    (it wrote nothing)"
    }
    return Self.telling(tail).map { "    " + $0 }.joined(separator: "\n")
  }

  /// The last part of a file that may be large.
  private static func end(of path: String) -> String? {
    guard let file = fopen(path, "r") else { return nil }
    defer { fclose(file) }
    var bytes = [UInt8](repeating: 0, count: 65_536)
    fseek(file, 0, SEEK_END)
    fseek(file, max(0, ftell(file) - bytes.count), SEEK_SET)
    let count = fread(&bytes, 1, bytes.count, file)
    return String(decoding: bytes[..<count], as: UTF8.self)
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
