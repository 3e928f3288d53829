import CallClient
import CallCore
import CallWire
import Foundation
import Synchronization
import Testing

/// The sample of docs/app.md is `AppSample.swift`, and it works.
@Suite(.timeLimit(.minutes(1))) struct AppSampleTests {
  @Test func theDocumentShowsTheSampleThatIsCompiled() throws {
    let folder = URL(filePath: #filePath).deletingLastPathComponent()
    let sample = try String(contentsOf: folder.appending(path: "AppSample.swift"), encoding: .utf8)
    let page = try String(contentsOf: folder.appending(path: "../../docs/app.md"), encoding: .utf8)
    #expect(page.contains("```swift\n\(sample)```\n"), "docs/app.md and AppSample.swift differ")
  }

  @Test func thePhoneRingsAnswersAndIsStopped() async throws {
    let call = CallID(high: 1, low: 2)
    @Sendable func delivery(_ version: UInt64, _ event: Delivery.Event) -> ServerFrame {
      .delivery(
        Delivery(
          call: call, callee: "me", version: version, at: Timestamp(microseconds: 0), event: event))
    }
    let server = try await LoopbackServer.start { frame in
      switch frame.command {
      case .attach:
        let invite = Invite.sample(until: 9)
        return [.reply(id: frame.id, .attached(.sample)), delivery(1, .invite(invite))]
      case .call(_, .answer):
        let state = CallState(call: call, callee: "me", phase: .answered, version: 2)
        return [.reply(id: frame.id, .answer(won: true, state))]
      case .call(_, .connected):
        let stop = Stop(reason: .hungUp, by: .you)
        return [.reply(id: frame.id, .done), delivery(3, .stop(stop))]
      default: return [.reply(id: frame.id, .done)]
      }
    }
    let shown = AsyncStream.makeStream(of: String.self)
    let phone = Phone(
      edges: [server.url], user: "token", device: "d1",
      screen: RecordingScreen(shown: shown.continuation)
    ) { "token" }
    async let run: Void = phone.run()
    var seen: [String] = []
    for await line in shown.stream {
      seen.append(line)
      if line == "you calls" { try await phone.answer(call, with: "answer") }
      if line == "ended 2" { break }
    }
    #expect(seen == ["you calls", "ended 2"])
    phone.device.stop()
    await run
    try await server.stop()
  }
}

private struct RecordingScreen: CallScreen {
  let shown: AsyncStream<String>.Continuation
  func ring(_ call: CallID, from caller: Party) { shown.yield("\(caller.user) calls") }
  func connect(_ call: CallID, description: String) {}
  func addCandidate(_ call: CallID, _ candidate: String) {}
  func end(_ call: CallID, callKitReason: Int) { shown.yield("ended \(callKitReason)") }
  func signIn() {}
}
