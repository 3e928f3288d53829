import CallCore
import CallPhoneKit
import CallWire
import CallmeshClient
import FakeEdges
import Foundation
import Synchronization
import Testing

@Suite(.timeLimit(.minutes(1))) struct PhoneTests {
  let bob = Party(user: "bob", device: "b1", deviceName: "Bob's phone")

  private final class Output: Sendable {
    private let lines = Mutex<[PhoneLine]>([])
    var all: [PhoneLine] { lines.withLock { $0 } }
    func add(_ line: PhoneLine) { lines.withLock { $0.append(line) } }
    func first(_ event: String) -> PhoneLine? { all.first { $0.event == event } }
  }

  private func run(
    _ edge: FakeEdge, _ orders: [String], reaction: Phone.Reaction = .ring, _ output: Output
  ) async throws -> Phone.Ending {
    var options = DeviceOptions(edges: ["wss://edge.example"], device: "d1")
    options.token = "token"
    let device = try Device(options, transport: edge, clock: ManualClock())
    let phone = Phone(device, reaction: reaction) { output.add($0) }
    let (lines, feed) = AsyncStream.makeStream(of: String.self)
    for order in orders { feed.yield(order) }
    feed.finish()
    return await phone.run(lines)
  }

  /// An edge on which Bob answers each call at once.
  private func answering() -> FakeEdge {
    FakeEdge { frame in
      switch frame.command {
      case .place(let address, _):
        let state = CallState(call: address.call, callee: "bob", phase: .placed, version: 1)
        let answered = Delivery(
          call: address.call, callee: "bob", version: 2, at: Timestamp(microseconds: 0),
          event: .answered(Answered(by: bob)))
        return [.reply(id: frame.id, .call(state)), .delivery(answered)]
      case .call: return [.reply(id: frame.id, .done)]
      default: return []
      }
    }
  }

  @Test func aScriptCallsAndHangsUp() async throws {
    let output = Output()
    let edge = answering()
    let ending = try await run(
      edge, ["wait attached", "call bob", "wait connected", "hangup", "wait ended"], output)
    #expect(ending == .done)
    let names = output.all.map(\.event)
    #expect(names == ["attached", "placed", "answered", "connected", "ended"])
    #expect(output.first("answered")?.device == "Bob's phone")
    #expect(output.first("answered")?.peer == "bob" && output.first("answered")?.call == 1)
    #expect(output.first("ended")?.reason == "hungUp")
    #expect(edge.commands.last == .detach)
  }

  @Test("a call that is over has no number any more, and does not get another one")
  func numbers() async throws {
    let output = Output()
    let calls = ["call bob", "wait connected", "hangup", "wait ended"]
    _ = try await run(answering(), ["wait attached"] + calls + calls + calls, output)
    let placed = output.all.filter { $0.event == "placed" }
    #expect(placed.map(\.call) == [1, 2, 3])
  }

  @Test func whatIsSaidInACallThatWasPulled() async throws {
    let id = CallID(high: 1, low: 2)
    let pulled = OngoingCall(
      call: id, callee: "me", isPlaced: false, device: "d2", peer: "bob",
      since: Timestamp(microseconds: 1))
    let edge = FakeEdge { frame in
      switch frame.command {
      case .attach:
        let info = AttachedInfo(
          session: "s", user: "me", device: "d1", pingSeconds: 25,
          serverTime: Timestamp(microseconds: 1_000_000_000))
        return [
          .reply(id: frame.id, .attached(info)),
          .ongoing(OngoingCalls(version: 1, calls: [pulled])),
        ]
      case .call(_, .pull):
        let state = CallState(
          call: id, callee: "me", phase: .answered, version: 2,
          by: Party(user: "me", device: "d1"))
        let hello = Delivery(
          call: id, callee: "me", version: 3, at: Timestamp(microseconds: 0),
          event: .signal(Signal(index: 1, kind: .information, body: "hello")))
        return [.reply(id: frame.id, .answer(won: true, state)), .delivery(hello)]
      case .call: return [.reply(id: frame.id, .done)]
      default: return []
      }
    }
    let output = Output()
    _ = try await run(edge, ["wait ongoing", "pull 1", "wait said 20"], output)
    #expect(output.first("said")?.text == "hello")
  }

  @Test func theCommandForTokensHasATimeLimit() async throws {
    #expect(try await TokenProgram.run("echo abc; echo def") == "abc")
    for command in ["false", "true"] {
      await #expect(throws: PhoneProblem.self) { try await TokenProgram.run(command) }
    }
    await #expect(throws: PhoneProblem.self) {
      try await TokenProgram.run("exec sleep 600", seconds: 0)
    }
  }

  @Test func theProgramOfACallEndsWithIt() async throws {
    let file = FileManager.default.temporaryDirectory.appending(path: UUID().uuidString).path
    defer { try? FileManager.default.removeItem(atPath: file) }
    let media = ProgramMedia("sh -c 'echo $$ > \(file); exec sleep 600'")
    media.start(peer: "bob")
    var number: Int32?
    while number == nil {
      let text = try? String(contentsOfFile: file, encoding: .utf8)
      number = text.flatMap { Int32($0.dropLast()) }
      await Task.yield()
    }
    media.stop()
    while let number, kill(number, 0) == 0 { await Task.yield() }
  }

  @Test func aWaitInVainEndsTheScript() async throws {
    let output = Output()
    let ending = try await run(
      FakeEdge(), ["wait attached", "wait incoming 1", "call bob"], output)
    #expect(ending == .waitedInVain)
    #expect(output.all.last?.event == "waitedInVain" && output.all.last?.text == "incoming")
  }

  @Test func aPhoneThatReactsAnswers() async throws {
    let id = CallID(high: 1, low: 2)
    let invite = Invite(caller: bob, deadline: Timestamp(microseconds: 1_030_000_000))
    let edge = FakeEdge { frame in
      switch frame.command {
      case .attach:
        let info = AttachedInfo(
          session: "s", user: "me", device: "d1", pingSeconds: 25,
          serverTime: Timestamp(microseconds: 1_000_000_000))
        let ring = Delivery(
          call: id, callee: "me", version: 1, at: Timestamp(microseconds: 0),
          event: .invite(invite))
        return [.reply(id: frame.id, .attached(info)), .delivery(ring)]
      case .call(_, .answer):
        let state = CallState(call: id, callee: "me", phase: .answered, version: 2)
        return [.reply(id: frame.id, .answer(won: true, state))]
      case .call: return [.reply(id: frame.id, .done)]
      default: return []
      }
    }
    let output = Output()
    let ending = try await run(edge, ["wait connected"], reaction: .answer, output)
    #expect(ending == .done)
    #expect(output.first("incoming")?.peer == "bob")
  }

  @Test func aRefusedPhoneEnds() async throws {
    let edge = FakeEdge { [.reply(id: $0.id, .error(CallError(.notAccepted)))] }
    let output = Output()
    #expect(try await run(edge, ["wait attached 600"], output) == .refused)
    #expect(output.first("refused")?.code == 200)
  }

  @Test func ordersThatDoNotFitAreErrors() async throws {
    let output = Output()
    _ = try await run(FakeEdge(), ["answer", "pull 3", "sing", "help"], output)
    let texts = output.all.filter { $0.event == "error" }.map(\.text)
    #expect(
      texts == [
        "No call rings.", "There is no call 3 in the list of ongoing ones.",
        "There is no order sing; help lists them.",
      ])
    #expect(output.all.filter { $0.event == "help" }.count > 10)
  }
}
