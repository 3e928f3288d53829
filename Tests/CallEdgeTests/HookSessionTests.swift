import CallAuth
import CallBus
import CallCore
import CallEdge
import CallTelemetry
import CallWire
import NIOCore
import Synchronization
import Testing

private let call = CallID(high: 1, low: 2)
private let allow = #"{"action":"allow"}"#

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
  var placed: [PlaceRequest] {
    heard.compactMap { if case .place(let request) = $0 { request } else { nil } }
  }

  /// Runs with a device of ann's.
  /// - Parameters:
  ///   - resumed: what the shard says of a call that a hook refused.
  ///   - settings: nil: the app has no hook.
  static func run(
    at time: StillTime? = nil, settings: HookSettings? = FakeHook.settings,
    resumed: Reply = .error(CallError(.unknownCall)), codec: DeviceCodec = .protobuf,
    _ change: @escaping (inout EdgeConfiguration) -> Void = { _ in },
    _ body: (Stage, RawClient) async throws -> Void
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
      let (client, _) = try await edge.device("ann", "phone", codec: codec)
      try await body(Stage(edge: edge, hook: hook, log: log), client)
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

/// Sessions whose app has a hook.
@Suite struct HookSessionTests {
  @Test(arguments: DeviceCodec.allCases)
  func aCallIsPlacedOnceTheHookAllowsIt(codec: DeviceCodec) async throws {
    try await Stage.run(codec: codec) { stage, client in
      client.say(2, .place(call))
      let question = try await stage.hook.next()
      #expect(question.url == "https://app.example/hook" && question.within == .milliseconds(500))
      #expect(question.headers.contains { $0 == ("webhook-id", "call_\(call)") })
      #expect(question.body.contains(#""callee":{"user":"bob"}"#))
      // A command that is not about the call goes on.
      let other = CallID(high: 9, low: 9)
      try await client.ask(3, verb(.query, other))
      #expect(stage.heard == [.call(other, .query)])
      question.answer(#"{"action":"allow","callerName":"Ann Lee"}"#)
      #expect(try await client.reply() == (2, .done))
      #expect(stage.placed.map(\.callerName) == ["Ann Lee"] && stage.placed.first?.call == call)
      #expect(stage.metric("allowed") == 1)
      try await stage.isSettled()
    }
  }

  @Test func theTokensNameStaysUnlessTheHookGivesAnother() async throws {
    try await Stage.run { stage, _ in
      let client = try await stage.edge.socket()
      let token = try stage.edge.keys.mintToken(
        app: "demo", user: "ann", name: "Ann", lifetimeSeconds: 3600, now: wallSeconds)
      try await client.attach(AttachRequest(token: token, device: "tablet"))
      let answers = [allow, #"{"action":"allow","callerName":"Dr Lee"}"#]
      for (index, answer) in answers.enumerated() {
        client.say(UInt64(2 + index), .place(CallID(high: 1, low: UInt64(index))))
        let question = try await stage.hook.next()
        #expect(question.body.contains(#""name":"Ann""#))
        question.answer(answer)
        _ = try await client.reply()
      }
      #expect(stage.placed.map(\.callerName) == ["Ann", "Dr Lee"])
    }
  }

  @Test func aRefusedCallIsNotPlaced() async throws {
    try await Stage.run { stage, client in
      let reasons: [(String, CallError.Code)] = [
        ("forbidden", .refusedByApp), ("unknownUser", .unknownUser),
        ("unavailable", .userUnavailable),
      ]
      // More than a device may have live: a refused one is none.
      let calls = (UInt64(1)...8).map { CallID(high: 1, low: $0) }
      for call in calls {
        let (reason, code) = reasons[Int(call.low % 3)]
        client.say(1 + call.low, .place(call))
        try await stage.hook.next().answer(
          #"{"action":"refuse","reason":"\#(reason)","message":"So it is."}"#)
        let refused = ServerReply.error(CallError(code, "So it is."))
        #expect(try await client.reply() == (1 + call.low, refused))
      }
      #expect(stage.heard == calls.map { .call($0, .resume) })
      #expect(stage.metric("refused") == 8)
      try await stage.isSettled()
    }
  }

  /// Its `place` was allowed at another edge, and is repeated here; or a shard cannot say whether it has the call.
  @Test(arguments: [nil, CallError.Code.overloaded])
  func aRefusedCallThatMayExistIsNotRefused(code: CallError.Code?) async throws {
    let resumed = code.map { Reply.error(CallError($0)) } ?? .call(.of(call, .ringing))
    try await Stage.run(resumed: resumed) { stage, client in
      client.say(2, .place(call))
      try await stage.hook.next().answer(#"{"action":"refuse"}"#)
      let (id, reply) = try await client.reply()
      #expect(id == 2 && reply.code == code)
      guard code == nil else { return }
      guard case .call(let told) = reply else { throw TestFailure("\(reply)") }
      #expect(told.phase == .ringing && told.call == call)
    }
  }

  @Test func aCancelWaitsBehindItsPlace() async throws {
    try await Stage.run { stage, client in
      client.say(2, .place(call))
      client.say(3, verb(.signal(.candidate, body: "c")))
      client.say(4, verb(.cancel))
      // The answer to a command that was sent behind them shows that they were read.
      #expect(try await client.ask(5, .ping) == .done)
      #expect(stage.heard == [])
      try await stage.hook.next().answer(allow)
      for id in UInt64(2)...4 { #expect(try await client.reply() == (id, .done)) }
      guard stage.heard.count == 3, case .place = stage.heard[0],
        case .call(call, .signal) = stage.heard[1], case .call(call, .cancel) = stage.heard[2]
      else { throw TestFailure("\(stage.heard)") }
      try await stage.isSettled()
    }
  }

  @Test func aRepeatedPlaceAsksOnce() async throws {
    try await Stage.run { stage, client in
      for _ in 0..<3 { client.say(2, .place(call)) }
      // Another call under the same id is none.
      #expect(try await client.ask(2, .place(CallID(high: 3, low: 3))).code == .invalidField)
      try await stage.hook.next().answer(allow)
      #expect(try await client.reply() == (2, .done))
      #expect(stage.heard.count == 1 && stage.metric("allowed") == 1)
      #expect(stage.hook.askedTotal == 1)
      try await stage.isSettled()
    }
  }

  /// The same call under another id, with other content: each is asked about.
  @Test func noPlaceHidesBehindAnother() async throws {
    try await Stage.run { stage, client in
      client.say(2, .place(call))
      client.say(3, .place(call, to: "carl"))
      let first = try await stage.hook.next()
      let second = try await stage.hook.next()
      #expect(second.body.contains("carl"))
      second.answer(#"{"action":"refuse"}"#)
      first.answer(allow)
      let replies = [try await client.reply(), try await client.reply()]
      #expect(Set(replies.map(\.id)) == [2, 3])
      #expect(replies.first { $0.id == 3 }?.reply == .error(CallError(.refusedByApp)))
      #expect(stage.placed.count == 1)
    }
  }

  /// Nothing was confirmed: whoever comes back places the call again.
  @Test func aLostSessionsCallIsNotPlaced() async throws {
    try await Stage.run { stage, client in
      client.say(2, .place(call))
      client.say(3, verb(.cancel))
      let question = try await stage.hook.next()
      try await client.channel.close().get()
      _ = try await stage.edge.shards.next(\.isEnd)
      question.answer(allow)
      try await stage.isSettled()
      #expect(stage.heard == [])
      // The hook did answer.
      #expect(stage.metric("allowed") == 1)
      let (again, _) = try await stage.edge.device("ann", "phone")
      again.say(2, .place(call))
      try await stage.hook.next().answer(allow)
      #expect(try await again.reply() == (2, .done))
      #expect(stage.heard.count == 1)
    }
  }

  /// R20: what waited when the drain began is placed elsewhere.
  @Test func aDrainLetsNoCallIn() async throws {
    try await Stage.run { stage, client in
      client.say(2, .place(call))
      let question = try await stage.hook.next()
      _ = try await stage.edge.order(
        "drain", DrainRequest(node: "edge-1", action: .drain, seconds: 3600))
      #expect(try await client.notice().kind == .goAway)
      question.answer(allow)
      #expect(try await client.errorReply() == (2, .draining))
      #expect(stage.heard == [.call(call, .resume)])
    }
  }

  @Test func aHookThatFailsCostsNoCall() async throws {
    let time = StillTime()
    try await Stage.run(at: time) { stage, client in
      func end(_ id: UInt64) async throws {
        #expect(try await client.reply() == (id, .done))
        #expect(try await client.ask(100 + id, verb(.cancel, CallID(high: 1, low: id))) == .done)
      }
      let failures: [HookFailure] = [
        .timeout, .unreachable, .status(500), .tooLarge, .unreadable,
      ]
      for (id, failure) in zip(UInt64(2)..., failures) {
        client.say(id, .place(CallID(high: 1, low: id)))
        try await stage.hook.next().fail(failure)
        try await end(id)
      }
      for outcome in ["timeout", "unreachable", "status", "too_large", "unreadable"] {
        #expect(stage.metric(outcome) == 1)
      }
      // Now it is away, and nobody asks.
      #expect(stage.edge.metric("callmesh_hook_away{app=\"demo\"}") == 1)
      #expect(try await client.ask(50, .place(call)) == .done)
      #expect(stage.metric("skipped_away") == 1 && stage.hook.askedTotal == 5)
      #expect(stage.placed.count == 6)
      #expect(try await stage.edge.status().edge?.hooksAway == ["demo"])
      // After a pause one call tries, and others do not wait meanwhile.
      time.pass(.seconds(5))
      client.say(7, .place(CallID(high: 1, low: 7)))
      let probe = try await stage.hook.next()
      client.say(8, .place(CallID(high: 1, low: 8)))
      try await end(8)
      probe.answer(allow)
      try await end(7)
      #expect(stage.edge.metric("callmesh_hook_away{app=\"demo\"}") == 0)
    }
  }

  @Test func anAppMayPreferNoCalls() async throws {
    let settings = HookSettings(
      url: "https://app.example", secrets: [[UInt8](repeating: 7, count: 32)],
      whenAway: .refuse)
    try await Stage.run(at: StillTime(), settings: settings) { stage, client in
      for id in UInt64(2)...7 {
        client.say(id, .place(CallID(high: 1, low: id)))
        if id < 7 { try await stage.hook.next().fail(.unreachable) }
        let error = try await client.reply().reply.error
        #expect(error?.code == .appAway && error?.retryAfterMilliseconds == 2000)
      }
      #expect(stage.heard.allSatisfy { if case .call(_, .resume) = $0 { true } else { false } })
    }
  }

  /// Hooks come and go with the file of keys: new settings hold without a restart.
  @Test func anAppWithoutAHookIsNotAsked() async throws {
    try await Stage.run(settings: nil) { stage, client in
      #expect(try await client.ask(2, .place(call)) == .done)
      #expect(stage.hook.askedTotal == 0)
      #expect(!stage.edge.metrics.render().contains("callmesh_hook"))
      let tokens = stage.edge.configuration.tokens
      tokens.replace(keys: stage.edge.keys.with(FakeHook.settings, of: "demo"))
      // The metric is there as soon as the hook is.
      let started = ContinuousClock.now
      while !stage.edge.metrics.render().contains("callmesh_hook_away") {
        guard .now < started + patience else { throw TestFailure("no hook") }
        await Task.yield()
      }
      client.say(3, .place(CallID(high: 3, low: 3)))
      try await stage.hook.next().answer(#"{"action":"refuse"}"#)
      #expect(try await client.errorReply() == (3, .refusedByApp))
    }
  }
}

/// An app's server that answers when a test wants it to.
final class FakeHook: HookClient {
  struct Question: Sendable {
    var url: String
    var headers: [(String, String)]
    var body: String
    var within: Span
    let promise: EventLoopPromise<Result<[UInt8], HookFailure>>

    func answer(_ json: String) { promise.succeed(.success(Array(json.utf8))) }
    func fail(_ failure: HookFailure) { promise.succeed(.failure(failure)) }
  }

  static let settings = HookSettings(
    url: "https://app.example/hook", secrets: [[UInt8](repeating: 7, count: 32)])

  private let asked = Inbox<Question>(capacity: 10_000)
  private let total = Mutex(0)
  /// How often it was asked.
  var askedTotal: Int { total.withLock { $0 } }

  func post(
    _ url: String, headers: [(String, String)], body: [UInt8], within: Span,
    on eventLoop: any EventLoop
  ) -> EventLoopFuture<Result<[UInt8], HookFailure>> {
    total.withLock { $0 += 1 }
    let promise = eventLoop.makePromise(of: Result<[UInt8], HookFailure>.self)
    let question = Question(
      url: url, headers: headers, body: String(decoding: body, as: UTF8.self), within: within,
      promise: promise)
    if !asked.offer(question) { question.fail(.unreachable) }
    return promise.futureResult
  }

  func close() async { asked.close() }

  /// The next question. Those that wait with it are kept.
  func next() async throws -> Question {
    let waiting = await asked.next(until: .now + patience)
    guard let first = waiting.first else { throw TestFailure("nobody asked") }
    for question in waiting.dropFirst() { asked.offer(question) }
    return first
  }
}
