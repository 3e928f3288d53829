internal import Foundation

/// Runs a command and gives its first line, for `--token-command`.
package enum TokenProgram {
  private static let secondsMax = 30

  /// - Throws: `PhoneProblem` if it fails, prints nothing, or takes too long; or why it cannot be run.
  package static func run(_ command: String, seconds: Int? = nil) async throws -> String {
    try await withCheckedThrowingContinuation { continuation in
      // A thread of its own: whoever waits for a program keeps the others from running.
      Thread { continuation.resume(with: Result { try read(command, seconds ?? secondsMax) }) }
        .start()
    }
  }

  private static func read(_ command: String, _ seconds: Int) throws -> String {
    let process = Process()
    let output = Pipe()
    process.executableURL = URL(filePath: "/bin/sh")
    process.arguments = ["-c", command]
    process.standardOutput = output
    try process.run()
    let number = process.processIdentifier
    // SIGTERM would be blocked; see `ProgramMedia.stop`.
    let timeout = DispatchWorkItem { kill(number, SIGKILL) }
    DispatchQueue.global().asyncAfter(deadline: .now() + .seconds(seconds), execute: timeout)
    let text = String(decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
    process.waitUntilExit()
    timeout.cancel()
    guard process.terminationStatus == 0, let line = text.split(whereSeparator: \.isNewline).first
    else {
      throw PhoneProblem(
        "--token-command: it failed, printed nothing, or took more than \(seconds) s.")
    }
    return String(line)
  }
}
