internal import ArgumentParser
internal import CallTelemetry

/// Exit codes: 0 after a graceful end, 1 when a running node failed, 2 when it could not start because of its
/// configuration.
package enum CallnodeProgram {
  package static func main() async {
    do {
      var command = try CallnodeCommand.parseAsRoot()
      if var asynchronous = command as? any AsyncParsableCommand {
        try await asynchronous.run()
      } else {
        try command.run()
      }
      endProcess(0)
    } catch let error as StartError {
      end(error)
    } catch let error as ConfigurationError {
      end(.configuration(error))
    } catch {
      let message = CallnodeCommand.fullMessage(for: error)
      guard CallnodeCommand.exitCode(for: error) != .success else {
        print(message)
        endProcess(0)
      }
      end(StartError(description: message, exitCode: 2))
    }
  }

  private static func end(_ error: StartError) -> Never {
    writeToStandardError(error.description + "\n")
    endProcess(error.exitCode)
  }
}

/// The reason why a node did not start, or stopped.
struct StartError: Error, CustomStringConvertible {
  var description: String
  var exitCode: Int32

  static func configuration(_ error: any Error) -> StartError {
    StartError(description: "callnode: \(error)", exitCode: 2)
  }
  static func failure(_ text: String) -> StartError {
    StartError(description: "callnode: \(text)", exitCode: 1)
  }
}
