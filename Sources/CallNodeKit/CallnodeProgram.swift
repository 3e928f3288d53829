internal import ArgumentParser
internal import Glibc

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
    } catch let error as StartError {
      complain(error.description)
      exit(error.exitCode)
    } catch let error as ConfigurationError {
      complain(StartError.configuration(error).description)
      exit(2)
    } catch {
      let message = CallnodeCommand.fullMessage(for: error)
      guard CallnodeCommand.exitCode(for: error) != .success else {
        print(message)
        exit(0)
      }
      complain(message)
      exit(2)
    }
  }

  private static func complain(_ text: String) {
    let line = Array((text + "\n").utf8)
    _ = write(STDERR_FILENO, line, line.count)
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
