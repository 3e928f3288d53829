import CallAuth
import CallCore
import CallEdge
import CallTelemetry
import Logging
import Synchronization
import Testing

private let start = Timestamp(microseconds: 1_000_000_000)
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
