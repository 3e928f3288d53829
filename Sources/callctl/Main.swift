internal import ArgumentParser
internal import Glibc

@main struct Main {
  static func main() async {
    do {
      var command = try CallctlCommand.parseAsRoot()
      if var asynchronous = command as? any AsyncParsableCommand {
        try await asynchronous.run()
      } else {
        try command.run()
      }
    } catch let error as CallctlError {
      complain("callctl: \(error.description)")
      exit(error.exitCode)
    } catch let code as ExitCode {
      exit(code.rawValue)
    } catch {
      let message = CallctlCommand.fullMessage(for: error)
      guard CallctlCommand.exitCode(for: error) != .success else {
        print(message)
        exit(0)
      }
      complain(message)
      exit(CallctlError.usageExitCode)
    }
  }

  private static func complain(_ text: String) {
    let line = Array((text + "\n").utf8)
    _ = write(STDERR_FILENO, line, line.count)
  }
}

/// Why callctl could not do what it was asked.
struct CallctlError: Error, CustomStringConvertible {
  /// EX_USAGE of sysexits.h, which differs from the three that scripts look at.
  static let usageExitCode: Int32 = 64

  static let unreachableExitCode: Int32 = 2

  var description: String
  var exitCode: Int32

  static func failed(_ text: String) -> CallctlError {
    CallctlError(description: text, exitCode: 1)
  }
  static func unreachable(_ text: String) -> CallctlError {
    CallctlError(description: text, exitCode: unreachableExitCode)
  }
  static func usage(_ text: String) -> CallctlError {
    CallctlError(description: text, exitCode: usageExitCode)
  }
}
