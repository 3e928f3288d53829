import Foundation
import NIOCore
import NIOPosix

/// Lets the conformance suite drive `CallClient`: lines of JSON come in, and what the client shows goes out.
/// `docs/conformance.md` describes the lines.
@main
struct ConformanceAdapter {
  static func main() {
    let eventLoop = MultiThreadedEventLoopGroup.singleton.next()
    let puppet = NIOLoopBoundBox.makeBoxSendingValue(Puppet(eventLoop), eventLoop: eventLoop)
    Show.line(
      "ready",
      ["name": "Sources/CallClient", "clock": "virtual", "encodings": ["protobuf", "json"]])
    while let line = readLine() {
      eventLoop.execute { puppet.value.handle(line) }
    }
  }
}

/// The lines that go out.
enum Show {
  static func line(_ name: String, _ body: [String: Any] = [:]) {
    guard var line = try? JSONSerialization.data(withJSONObject: [name: body]) else { return }
    line.append(UInt8(ascii: "\n"))
    FileHandle.standardOutput.write(line)
  }
}
