import CallClient
import CallCore
import Testing

@Suite struct RetryPlanTests {
  private struct Run {
    var plan: RetryPlan
    var now = Timestamp(microseconds: 5_000_000)
    var random = SplitMix64(seed: 3)

    init(edges: Int = 2, deadline: Span = .seconds(15)) {
      var options = EdgeHTTPClient.Options()
      options.deadline = deadline
      plan = RetryPlan(edges: edges, limits: options, now: now)
    }

    mutating func next() -> RetryPlan.Step { plan.next(now: now, random: &random) }
    mutating func pass(_ span: Span) { now = now + span }
  }

  @Test func edgesAreAskedInTurnWithWaitsThatGrow() {
    var run = Run(edges: 3, deadline: .seconds(60))
    for (attempt, edge) in [0, 1, 2, 0, 1, 2, 0].enumerated() {
      #expect(run.next() == .attempt(edge: edge, timeout: .seconds(6)))
      run.plan.failed()
      guard case .wait(let span) = run.next() else {
        Issue.record("no wait")
        return
      }
      let ceiling = min(Int64(250_000) << Int64(attempt), 4_000_000)
      #expect(span.microseconds >= ceiling / 2 && span.microseconds <= ceiling)
      run.pass(span)
    }
  }

  @Test func whatTheEdgeAsksForIsWaited() {
    var run = Run()
    _ = run.next()
    let isAgain = run.plan.refused(
      CallError(.overloaded, retryAfterMilliseconds: 3000), status: 503)
    #expect(isAgain)
    #expect(run.next() == .wait(.seconds(3)))
    run.pass(.seconds(3))
    #expect(run.next() == .attempt(edge: 1, timeout: .seconds(6)))
    // The wait that an answer asks for applies once only.
    run.plan.failed()
    guard case .wait(let span) = run.next() else {
      Issue.record("no wait")
      return
    }
    #expect(span.microseconds <= 500_000)
  }

  @Test(arguments: [
    (CallError.Code.tryAgain, 503, true), (.internalError, 500, true), (.draining, 503, true),
    (.overloaded, 503, true), (.rateLimited, 429, true), (.notAccepted, 401, false),
    (.expired, 401, false), (.unknownCall, 404, false), (.invalidField, 400, false),
    (.wrongState, 409, false),
  ])
  func onlySomeRefusalsAreTriedAgain(code: CallError.Code, status: Int, again: Bool) {
    var run = Run()
    _ = run.next()
    let isAgain = run.plan.refused(CallError(code), status: status)
    #expect(isAgain == again)
  }

  @Test func theLastRefusalIsTold() {
    var run = Run(deadline: .seconds(2))
    _ = run.next()
    let error = CallError(.overloaded, retryAfterMilliseconds: 2500)
    let isAgain = run.plan.refused(error, status: 503)
    #expect(isAgain)
    #expect(run.next() == .giveUp(error), "it would be too late")
  }

  @Test func anAttemptEndsWithTheTime() {
    var run = Run()
    _ = run.next()
    run.plan.failed()
    run.pass(.seconds(12))
    guard case .wait(let span) = run.next() else {
      Issue.record("no wait")
      return
    }
    run.pass(span)
    let left = Span.seconds(3).microseconds - span.microseconds
    #expect(run.next() == .attempt(edge: 1, timeout: Span(microseconds: left)))
    run.plan.failed()
    run.pass(Span(microseconds: left))
    #expect(run.next() == .giveUp(CallError(.tryAgain, "No edge answered in time.")))
  }

  @Test func aWaitThatTookTooLongIsTheEnd() {
    var run = Run()
    _ = run.next()
    run.plan.failed()
    _ = run.next()
    run.pass(.seconds(15))
    #expect(run.next() == .giveUp(CallError(.tryAgain, "No edge answered in time.")))
  }

  @Test func withoutEdgesNothingIsTried() {
    var run = Run(edges: 0)
    guard case .giveUp(let error) = run.next() else {
      Issue.record("tried")
      return
    }
    #expect(error.code == .tryAgain)
  }
}
