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

    /// The next step's wait in microseconds, which passes.
    mutating func wait(sourceLocation: SourceLocation = #_sourceLocation) -> Int64 {
      guard case .wait(let span) = next() else {
        Issue.record("no wait", sourceLocation: sourceLocation)
        return 0
      }
      pass(span)
      return span.microseconds
    }
  }

  @Test func edgesAreAskedInTurnWithWaitsThatGrow() {
    var run = Run(edges: 3, deadline: .seconds(60))
    for (attempt, edge) in [0, 1, 2, 0, 1, 2, 0].enumerated() {
      #expect(run.next() == .attempt(edge: edge, timeout: .seconds(6)))
      run.plan.failed()
      let ceiling = min(Int64(250_000) << Int64(attempt), 4_000_000)
      #expect((ceiling / 2...ceiling).contains(run.wait()))
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
    #expect(run.wait() <= 500_000)
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
    let left = 3_000_000 - run.wait()
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
    let error: CallError? = if case .giveUp(let error) = run.next() { error } else { nil }
    #expect(error?.code == .tryAgain)
  }
}
