import CallAuth
import CallClient
import CallCore
import CallProcesses
import CallTestKit
import CallWire
import Foundation
import Synchronization
import Testing

/// An app's hook, with real edges and real servers.
@Suite(.serialized) struct HookTests {
  private static let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
  private static let hasPython =
    ProcessInfo.processInfo.environment["PATH"]?.split(separator: ":").contains {
      FileManager.default.isExecutableFile(atPath: $0 + "/python3")
    } ?? false

  /// A server that does what the test says.
  private final class Script: Sendable {
    private struct State {
      var reply = SimulatedReply.answer(status: 503)
      var closesUsed = false
      /// The numbers of connections that have had a question.
      var used: Set<Int> = []
      var dropped = 0
    }
    private let state = Mutex(State())
    /// - Parameter closesUsed: drops the question that comes on a connection which was idle meanwhile.
    func follow(_ reply: SimulatedReply, closesUsed: Bool = false) {
      state.withLock { ($0.reply, $0.closesUsed) = (reply, closesUsed) }
    }
    func follow(_ json: String, closesUsed: Bool = false) {
      follow(.answer(status: 200, body: json), closesUsed: closesUsed)
    }
    /// How many questions were dropped.
    var dropped: Int { state.withLock { $0.dropped } }
    func reply(to request: SimulatedRequest) -> SimulatedReply {
      state.withLock { state in
        let isNew = state.used.insert(request.connection).inserted
        guard state.closesUsed, !isNew else { return state.reply }
        state.dropped += 1
        return .hangUp
      }
    }
  }

  /// Gives the app of a running cluster a hook, and waits until its edge has it.
  private func add(
    _ hook: String, to cluster: TestCluster, edge: String = "e1"
  ) async throws {
    let object = try JSONSerialization.jsonObject(with: Data(hook.utf8))
    try cluster.changeApp { $0["hook"] = object }
    try await until(cluster, edge, "callmesh_hook_away{app=\"demo\"} 0")
  }

  /// Waits until an edge's metrics have such a line.
  private func until(_ cluster: TestCluster, _ edge: String, _ line: String) async throws {
    let deadline = ContinuousClock.now + .seconds(60)
    var body = ""
    while ContinuousClock.now < deadline {
      body = try await cluster.ask(edge, "/metrics").body
      if body.split(separator: "\n").contains(Substring(line)) { return }
      // Nothing tells when another process changes.
      try await Task.sleep(for: .milliseconds(20))
    }
    let lines = body.split(separator: "\n").filter { $0.hasPrefix("callmesh_hook_calls") }
    throw TestCluster.Failure(description: "not \(line), but \(lines); \(cluster.log(edge))")
  }

  private func name(of call: CallID, at device: TestDevice) async throws -> String? {
    try await device.waitForInvite(call)
    return device.heard.compactMap {
      if case .call(call, .invited(let invite)) = $0 { invite.caller.name } else { nil }
    }.first
  }

  private static func isInvite(_ event: ClientEvent) -> Bool {
    if case .call(_, .invited) = event { true } else { false }
  }

  private func refusal(_ device: TestDevice, to callee: String) async -> CallError? {
    do throws(CallError) {
      try await device.device.place(PlaceRequest(call: .random()), to: callee)
      return nil
    } catch {
      return error
    }
  }

  @Test func aHookDecidesIsSlowAndGoesAway() async throws {
    let script = Script()
    let server = try await SimulatedHTTPServer.start(authority: nil) { script.reply(to: $0) }
    let cluster = try await TestCluster.start(coordinators: 1, edges: 1)
    defer { cluster.stop() }
    let ann = try await TestDevice(cluster, user: "ann", "phone", edges: ["e1"])
    let bob = try await TestDevice(cluster, user: "bob", "phone", edges: ["e1"])
    defer { for device in [ann, bob] { device.stop() } }
    func place() async throws -> CallID {
      let call = CallID.random()
      let state = try await ann.device.place(PlaceRequest(call: call), to: "bob")
      #expect(state.phase == .placed)
      return call
    }
    func end(_ call: CallID) async throws {
      try await bob.device.decline(call)
      try await ann.waitForStop(call, .declined)
    }
    // Before the app has one.
    var call = try await place()
    #expect(try await name(of: call, at: bob) == "")
    try await end(call)
    try await add(
      #"{"url":"\#(server.origin)/hook","secrets":["\#(Self.secret)"]}"#, to: cluster)

    script.follow(#"{"action":"allow","callerName":"Ann Lee"}"#)
    call = try await place()
    #expect(try await name(of: call, at: bob) == "Ann Lee")
    try await end(call)

    script.follow(#"{"action":"refuse","reason":"unavailable","message":"Bob sleeps."}"#)
    #expect(await refusal(ann, to: "bob") == CallError(.userUnavailable, "Bob sleeps."))

    // A server that closes idle connections, some while a question is on its way: the block holds all the same.
    script.follow(#"{"action":"refuse","message":"Bob has blocked you."}"#, closesUsed: true)
    let invites = bob.heard.count(where: Self.isInvite)
    for number in 0..<6 {
      if number == 3 { server.dropConnections() }
      #expect(await refusal(ann, to: "bob") == CallError(.refusedByApp, "Bob has blocked you."))
    }
    #expect(script.dropped > 0)
    #expect(bob.heard.count(where: Self.isInvite) == invites)

    // Slow: the call goes on without it, with its token's name.
    script.follow(.blackHole)
    call = try await place()
    #expect(try await name(of: call, at: bob) == "")
    try await end(call)
    try await until(
      cluster, "e1", "callmesh_hook_calls_total{app=\"demo\",outcome=\"timeout\"} 1")

    // Away.
    await server.stop()
    for _ in 0..<4 {
      call = try await place()
      try await bob.waitForInvite(call)
      try await end(call)
    }
    try await until(cluster, "e1", "callmesh_hook_away{app=\"demo\"} 1")
    let status = try await cluster.callctl("status", "--once")
    #expect(status.text.contains("The hook of app demo does not answer e1"), "\(status.text)")
    call = try await place()
    try await bob.waitForInvite(call)
    try await end(call)
    let log = cluster.log("e1")
    #expect(log.contains("an app's hook does not answer"))
    #expect(!log.contains("/hook") && !log.contains(Self.secret))
  }

  /// docs/hooks.md: the server that it shows, as it is printed.
  @Test(.enabled(if: hasPython, "needs python3"))
  func thePagesServerRuns() async throws {
    let cluster = try await TestCluster.start(coordinators: 1, edges: 1)
    defer { cluster.stop() }
    let port = try FreePorts.reserve()
    let program = cluster.folder + "/hook.py"
    try Self.python().joined(separator: "\n").write(
      toFile: program, atomically: true, encoding: .utf8)
    var command = ChildCommand(
      name: "hook", executable: "/usr/bin/env", arguments: ["python3", program])
    command.environment = ["HOOK_SECRET": Self.secret, "PORT": "\(port)"]
    let process = try await ChildLauncher.start(command)
    defer { process.killNow() }
    let listens = await Pause.until(within: .seconds(60)) {
      await HTTPProbe.get("127.0.0.1", port, "/").status > 0
    }
    try #require(listens, "the page's server does not listen")
    let ann = try await TestDevice(cluster, user: "ann", "phone", edges: ["e1"])
    let bob = try await TestDevice(cluster, user: "bob", "phone", edges: ["e1"])
    defer { for device in [ann, bob] { device.stop() } }
    // Enough time for Python on a busy machine.
    try await add(
      """
      {"url":"http://127.0.0.1:\(port)/","secrets":["\(Self.secret)"],"whenAway":"refuse",
       "timeoutMilliseconds":3000}
      """, to: cluster)
    let call = CallID.random()
    try await ann.device.place(PlaceRequest(call: call), to: "bob")
    #expect(try await name(of: call, at: bob) == "Ann Lee")
    #expect(
      await refusal(ann, to: "carl") == CallError(.unknownUser, "We know nobody of that name."))
  }

  /// The page's function accepts good questions and rejects forged ones.
  @Test(.enabled(if: hasPython, "needs python3"))
  func thePageVerifiesSignatures() async throws {
    let settings = HookSettings(
      url: "https://app.example",
      secrets: [
        [UInt8](repeating: 1, count: 32),
        Array(try #require(Data(base64Encoded: String(Self.secret.dropFirst(6))))),
      ])
    let now = Int64(Date().timeIntervalSince1970)
    let body = #"{"a":1}"#
    let signature = settings.signature(id: "call_1", seconds: now, body: Array(body.utf8))
    let old = settings.signature(id: "call_1", seconds: now - 900, body: Array(body.utf8))
    func question(_ id: String, _ seconds: Int64, _ signature: String) -> String {
      #"{"webhook-id":"\#(id)","webhook-timestamp":"\#(seconds)","webhook-signature":"\#(signature)"}"#
    }
    let first = try #require(try Self.python().first)
    let text = """
      \(first)
      print(is_signed(\(question("call_1", now, signature)), b'\(body)'),
        is_signed(\(question("call_1", now, signature)), b'\(body) '),
        is_signed(\(question("call_2", now, signature)), b'\(body)'),
        is_signed(\(question("call_1", now + 1, signature)), b'\(body)'),
        is_signed(\(question("call_1", now - 900, old)), b'\(body)'),
        is_signed(\(question("call_1", now, "v1,AAAA")), b'\(body)'))
      """
    let output = try await TestCluster.run(
      "/usr/bin/env", ["HOOK_SECRET=\(Self.secret)", "python3", "-c", text])
    #expect(output.status == 0)
    #expect(output.text == "True False False False False False\n", "\(output.text)")
  }

  /// The page's blocks of Python.
  private static func python() throws -> [String] {
    let path = DocumentBlock.repository + "/docs/hooks.md"
    let parts = try String(contentsOfFile: path, encoding: .utf8).components(
      separatedBy: "```python\n")
    return parts.dropFirst().compactMap { $0.components(separatedBy: "```").first }
  }
}
