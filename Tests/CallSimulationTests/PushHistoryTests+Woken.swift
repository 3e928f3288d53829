import CallClient
import CallCore
import CallJudge
import CallSimulation
import CallWire
import Testing

/// Devices that a push woke.
extension PushHistoryTests {
  // MARK: Who is woken

  @Test func whoIsWokenIsTold() {
    var bench = Bench()
    bench.note(.opened(Self.bob1, link: 1))
    bench.push(.woken(Self.bob1, Self.call))
    bench.now = 2
    #expect(bench.checker.lateness(at: Self.at(2)) == nil)
    #expect(bench.checker.lateness(at: Self.at(9.5))?.rule == .wokenAreTold)
    #expect(bench.checker.finish([]).contains { $0.rule == .wokenAreTold })
    bench.note(.told(Self.bob1, .call(Self.call, .stopped(Stop(reason: .cancelled)))))
    #expect(!bench.checker.finish([]).contains { $0.rule == .wokenAreTold })
  }

  @Test("without a connection nobody can be told") func whoIsWokenWithoutANetwork() {
    var bench = Bench()
    bench.push(.woken(Self.bob1, Self.call))
    #expect(bench.checker.lateness(at: Self.at(9.5)) == nil)
  }

  func attach(_ state: CallState?, after prepare: (inout Bench) -> Void) -> HistoryRule? {
    var bench = Bench()
    prepare(&bench)
    bench.now = 6
    bench.note(.opened(Self.bob1, link: 1))
    let request = AttachRequest(
      token: "", device: "b1", forCall: Self.call, deviceName: "", client: "")
    bench.note(.sent(Self.bob1, link: 1, ClientFrame(id: 1, command: .attach(request))))
    let info = AttachedInfo(
      session: "s", user: "bob", device: "b1", pingSeconds: 25, serverTime: Self.at(6),
      forCall: state)
    bench.note(.received(Self.bob1, link: 1, .reply(id: 1, .attached(info))))
    return bench.found
  }

  func state(_ phase: CallPhase, _ reason: EndReason? = nil, by: Who? = nil) -> CallState {
    CallState(
      call: Self.call, callee: "bob", phase: phase, version: 9, reason: reason,
      by: by.map(Self.party), missed: reason?.isMissedCall ?? false)
  }

  @Test func whoAttachesIsAnswered() {
    #expect(attach(nil) { _ in } == .attachAnswered)
    #expect(attach(state(.ringing)) { _ in } == nil)
    #expect(attach(state(.ringing)) { $0.ended(.cancelled, by: Self.alice) } == .attachAnswered)
    #expect(attach(state(.ringing)) { $0.answered(Self.bob2) } == .attachAnswered)
    #expect(attach(state(.answered, by: Self.bob2)) { $0.answered(Self.bob2) } == .attachAnswered)
    #expect(
      attach(state(.ended, .answeredElsewhere, by: Self.bob2)) { $0.answered(Self.bob2) } == nil)
    #expect(
      attach(state(.ended, .cancelled, by: Self.alice)) { $0.ended(.cancelled, by: Self.alice) }
        == nil)
    #expect(
      attach(state(.ended, .unanswered)) { $0.ended(.cancelled, by: Self.alice) } == .oneStory)
    #expect(attach(state(.unknown)) { _ in } == .nothingLost)
  }

  @Test("what is said without a session counts as said, and is answered like the rest")
  func withoutASession() {
    var bench = Bench()
    let decline = ClientCommand.call(
      CallAddress(callee: "bob", call: Self.call), .decline(.everywhere))
    bench.ended(.declined, by: Self.bob1)
    bench.push(
      .answered(
        Self.bob1, decline, .call(state(.ended, .declined, by: Self.bob1)), since: Self.at(1)))
    #expect(bench.found == nil)
    bench.push(.answered(Self.bob1, decline, .error(CallError(.notAccepted)), since: Self.at(1)))
    #expect(bench.found == .noStrangeError)
  }
}
