import CallAuth
import CallBus
import CallCore
import CallEdge
import CallTelemetry
import CallWire
import Foundation
import NIOCore
import Synchronization
import Testing

private let call = CallID(high: 1, low: 2)
private let allow = #"{"action":"allow"}"#

private func place(_ call: CallID = call, to callee: String = "bob") -> ClientCommand {
  .place(CallAddress(callee: callee, call: call), PlaceRequest(call: call))
}

private func verb(_ verb: CallVerb, _ call: CallID = call) -> ClientCommand {
  .call(CallAddress(callee: "bob", call: call), verb)
}

/// An edge whose app has a hook, and what its shards hear of calls.
private struct Stage {
  let edge: EdgeFixture
  let hook: FakeHook
  private let log: Log

  private final class Log: Sendable {
    let bodies = Mutex<[Command.Body]>([])
  }

  /// The commands that the shards received, without sessions and their ends.
  var heard: [Command.Body] { log.bodies.withLock { $0 } }

  /// - Parameters:
  ///   - resumed: what the shard says of a call that a hook refused.
  ///   - settings: nil: the app has no hook.
  static func run(
    at time: StillTime? = nil, settings: HookSettings? = FakeHook.settings,
    resumed: Reply = .error(CallError(.unknownCall)),
    _ change: @escaping (inout EdgeConfiguration) -> Void = { _ in },
    _ body: (Stage) async throws -> Void
  ) async throws {
    let hook = FakeHook()
    var terms = AppTerms()
    terms.limits[.callsPerUser] = 1000
    let configure: (inout EdgeConfiguration) -> Void = {
      $0.hookClient = hook
      // On a busy machine nothing is to be sent twice.
      ($0.resendAfter, $0.commandTimeout) = (.seconds(60), .seconds(120))
      change(&$0)
    }
    try await EdgeFixture.run(at: time, terms: terms, hook: settings, configure) { edge in
      let log = Log()
      edge.shards.follow { command in
        switch command.body {
        case .call where command.isReachabilityProbe: break
        case .place, .call: log.bodies.withLock { $0.append(command.body) }
        default: break
        }
        if case .call(_, .resume) = command.body { return command.request == 0 ? nil : resumed }
        return FakeShards.agreeing(command)
      }
      try await body(Stage(edge: edge, hook: hook, log: log))
    }
  }

  func metric(_ outcome: String) -> Double {
    edge.metric("callmesh_hook_calls_total{app=\"demo\",outcome=\"\(outcome)\"}")
  }

  /// Waits until nothing of it waits any longer.
  func isSettled() async throws {
    try await edge.until("callmesh_hook_outstanding{app=\"demo\"}") { $0 == 0 }
    try await edge.until("callmesh_edge_commands_pending") { $0 == 0 }
  }
}

extension CallError {
  fileprivate static func of(_ reply: (id: UInt64, reply: ServerReply)) throws -> CallError {
    guard case .error(let error) = reply.reply else { throw TestFailure("\(reply)") }
    return error
  }
}

/// Sessions whose app has a hook.
@Suite struct HookSessionTests {
  @Test(arguments: DeviceCodec.allCases)
  func aCallIsPlacedOnceTheHookAllowsIt(codec: DeviceCodec) async throws {
    try await Stage.run { stage in
      let (client, _) = try await stage.edge.device("ann", "phone", codec: codec)
      client.say(2, place())
      let question = try await stage.hook.next()
      #expect(question.url == "https://app.example/hook" && question.within == .milliseconds(500))
      #expect(question.headers.contains { $0 == ("webhook-id", "call_\(call)") })
      #expect(question.body.contains(#""callee":{"user":"bob"}"#))
      // A command that is not about the call goes on.
      client.say(3, verb(.query, CallID(high: 9, low: 9)))
      #expect(try await client.reply().id == 3)
      #expect(stage.heard == [.call(CallID(high: 9, low: 9), .query)])
      question.answer(#"{"action":"allow","callerName":"Ann Lee"}"#)
      #expect(try await client.reply() == (2, .done))
      guard case .place(let request) = stage.heard.last else { throw TestFailure("no place") }
      #expect(request.callerName == "Ann Lee" && request.call == call)
      #expect(stage.metric("allowed") == 1)
      try await stage.isSettled()
    }
  }

  @Test func theTokensNameStaysUnlessTheHookGivesAnother() async throws {
    try await Stage.run { stage in
      let client = try await stage.edge.client()
      let token = try stage.edge.keys.mintToken(
        app: "demo", user: "ann", name: "Ann", lifetimeSeconds: 3600, now: wallSeconds)
      try await client.attach(token: token, device: "phone")
      let answers = [allow, #"{"action":"allow","callerName":"Dr Lee"}"#]
      for (index, answer) in answers.enumerated() {
        client.say(UInt64(2 + index), place(CallID(high: 1, low: UInt64(index))))
        let question = try await stage.hook.next()
        #expect(question.body.contains(#""name":"Ann""#))
        question.answer(answer)
        _ = try await client.reply()
      }
      let names = stage.heard.compactMap {
        if case .place(let request) = $0 { request.callerName } else { nil }
      }
      #expect(names == ["Ann", "Dr Lee"])
    }
  }

  @Test(arguments: [
    ("forbidden", CallError.Code.refusedByApp), ("unknownUser", .unknownUser),
    ("unavailable", .userUnavailable),
  ]) func aRefusedCallIsNotPlaced(reason: String, code: CallError.Code) async throws {
    try await Stage.run { stage in
      let (client, _) = try await stage.edge.device("ann", "phone")
      // More than a device may have live: a refused one is none.
      for number in UInt64(1)...8 {
        client.say(1 + number, place(CallID(high: 1, low: number)))
        try await stage.hook.next().answer(
          #"{"action":"refuse","reason":"\#(reason)","message":"So it is."}"#)
        let reply = try await client.reply()
        #expect(reply.id == 1 + number)
        #expect(try CallError.of(reply) == CallError(code, "So it is."))
      }
      #expect(stage.heard == (UInt64(1)...8).map { .call(CallID(high: 1, low: $0), .resume) })
      #expect(stage.metric("refused") == 8)
      try await stage.isSettled()
    }
  }

  /// Its `place` was allowed at another edge, and is repeated here.
  @Test func aRefusedCallThatExistsGoesOn() async throws {
    let state = CallState(call: call, callee: "bob", phase: .ringing, version: 3)
    try await Stage.run(resumed: .call(state)) { stage in
      let (client, _) = try await stage.edge.device("ann", "phone")
      client.say(2, place())
      try await stage.hook.next().answer(#"{"action":"refuse"}"#)
      let reply = try await client.reply()
      guard case (2, .call(let told)) = reply else { throw TestFailure("\(reply)") }
      #expect(told.phase == .ringing && told.call == call)
    }
  }

  /// A shard that cannot say whether it has the call.
  @Test func whetherARefusedCallExistsMayBeUnknown() async throws {
    try await Stage.run(resumed: .error(CallError(.overloaded))) { stage in
      let (client, _) = try await stage.edge.device("ann", "phone")
      client.say(2, place())
      try await stage.hook.next().answer(#"{"action":"refuse"}"#)
      #expect(try await client.errorReply() == (2, .overloaded))
    }
  }

  @Test func aCancelWaitsBehindItsPlace() async throws {
    try await Stage.run { stage in
      let (client, _) = try await stage.edge.device("ann", "phone")
      client.say(2, place())
      client.say(3, verb(.signal(.candidate, body: "c")))
      client.say(4, verb(.cancel))
      // The answer to a command that was sent behind them shows that they were read.
      client.say(5, .ping)
      #expect(try await client.reply() == (5, .done))
      #expect(stage.heard == [])
      try await stage.hook.next().answer(allow)
      for id in UInt64(2)...4 { #expect(try await client.reply() == (id, .done)) }
      guard stage.heard.count == 3, case .place = stage.heard[0],
        case .call(call, .signal) = stage.heard[1], case .call(call, .cancel) = stage.heard[2]
      else { throw TestFailure("\(stage.heard)") }
      try await stage.isSettled()
    }
  }

  @Test func aCancelOfARefusedCallIsAnswered() async throws {
    try await Stage.run { stage in
      let (client, _) = try await stage.edge.device("ann", "phone")
      client.say(2, place())
      client.say(3, verb(.cancel))
      client.say(4, .ping)
      #expect(try await client.reply() == (4, .done))
      try await stage.hook.next().answer(#"{"action":"refuse"}"#)
      let replies = [try await client.reply(), try await client.reply()]
      #expect(Set(replies.map(\.id)) == [2, 3])
      #expect(stage.heard == [.call(call, .resume), .call(call, .cancel)])
      try await stage.isSettled()
    }
  }

  @Test func aRepeatedPlaceAsksOnce() async throws {
    try await Stage.run { stage in
      let (client, _) = try await stage.edge.device("ann", "phone")
      for _ in 0..<3 { client.say(2, place()) }
      // Another call under the same id is none.
      client.say(2, place(CallID(high: 3, low: 3)))
      #expect(try await client.errorReply() == (2, .invalidField))
      try await stage.hook.next().answer(allow)
      #expect(try await client.reply() == (2, .done))
      #expect(stage.heard.count == 1 && stage.metric("allowed") == 1)
      #expect(stage.hook.askedTotal == 1)
      try await stage.isSettled()
    }
  }

  /// The same call under another id, with other content: each is asked about.
  @Test func noPlaceHidesBehindAnother() async throws {
    try await Stage.run { stage in
      let (client, _) = try await stage.edge.device("ann", "phone")
      client.say(2, place())
      client.say(3, place(to: "carl"))
      let first = try await stage.hook.next()
      let second = try await stage.hook.next()
      #expect(second.body.contains("carl"))
      second.answer(#"{"action":"refuse"}"#)
      first.answer(allow)
      let replies = [try await client.reply(), try await client.reply()]
      #expect(Set(replies.map(\.id)) == [2, 3])
      #expect(
        replies.first { $0.id == 3 }?.reply == .error(CallError(.refusedByApp)))
      let places = stage.heard.count { if case .place = $0 { true } else { false } }
      #expect(places == 1)
    }
  }

  /// It holds its place among the commands that wait, and among the device's live calls.
  @Test func limitsHoldWhileItWaits() async throws {
    let few: (inout EdgeConfiguration) -> Void = { $0.commandsPendingPerSession = 2 }
    try await Stage.run(few) { stage in
      let (client, _) = try await stage.edge.device("ann", "phone")
      client.say(2, place())
      client.say(3, place(CallID(high: 3, low: 3)))
      client.say(4, verb(.query))
      #expect(try await client.errorReply() == (4, .rateLimited))
      for _ in 0..<2 { try await stage.hook.next().answer(allow) }
      #expect(try await client.reply().reply == .done)
      #expect(try await client.reply().reply == .done)
    }
    try await Stage.run { stage in
      let (client, _) = try await stage.edge.device("ann", "phone")
      for number in UInt64(2)...6 { client.say(number, place(CallID(high: 1, low: number))) }
      client.say(7, place(CallID(high: 1, low: 7)))
      #expect(try await client.errorReply() == (7, .tooManyLiveCalls))
      for _ in 0..<5 { try await stage.hook.next().answer(allow) }
      for _ in 0..<5 { #expect(try await client.reply().reply == .done) }
    }
  }

  /// Nothing was confirmed: whoever comes back places the call again.
  @Test func aLostSessionsCallIsNotPlaced() async throws {
    try await Stage.run { stage in
      let (client, session) = try await stage.edge.device("ann", "phone")
      client.say(2, place())
      client.say(3, verb(.cancel))
      let question = try await stage.hook.next()
      try await client.channel.close().get()
      _ = try await stage.edge.shards.next {
        if case .sessionClosed = $0.body { $0.session.number == session } else { false }
      }
      question.answer(allow)
      try await stage.isSettled()
      #expect(stage.heard == [])
      // The hook did answer.
      #expect(stage.metric("allowed") == 1)
      let (again, _) = try await stage.edge.device("ann", "phone")
      again.say(2, place())
      try await stage.hook.next().answer(allow)
      #expect(try await again.reply() == (2, .done))
      #expect(stage.heard.count == 1)
    }
  }

  /// R20: what waited when the drain began is placed elsewhere.
  @Test func aDrainLetsNoCallIn() async throws {
    try await Stage.run { stage in
      let (client, _) = try await stage.edge.device("ann", "phone")
      client.say(2, place())
      let question = try await stage.hook.next()
      let order = DrainRequest(node: "edge-1", action: .drain, seconds: 3600)
      _ = try await stage.edge.bus.request(
        stage.edge.shards.subjects.order("drain", by: "ann"),
        Array(try JSONEncoder().encode(order)), timeout: .seconds(10))
      guard case .notice(let notice) = try await client.message(), notice.kind == .goAway else {
        throw TestFailure("not told to go")
      }
      question.answer(allow)
      #expect(try await client.errorReply() == (2, .draining))
      #expect(stage.heard == [.call(call, .resume)])
    }
  }

  @Test func aHookThatFailsCostsNoCall() async throws {
    try await Stage.run(at: StillTime()) { stage in
      let (client, _) = try await stage.edge.device("ann", "phone")
      let failures: [HookFailure] = [
        .timeout, .unreachable, .status(500), .tooLarge, .unreadable,
      ]
      for (index, failure) in failures.enumerated() {
        let id = UInt64(2 + index)
        client.say(id, place(CallID(high: 1, low: id)))
        try await stage.hook.next().fail(failure)
        #expect(try await client.reply() == (id, .done))
        client.say(100 + id, verb(.cancel, CallID(high: 1, low: id)))
        #expect(try await client.reply() == (100 + id, .done))
      }
      for outcome in ["timeout", "unreachable", "status", "too_large", "unreadable"] {
        #expect(stage.metric(outcome) == 1)
      }
      // Now it is away, and nobody asks.
      #expect(stage.edge.metric("callmesh_hook_away{app=\"demo\"}") == 1)
      client.say(50, place())
      #expect(try await client.reply() == (50, .done))
      #expect(stage.metric("skipped_away") == 1 && stage.hook.askedTotal == 5)
      let places = stage.heard.count { if case .place = $0 { true } else { false } }
      #expect(places == 6)
      let answer = try await stage.edge.bus.request(
        stage.edge.shards.subjects.adminStatus, [], timeout: .seconds(10))
      let status = try JSONDecoder().decode(NodeStatus.self, from: Data(answer.bytes))
      #expect(status.edge?.hooksAway == ["demo"])
    }
  }

  @Test func afterAPauseItIsTriedAgain() async throws {
    let time = StillTime()
    try await Stage.run(at: time) { stage in
      let (client, _) = try await stage.edge.device("ann", "phone")
      func call(_ id: UInt64) async throws {
        client.say(id, place(CallID(high: 1, low: id)))
      }
      func end(_ id: UInt64) async throws {
        #expect(try await client.reply() == (id, .done))
        client.say(100 + id, verb(.cancel, CallID(high: 1, low: id)))
        #expect(try await client.reply() == (100 + id, .done))
      }
      for id in UInt64(2)...6 {
        try await call(id)
        try await stage.hook.next().fail(.timeout)
        try await end(id)
      }
      time.pass(.seconds(5))
      try await call(7)
      let probe = try await stage.hook.next()
      // Meanwhile others do not wait.
      try await call(8)
      try await end(8)
      probe.answer(allow)
      try await end(7)
      try await call(9)
      try await stage.hook.next().answer(allow)
      try await end(9)
      #expect(stage.edge.metric("callmesh_hook_away{app=\"demo\"}") == 0)
    }
  }

  @Test func anAppMayPreferNoCalls() async throws {
    let settings = HookSettings(
      url: "https://app.example", secrets: [[UInt8](repeating: 7, count: 32)],
      whenAway: .refuse)
    try await Stage.run(at: StillTime(), settings: settings) { stage in
      let (client, _) = try await stage.edge.device("ann", "phone")
      for id in UInt64(2)...7 {
        client.say(id, place(CallID(high: 1, low: id)))
        if id < 7 { try await stage.hook.next().fail(.unreachable) }
        let error = try CallError.of(try await client.reply())
        #expect(error.code == .appAway && error.retryAfterMilliseconds == 2000)
      }
      #expect(stage.heard.allSatisfy { if case .call(_, .resume) = $0 { true } else { false } })
    }
  }

  @Test func anAppWithoutAHookIsNotAsked() async throws {
    try await Stage.run(settings: nil) { stage in
      let (client, _) = try await stage.edge.device("ann", "phone")
      client.say(2, place())
      #expect(try await client.reply() == (2, .done))
      #expect(stage.hook.askedTotal == 0)
      #expect(!stage.edge.metrics.render().contains("callmesh_hook"))
    }
  }

  /// Hooks come and go with the file of keys.
  @Test func newSettingsHoldWithoutARestart() async throws {
    try await Stage.run(settings: nil) { stage in
      let (client, _) = try await stage.edge.device("ann", "phone")
      let tokens = stage.edge.configuration.tokens
      tokens.replace(keys: stage.edge.keys.with(FakeHook.settings, of: "demo"))
      // The metric is there as soon as the hook is.
      let started = ContinuousClock.now
      while !stage.edge.metrics.render().contains("callmesh_hook_away") {
        guard .now < started + patience else { throw TestFailure("no hook") }
        await Task.yield()
      }
      client.say(2, place())
      try await stage.hook.next().answer(#"{"action":"refuse"}"#)
      #expect(try await client.errorReply() == (2, .refusedByApp))
    }
  }
}
