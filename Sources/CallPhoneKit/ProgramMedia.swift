internal import Foundation
internal import Synchronization

/// An external program that runs while a call is answered, such as `aplay tone.wav`. It has nothing to do with the other
/// side: no media go over the network.
package final class ProgramMedia: PhoneMedia {
  private let command: String
  private let running = Mutex<Int32?>(nil)

  package init(_ command: String) { self.command = command }

  package func start(peer: String) {
    running.withLock { running in
      guard running == nil else { return }
      let process = Process()
      process.executableURL = URL(filePath: "/bin/sh")
      process.arguments = ["-c", "exec \(command)"]
      process.environment = ProcessInfo.processInfo.environment.merging(
        ["CALLPHONE_PEER": peer]) { $1 }
      process.standardOutput = FileHandle.standardError
      process.terminationHandler = { [weak self] ended in
        self?.running.withLock { if $0 == ended.processIdentifier { $0 = nil } }
      }
      if (try? process.run()) != nil { running = process.processIdentifier }
    }
  }

  /// Threads of tasks block signals, and a program that one of them starts inherits that. So SIGTERM would not end it.
  package func stop() {
    running.withLock {
      if let process = $0 { kill(process, SIGKILL) }
      $0 = nil
    }
  }
}
