internal import ArgumentParser
internal import CallTelemetry

@main struct Main {
  static func main() async {
    do {
      var command = try CallctlCommand.parseAsRoot()
      if var asynchronous = command as? any AsyncParsableCommand {
        try await asynchronous.run()
      } else {
        try command.run()
      }
      endProcess(0)
    } catch let error as CallctlError {
      writeToStandardError("callctl: \(error.description)\n")
      endProcess(error.exitCode)
    } catch let code as ExitCode {
      endProcess(code.rawValue)
    } catch {
      let message = CallctlCommand.fullMessage(for: error)
      guard CallctlCommand.exitCode(for: error) != .success else {
        print(message)
        endProcess(0)
      }
      writeToStandardError(message + "\n")
      endProcess(CallctlError.usageExitCode)
    }
  }
}

/// Why callctl could not do what it was asked.
package struct CallctlError: Error, CustomStringConvertible {
  /// EX_USAGE of sysexits.h, which differs from the three that scripts look at.
  static let usageExitCode: Int32 = 64

  static let unreachableExitCode: Int32 = 2

  package var description: String
  var exitCode: Int32

  static func failed(_ text: String) -> Self { Self(description: text, exitCode: 1) }
  static func unreachable(_ text: String) -> Self {
    Self(description: text, exitCode: unreachableExitCode)
  }
  static func usage(_ text: String) -> Self { Self(description: text, exitCode: usageExitCode) }
}
