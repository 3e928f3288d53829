import FoundationEssentials
import Glibc
import Synchronization

package struct Terminal: Sendable, Equatable {
  package var isTerminal: Bool
  package var usesColor: Bool

  package init(descriptor: Int32, environment: [String: String]) {
    isTerminal = isatty(descriptor) == 1 && environment["TERM"] != "dumb"
    usesColor = isTerminal && (environment["NO_COLOR"] ?? "").isEmpty
  }

  package var style: TextStyle { TextStyle(usesColor: usesColor) }

  package static func width(descriptor: Int32) -> Int {
    var size = winsize()
    guard ioctl(descriptor, UInt(TIOCGWINSZ), &size) == 0, size.ws_col > 0 else { return 80 }
    return Int(size.ws_col)
  }
}

/// Progress on standard error: a display redrawn in its place on a terminal, elsewhere a line every 5 s.
package final class Console: Sendable {
  private struct State {
    var drawnLines = 0
    var isClosed = false
  }
  private let terminal: Terminal
  private let state = Mutex(State())

  package init(terminal: Terminal) { self.terminal = terminal }

  /// Redraws ten times a second, or prints every five seconds, until the task is cancelled.
  package func run(_ current: @Sendable () -> LiveStatus) async {
    var lastPhase = ""
    var lastLine = ContinuousClock.now
    while !Task.isCancelled {
      let status = current()
      if terminal.isTerminal {
        draw(status)
      } else if status.phase != lastPhase || ContinuousClock.now - lastLine >= .seconds(5) {
        if !status.phase.isEmpty { write(LiveFrame.plainLine(status) + "\n") }
        (lastPhase, lastLine) = (status.phase, .now)
      }
      try? await Task.sleep(for: .milliseconds(100))
    }
  }

  /// Prints a lasting line above the display.
  package func say(_ text: String) {
    state.withLock { state in
      write(Self.erasing(&state) + text + "\n")
    }
  }

  /// Removes the display and restores the cursor. Nothing is drawn after that.
  package func close() {
    state.withLock { state in
      guard !state.isClosed else { return }
      let erase = Self.erasing(&state)
      state.isClosed = true
      if terminal.isTerminal { write(erase + "\u{1B}[?25h") }
    }
  }

  private func draw(_ status: LiveStatus) {
    let lines = LiveFrame.lines(
      status, width: Terminal.width(descriptor: STDERR_FILENO) - 1, style: terminal.style)
    state.withLock { state in
      guard !state.isClosed else { return }
      let text = Self.erasing(&state) + "\u{1B}[?25l" + lines.map { $0 + "\n" }.joined()
      state.drawnLines = lines.count
      write(text)
    }
  }

  /// The sequence that moves the cursor to the start of the display and clears from there.
  private static func erasing(_ state: inout State) -> String {
    guard state.drawnLines > 0 else { return "" }
    defer { state.drawnLines = 0 }
    return "\u{1B}[\(state.drawnLines)A\r\u{1B}[J"
  }

  private func write(_ text: String) { Output.write(text, to: STDERR_FILENO) }
}

/// Unbuffered output that survives signals and a closed pipe.
package enum Output {
  package static func write(_ text: String, to descriptor: Int32) {
    var bytes = Array(text.utf8)[...]
    while !bytes.isEmpty {
      let count = bytes.withUnsafeBytes { Glibc.write(descriptor, $0.baseAddress, $0.count) }
      if count > 0 {
        bytes = bytes.dropFirst(count)
      } else if errno != EINTR {
        return
      }
    }
  }
}
