import FoundationEssentials
import Glibc

/// The output of a program that has run to its end.
package struct CommandOutput: Sendable {
  package var end: ProcessEnd
  package var text: String
  /// The text on its standard error: why it failed.
  package var errors: String

  /// As a shell gives it: 128 and more after a signal.
  package var status: Int32 { end.status }

  /// Runs a program to its end, also in a cancelled task.
  /// - Parameters:
  ///   - input: the bytes that it can read.
  ///   - timeout: the time after which it is killed.
  /// - Throws: ``ProcessFailure`` where it does not start.
  package static func of(
    _ command: ChildCommand, input: [UInt8] = [], timeout: Duration = .seconds(1200)
  ) async throws -> CommandOutput {
    let files = try Files(input)
    let child = try await ChildLauncher.start(files.redirecting(command))
    _ = await child.end(within: timeout)
    return files.output(await child.killed())
  }

  /// The same, blocking the thread.
  /// - Throws: ``ProcessFailure`` where it does not start.
  package static func now(
    _ command: ChildCommand, input: [UInt8] = [], timeout: Duration = .seconds(1200)
  ) throws -> CommandOutput {
    let files = try Files(input)
    let child = try ChildLauncher.startNow(files.redirecting(command))
    return files.output(child.endNow(within: timeout))
  }

  /// Files without names: they take all output, and are gone with this process.
  private final class Files: Sendable {
    private let input, output, errors: TemporaryFile

    init(_ bytes: [UInt8]) throws {
      input = try TemporaryFile(bytes)
      output = try TemporaryFile()
      errors = try TemporaryFile()
    }

    func redirecting(_ command: ChildCommand) -> ChildCommand {
      var command = command
      command.standardInput = input.descriptor
      command.standardOutput = output.descriptor
      command.standardError = errors.descriptor
      return command
    }

    func output(_ end: ProcessEnd) -> CommandOutput {
      CommandOutput(end: end, text: output.text, errors: errors.text)
    }
  }
}

/// An open file that has no name.
private final class TemporaryFile: Sendable {
  let descriptor: CInt

  init(_ bytes: [UInt8] = []) throws {
    var template = Array("\(TemporaryFolder.parent)/callmesh-XXXXXX".utf8CString)
    descriptor = mkstemp(&template)
    guard descriptor >= 0, unlink(template) == 0,
      pwrite(descriptor, bytes, bytes.count, 0) == bytes.count
    else { throw ProcessFailure("cannot make a file in \(TemporaryFolder.parent)") }
  }

  deinit { close(descriptor) }

  var text: String {
    var bytes: [UInt8] = []
    var buffer = [UInt8](repeating: 0, count: 65_536)
    while case let count = pread(descriptor, &buffer, buffer.count, bytes.count), count > 0 {
      bytes += buffer[..<count]
    }
    return String(decoding: bytes, as: UTF8.self)
  }
}
