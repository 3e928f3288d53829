import CallCore
import CallEdge
import CallWire
import Testing

private let call = CallID(high: 1, low: 2)

@Suite struct SessionCallsTests {
  private let live = LiveCalls(
    placed: [CallState(call: call, callee: "bob", phase: .ringing, version: 3)])

  @Test func allShardsAreAskedOnce() {
    var machine = SessionMachine.attached()
    machine.say(2, .calls)
    machine.say(2, .calls)
    #expect(machine.take() == [.askForCalls(request: 2)])
    machine.session.callsListed(request: 2, live, &machine.turn)
    #expect(machine.take() == [.reply(2, .calls(live))])
    // A second answer, or one to nothing, is none.
    machine.session.callsListed(request: 2, live, &machine.turn)
    #expect(machine.take() == [])
  }

  @Test func oncePerTenSeconds() throws {
    var machine = SessionMachine.attached()
    machine.say(2, .calls)
    machine.say(3, .calls)
    machine.session.callsListed(request: 2, live, &machine.turn)
    machine.pass(.seconds(4))
    machine.say(4, .calls)
    let answers = machine.take().compactMap {
      if case .reply(let id, .error(let error)) = $0 { (id, error) } else { nil }
    }
    #expect(answers.map(\.0) == [3, 4])
    #expect(answers.map(\.1.code) == [.rateLimited, .rateLimited])
    #expect(answers.map(\.1.retryAfterMilliseconds) == [10_000, 6000])
    machine.pass(.seconds(6))
    machine.say(5, .calls)
    #expect(machine.take() == [.askForCalls(request: 5)])
  }

  @Test func aShardThatDoesNotAnswerMakesItTryAgain() {
    var machine = SessionMachine.attached()
    machine.say(2, .calls)
    _ = machine.take()
    machine.pass(.seconds(5))
    machine.session.callsListed(request: 2, nil, &machine.turn)
    #expect(
      machine.take() == [
        .reply(2, .error(CallError(.tryAgain, retryAfterMilliseconds: 5000)))
      ])
  }

  @Test func aQuestionThatWasNotAskedDoesNotCount() {
    var machine = SessionMachine.attached()
    machine.say(2, .calls)
    _ = machine.take()
    let full = CallError(.overloaded, retryAfterMilliseconds: 1000)
    machine.session.callsRefused(request: 2, full, &machine.turn)
    #expect(machine.take() == [.reply(2, .error(full))])
    machine.say(2, .calls)
    #expect(machine.take() == [.askForCalls(request: 2)])
  }

  @Test func answersAreCollected() {
    var question = CallsQuestion(asker: 1, request: 2, shardCount: 3)
    let state = live.placed[0]
    #expect(question.add(.calls(live)) == .waiting)
    #expect(question.add(.calls(LiveCalls(received: [state]))) == .waiting)
    #expect(
      question.add(.calls(live))
        == .complete(LiveCalls(placed: [state, state], received: [state]))
    )
    var failing = CallsQuestion(asker: 1, request: 2, shardCount: 3)
    #expect(failing.add(.error(CallError(.tryAgain))) == .failed)
    var many = CallsQuestion(asker: 1, request: 2, shardCount: 2)
    let full = LiveCalls(placed: Array(repeating: state, count: 40))
    #expect(many.add(.calls(full)) == .waiting)
    guard case .complete(let all) = many.add(.calls(full)) else {
      Issue.record("not complete")
      return
    }
    #expect(all.placed.count == LiveCalls.countMaximum)
  }
}
