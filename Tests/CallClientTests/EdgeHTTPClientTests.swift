import CallClient
import CallCore
import CallTestKit
import CallWire
import NIOCore
import NIOPosix
import Testing

/// Over real sockets, against another implementation of HTTP.
@Suite(.timeLimit(.minutes(1))) struct EdgeHTTPClientTests {
  private let call = CallID(high: 1, low: 2)
  private static let secret = "c4pab1l1ty-0123456789"

  private static func state(_ phase: CallPhase, _ reason: EndReason? = nil) -> CallState {
    CallState(
      call: CallID(high: 1, low: 2), callee: "bob", phase: phase, version: 3, reason: reason)
  }

  private static func text(_ bytes: [UInt8]) -> String { String(decoding: bytes, as: UTF8.self) }

  private static func good(_ phase: CallPhase, _ reason: EndReason? = nil) -> SimulatedReply {
    .status(200, text(HTTPBodies.callState(state(phase, reason))))
  }

  private static func error(_ status: Int, _ error: CallError) -> SimulatedReply {
    .status(status, text(HTTPBodies.error(error)))
  }

  /// Short waits, and time enough.
  private static var options: EdgeHTTPClient.Options {
    var options = EdgeHTTPClient.Options()
    options.deadline = .seconds(40)
    options.backoffMinimum = .milliseconds(1)
    options.backoffMaximum = .milliseconds(2)
    return options
  }

  private func actions(_ servers: LoopbackHTTPServer..., callee: String = "bob") -> PushActions {
    EdgeHTTPClient(edges: servers.map(\.address), options: Self.options)
      .actions(callee: callee, call: call, capability: Self.secret)
  }

  @Test func asksDeclinesAndIsBusy() async throws {
    let server = try await LoopbackHTTPServer.start { request, _ in
      request.method == "GET" ? Self.good(.ringing) : Self.good(.ended, .declined)
    }
    let actions = actions(server)
    #expect(try await actions.state() == Self.state(.ringing))
    #expect(try await actions.decline() == Self.state(.ended, .declined))
    try await actions.decline(.here)
    try await actions.busy()
    let path = "/v1/calls/bob/\(call)"
    #expect(
      server.requests.map(\.target) == [path, path + "/decline", path + "/decline", path + "/busy"])
    #expect(server.requests.map(\.method) == ["GET", "POST", "POST", "POST"])
    #expect(
      server.requests.allSatisfy { $0.header("authorization") == "CallmeshPush \(Self.secret)" })
    let scopes = try server.requests[1...2].map {
      try HTTPBodies.decline($0.body).scope
    }
    #expect(scopes == [.everywhere, .here])
    await server.stop()
  }

  @Test func idsInPathsAreEncoded() async throws {
    let server = try await LoopbackHTTPServer.start { _, _ in Self.good(.ringing) }
    _ = try await actions(server, callee: "böb /?#%&.~").state()
    #expect(server.requests.first?.target == "/v1/calls/b%C3%B6b%20%2F%3F%23%25%26.~/\(call)")
    await server.stop()
  }

  @Test func registersAndUnregisters() async throws {
    let info = RegisteredInfo(
      device: "my phone", expiresAt: Timestamp(microseconds: 5000), removed: ["old"],
      capabilities: [.missed])
    let server = try await LoopbackHTTPServer.start { request, _ in
      .status(200, request.method == "POST" ? Self.text(HTTPBodies.registered(info)) : "{}")
    }
    let client = EdgeHTTPClient(edges: [server.address], options: Self.options)
    let request = RegistrationRequest(
      deviceName: "Mine",
      voipToken: PushToken(
        provider: .apns, environment: "production", topic: "a.voip",
        token: String(repeating: "ab", count: 32)), dialect: "callmesh", sdkName: "s",
      sdkVersion: "1", capabilities: [.missed])
    #expect(try await client.register(request, device: "my phone", token: "jwt") == info)
    try await client.unregister("my phone", token: "jwt")
    let said = server.requests
    #expect(said.map(\.method) == ["POST", "DELETE"])
    #expect(said.map(\.target) == ["/v1/devices", "/v1/devices/my%20phone"])
    #expect(said.allSatisfy { $0.header("authorization") == "Bearer jwt" })
    let body = try HTTPBodies.register(said[0].body)
    #expect(body == HTTPBodies.Register(device: "my phone", request: request))
    await server.stop()
  }

  /// Each kind of trouble at one edge, while the other one cannot be reached, and then an answer.
  @Test func triesAgainUntilAnEdgeAnswers() async throws {
    let large = String(repeating: " ", count: 70_000)
    let trouble: [SimulatedReply] = [
      Self.error(503, CallError(.tryAgain)), Self.error(503, CallError(.draining)), .hangUp,
      .status(502, "<html>Bad Gateway</html>"),
      Self.error(429, CallError(.rateLimited, retryAfterMilliseconds: 1)),
      // A network that wants its guests to log in.
      .status(200, "<html>Welcome</html>"), .status(302, ""), .status(200, large),
      .status(200, #"{"call":{}}"#), .status(404, "not here"),
      Self.error(500, CallError(.internalError)),
    ]
    let server = try await LoopbackHTTPServer.start { _, before in
      before < trouble.count ? trouble[before] : Self.good(.ringing)
    }
    // A port on which nobody listens.
    let closed = try await LoopbackHTTPServer.start { _, _ in .blackHole }
    await closed.stop()
    #expect(try await actions(closed, server).state() == Self.state(.ringing))
    #expect(server.requests.count == trouble.count + 1)
    await server.stop()
  }

  @Test func aRefusalIsNotTriedAgain() async throws {
    let server = try await LoopbackHTTPServer.start { _, _ in Self.error(401, CallError(.expired)) }
    await #expect(throws: CallError(.expired)) { try await actions(server).decline() }
    #expect(server.requests.count == 1)
    await server.stop()
  }

  @Test func itGivesUpInTime() async throws {
    let silent = try await LoopbackHTTPServer.start { _, _ in .blackHole }
    var options = Self.options
    options.deadline = .milliseconds(60)
    options.attemptTimeout = .milliseconds(20)
    let client = EdgeHTTPClient(edges: [silent.address], options: options)
    let error = await #expect(throws: CallError.self) {
      try await client.unregister("d", token: "jwt")
    }
    #expect(error?.code == .tryAgain)
    await silent.stop()
    let none = EdgeHTTPClient(edges: ["http://127.0.0.1", "nonsense:"], options: options)
    await #expect(throws: CallError.self) { try await none.unregister("d", token: "jwt") }
  }

  @Test func aCancelledTaskWaitsForNobody() async throws {
    let reached = AsyncStream.makeStream(of: Void.self)
    let silent = try await LoopbackHTTPServer.start { _, _ in
      reached.continuation.yield()
      return .blackHole
    }
    let actions = actions(silent)
    let declining = Task { try await actions.decline() }
    for await _ in reached.stream { break }
    declining.cancel()
    await #expect(throws: (any Error).self) { try await declining.value }
    #expect(silent.requests.count == 1)
    await silent.stop()
  }

  /// A text that cannot stand in a header is not sent, and appears in no error.
  @Test(arguments: ["a\r\nX: y", "a\nb", "a\0b"])
  func headersCannotBeForged(text: String) async throws {
    let server = try await LoopbackHTTPServer.start { _, _ in .status(200, "{}") }
    var options = Self.options
    options.deadline = .milliseconds(30)
    let client = EdgeHTTPClient(edges: [server.address], options: options)
    let error = await #expect(throws: CallError.self) {
      try await client.actions(callee: "bob", call: call, capability: text).decline()
    }
    #expect(error?.code == .tryAgain)
    #expect(server.requests.isEmpty)
    await server.stop()
  }

  @Test func nothingPrintsACapability() {
    let actions = EdgeHTTPClient(edges: ["ws://127.0.0.1:1"])
      .actions(callee: "bob", call: call, capability: Self.secret)
    var dumped = ""
    dump(actions, to: &dumped)
    for text in ["\(actions)", String(reflecting: actions), dumped] {
      #expect(!text.contains(Self.secret))
      #expect(text.contains("\(call)"))
    }
  }
}
