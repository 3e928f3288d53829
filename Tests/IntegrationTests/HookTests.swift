import CallAuth
import CallClient
import CallCore
import CallProcesses
import CallWire
import Foundation
import Testing

/// The server of docs/hooks.md as an app's hook, with a real edge.
@Suite(.serialized) struct HookTests {
  private static let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
  private static let hasPython = Executables.find("python3") != nil

  private func refusal(_ device: TestDevice, to callee: String) async -> CallError? {
    do throws(CallError) {
      try await device.device.place(PlaceRequest(call: .random()), to: callee)
      return nil
    } catch {
      return error
    }
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
    let ann = try await cluster.device("ann", "phone", edges: ["e1"])
    let bob = try await cluster.device("bob", "phone", edges: ["e1"])
    let hook: [String: Any] = [
      "url": "http://127.0.0.1:\(port)/", "secrets": [Self.secret], "whenAway": "refuse",
      // Enough time for Python on a busy machine.
      "timeoutMilliseconds": 3000,
    ]
    try cluster.changeApp { $0["hook"] = hook }
    try await eventually("the edge reads the file") {
      try await cluster.ask("e1", "/metrics").body.contains("callmesh_hook_away{app=\"demo\"} 0\n")
    }
    let call = try await ann.place(to: "bob")
    try await bob.waitForInvite(call)
    #expect(bob.invites(call).map(\.caller.name) == ["Ann Lee"])
    #expect(
      await refusal(ann, to: "carl") == CallError(.unknownUser, "We know nobody of that name."))

    process.killNow()
    for _ in 0..<5 { #expect(await refusal(ann, to: "bob") != nil) }
    try await eventually("operators learn that it is away") {
      try await cluster.callctl("status", "--once").text
        .contains("The hook of app demo does not answer e1")
    }
    #expect(!cluster.log("e1").contains(Self.secret))
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
