import CallAuth
import CallCore
import CallEdge
import CallTelemetry
import Logging
import Synchronization
import Testing

private let start = Timestamp(microseconds: 1_000_000_000)

/// Whether an app's hook is asked.
@Suite struct HookGateTests {
  private func ask(_ gate: inout HookGate, at now: Timestamp = start) -> HookGate.Permit? {
    if case .ask(let permit) = gate.admit(now: now) { permit } else { nil }
  }

  private func fail(
    _ gate: inout HookGate, times: Int = 1, at now: Timestamp = start
  ) throws -> HookGate.Change? {
    var change: HookGate.Change?
    for _ in 0..<times {
      let permit = try #require(ask(&gate, at: now))
      change = gate.settle(permit, isAnswered: false, now: now)
    }
    return change
  }

  /// A gate whose hook went away at the start.
  private func away() throws -> HookGate {
    var gate = HookGate()
    #expect(try fail(&gate, times: HookGate.failuresMax) == .wentAway)
    return gate
  }

  @Test func soManyMayWait() throws {
    var gate = HookGate()
    var permits: [HookGate.Permit] = []
    for _ in 0..<HookGate.outstandingMax { permits.append(try #require(ask(&gate))) }
    #expect(gate.admit(now: start) == .skip(.full))
    #expect(gate.outstanding == HookGate.outstandingMax && !gate.isAway)
    #expect(gate.settle(permits[0], isAnswered: true, now: start) == nil)
    #expect(ask(&gate) != nil)
    #expect(gate.admit(now: start) == .skip(.full))
  }

  @Test func onlyFailuresInARowCount() throws {
    var gate = HookGate()
    for _ in 0..<10 {
      #expect(try fail(&gate, times: HookGate.failuresMax - 1) == nil)
      let permit = try #require(ask(&gate))
      #expect(gate.settle(permit, isAnswered: true, now: start) == nil)
    }
    #expect(!gate.isAway)
    #expect(try fail(&gate, times: HookGate.failuresMax) == .wentAway)
    #expect(gate.isAway)
  }

  @Test func whileItIsAwayNobodyAsksThenOneCallTries() throws {
    var gate = try away()
    for milliseconds in stride(from: Int64(0), to: 5000, by: 100) {
      #expect(gate.admit(now: start + .milliseconds(milliseconds)) == .skip(.away))
    }
    #expect(gate.outstanding == 0)
    let later = start + HookGate.pause
    let permit = try #require(ask(&gate, at: later))
    #expect(gate.admit(now: later) == .skip(.away))
    #expect(gate.admit(now: later + .seconds(3600)) == .skip(.away))
    #expect(gate.settle(permit, isAnswered: true, now: later) == .cameBack)
    #expect(!gate.isAway)
    // As if nothing had been: one failure is none.
    #expect(try fail(&gate, at: later) == nil)
    #expect(ask(&gate, at: later) != nil)
  }

  @Test func whereItFailsAgainAnotherPauseBegins() throws {
    var gate = try away()
    var now = start
    for _ in 0..<10 {
      now = now + HookGate.pause
      let permit = try #require(ask(&gate, at: now))
      // News of a hook that was away before are none.
      #expect(gate.settle(permit, isAnswered: false, now: now) == nil)
      #expect(gate.isAway)
      #expect(gate.admit(now: now + .milliseconds(4999)) == .skip(.away))
    }
  }

  /// Questions that were asked before it went away, and end while it is away or tried.
  @Test func oldQuestionsSayNothing() throws {
    var gate = HookGate()
    let old = try (0..<10).map { _ in try #require(ask(&gate)) }
    #expect(try fail(&gate, times: HookGate.failuresMax) == .wentAway)
    #expect(gate.settle(old[0], isAnswered: true, now: start) == nil)
    #expect(gate.settle(old[1], isAnswered: false, now: start + .seconds(4)) == nil)
    // Neither ends nor prolongs the pause.
    #expect(gate.admit(now: start + .milliseconds(4999)) == .skip(.away))
    let later = start + HookGate.pause
    let probe = try #require(ask(&gate, at: later))
    #expect(gate.settle(old[2], isAnswered: true, now: later) == nil)
    #expect(gate.settle(old[3], isAnswered: false, now: later) == nil)
    #expect(gate.admit(now: later) == .skip(.away))
    #expect(gate.settle(probe, isAnswered: true, now: later) == .cameBack)
    for permit in old[4...] { #expect(gate.settle(permit, isAnswered: false, now: later) == nil) }
    #expect(!gate.isAway && gate.outstanding == 0)
  }

  @Test func theTryHoldsTheLimitToo() throws {
    var gate = HookGate()
    let old = try (0..<HookGate.outstandingMax).map { _ in try #require(ask(&gate)) }
    for permit in old.prefix(HookGate.failuresMax) {
      _ = gate.settle(permit, isAnswered: false, now: start)
    }
    #expect(gate.isAway)
    let later = start + HookGate.pause
    #expect(ask(&gate, at: later) != nil)
    #expect(gate.outstanding == HookGate.outstandingMax - HookGate.failuresMax + 1)
  }

  @Test func withOtherSettingsItIsAskedAtOnce() throws {
    var gate = try away()
    gate.restart()
    #expect(!gate.isAway)
    let permit = try #require(ask(&gate))
    gate.restart()
    // It was another hook's failure, but its place is free again.
    for _ in 0..<HookGate.failuresMax {
      #expect(gate.settle(permit, isAnswered: false, now: start) == nil)
    }
    #expect(!gate.isAway && gate.outstanding == 0)
  }

  /// Whatever comes: as many wait as were asked and not settled, never more than may, and while the hook is away one
  /// at most is asked in each pause.
  @Test(arguments: 1...50) func atRandom(seed: UInt64) throws {
    var state = seed
    func random(_ bound: UInt64) -> UInt64 {
      state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
      return (state >> 33) % bound
    }
    var gate = HookGate()
    var now = start
    var open: [HookGate.Permit] = []
    var askedWhileAway: Timestamp?
    for _ in 0..<2000 {
      now = now + .milliseconds(Int64(random(200)))
      if random(2) == 0 {
        let wasAway = gate.isAway
        switch gate.admit(now: now) {
        case .ask(let permit):
          if wasAway {
            if let last = askedWhileAway { #expect(last + HookGate.pause <= now) }
            askedWhileAway = now
          }
          open.append(permit)
        case .skip(.away): #expect(wasAway)
        case .skip(.full): #expect(open.count >= HookGate.outstandingMax)
        }
      } else if !open.isEmpty {
        let permit = open.remove(at: Int(random(UInt64(open.count))))
        let wasAway = gate.isAway
        let change = gate.settle(permit, isAnswered: random(4) == 0, now: now)
        #expect((change == .wentAway) == (!wasAway && gate.isAway))
        #expect((change == .cameBack) == (wasAway && !gate.isAway))
        if !gate.isAway { askedWhileAway = nil }
      }
      #expect(gate.outstanding == open.count && open.count <= HookGate.outstandingMax)
    }
  }
}

private let allow = Result<[UInt8], HookFailure>.success(Array(#"{"action":"allow"}"#.utf8))

/// The hooks of all apps, as event loops share them.
@Suite struct AppHooksTests {
  private final class Lines: Sendable {
    let text = Mutex<[String]>([])
  }
  private let lines = Lines()
  private let registry = MetricsRegistry()

  private func settings(_ url: String = "https://a.example") -> HookSettings {
    HookSettings(url: url, secrets: [[UInt8](repeating: 1, count: 32)])
  }

  private func hooks(_ settings: [String: HookSettings]) -> AppHooks {
    let lines = lines
    let logger = Logger(label: "test") {
      LineLogHandler(label: $0, logLevel: .debug, asJSON: false) { line in
        lines.text.withLock { $0.append(line) }
      }
    }
    return AppHooks(settings, client: FakeHook(), registry: registry, logger: logger)
  }

  private func lines(with text: String) -> Int {
    lines.text.withLock { $0.count { $0.contains(text) } }
  }

  private func metric(_ name: String) -> String? {
    registry.render().split(separator: "\n").first { $0.hasPrefix(name + " ") }
      .map { String($0.dropFirst(name.utf8.count + 1)) }
  }

  private func settle(
    _ hook: AppHook, _ reply: Result<[UInt8], HookFailure>, at now: Timestamp = start
  ) throws -> HookDecision {
    guard case .ask(let permit, _) = hook.admit(now: now) else { throw TestFailure("skipped") }
    return hook.settled(permit, reply, since: now, now: now + .milliseconds(3))
  }

  @Test func eachAppHasItsOwn() throws {
    let hooks = hooks(["a": settings(), "b": settings()])
    let a = try #require(hooks.hook(of: "a"))
    #expect(hooks.hook(of: "c") == nil && hooks.hook(of: "b") !== a)
    for _ in 0..<HookGate.failuresMax { _ = try settle(a, .failure(.timeout)) }
    #expect(a.isAway && hooks.away == ["a"])
    #expect(try settle(try #require(hooks.hook(of: "b")), allow) == .allow(callerName: nil))
  }

  @Test func fullIsAsGoodAsAway() throws {
    let hook = try #require(hooks(["a": settings()]).hook(of: "a"))
    for _ in 0..<HookGate.outstandingMax {
      guard case .ask = hook.admit(now: start) else { throw TestFailure("skipped") }
    }
    guard case .decided(.allow(nil, [])) = hook.admit(now: start) else {
      throw TestFailure("asked")
    }
    #expect(metric(#"callmesh_hook_calls_total{app="a",outcome="skipped_full"}"#) == "1")
    #expect(metric(#"callmesh_hook_outstanding{app="a"}"#) == "128")
    #expect(!hook.isAway)
  }

  @Test func answersAreCountedAndTimed() throws {
    let hook = try #require(hooks(["a": settings()]).hook(of: "a"))
    #expect(try settle(hook, allow) == .allow(callerName: nil))
    #expect(
      try settle(hook, .success(Array(#"{"action":"refuse"}"#.utf8)))
        == .refuse(CallError(.refusedByApp)))
    #expect(try settle(hook, .success([])) == .allow(callerName: nil))
    for outcome in ["allowed", "refused", "unreadable"] {
      #expect(metric(#"callmesh_hook_calls_total{app="a",outcome="\#(outcome)"}"#) == "1")
    }
    #expect(metric(#"callmesh_hook_seconds_count{app="a"}"#) == "3")
    #expect(metric(#"callmesh_hook_outstanding{app="a"}"#) == "0")
  }

  @Test func otherSettingsBeginAnew() throws {
    let hooks = hooks(["a": settings(), "b": settings()])
    let a = try #require(hooks.hook(of: "a"))
    guard case .ask(let old, _) = a.admit(now: start) else { throw TestFailure("skipped") }
    for _ in 0..<HookGate.failuresMax { _ = try settle(a, .failure(.timeout)) }
    hooks.update(["a": settings(), "b": settings()])
    #expect(hooks.away == ["a"])
    hooks.update(["a": settings("https://other.example"), "b": settings()])
    #expect(hooks.away == [] && hooks.hook(of: "a") === a)
    #expect(metric(#"callmesh_hook_away{app="a"}"#) == "0")
    guard case .ask(_, let new) = a.admit(now: start) else { throw TestFailure("skipped") }
    #expect(new.url == "https://other.example")
    _ = a.settled(old, .failure(.timeout), since: start, now: start)
    #expect(metric(#"callmesh_hook_outstanding{app="a"}"#) == "1")
    // Without a hook.
    hooks.update([:])
    #expect(hooks.hook(of: "a") == nil && hooks.hook(of: "b") == nil)
  }

  @Test func aHookThatIsTakenOutIsNotAway() throws {
    let hooks = hooks(["a": settings()])
    let a = try #require(hooks.hook(of: "a"))
    guard case .ask(let late, _) = a.admit(now: start) else { throw TestFailure("skipped") }
    for _ in 0..<HookGate.failuresMax { _ = try settle(a, .failure(.timeout)) }
    #expect(metric(#"callmesh_hook_away{app="a"}"#) == "1")
    hooks.update([:])
    _ = a.settled(late, .failure(.timeout), since: start, now: start)
    #expect(metric(#"callmesh_hook_away{app="a"}"#) == "0")
    #expect(hooks.away == [])
  }

  @Test func logsAreFew() throws {
    let hook = try #require(hooks(["a": settings("https://a.example/secret")]).hook(of: "a"))
    var now = start
    // Every second call fails, so that it never counts as away.
    for _ in 0..<100 {
      _ = try settle(hook, .failure(.status(503)), at: now)
      _ = try settle(hook, allow, at: now)
      now = now + .seconds(1)
    }
    #expect(lines(with: "an app's hook failed") == 2)
    #expect(lines(with: "status(503)") == 2 && lines(with: "count=60") == 1)
    for _ in 0..<HookGate.failuresMax { _ = try settle(hook, .failure(.timeout), at: now) }
    #expect(lines(with: "does not answer") == 1)
    now = now + HookGate.pause + .seconds(1)
    _ = try settle(hook, allow, at: now)
    #expect(lines(with: "answers again") == 1)
    #expect(lines(with: "secret") == 0)
  }
}
