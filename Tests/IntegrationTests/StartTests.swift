import CallAuth
import CallClient
import CallCore
import CallProcesses
import CallWire
import Foundation
import Testing

/// Nodes whose cluster is not there yet, or not for them.
@Suite(.serialized) struct StartTests {
  /// A cluster of one coordinator and one edge that were started while NATS was away, and wait for it.
  private func waitingCluster() async throws -> TestCluster {
    let cluster = try await TestCluster.start(coordinators: 1, edges: 1)
    do {
      cluster.kill("c1")
      cluster.kill("e1")
      cluster.nats.kill()
      try cluster.startCoordinator("c1")
      try cluster.startEdge("e1")
      for node in ["c1", "e1"] { try await cluster.waitForLog(node, "waits for NATS") }
    } catch {
      cluster.stop()
      throw error
    }
    return cluster
  }

  @Test func nodesThatWereThereBeforeNATSServeWhenItIsThere() async throws {
    let cluster = try await waitingCluster()
    defer { cluster.stop() }
    // It says in its log that it waits, and opens its port.
    try await eventually("e1 answers") { try await cluster.ask("e1", "/readyz").status != 0 }
    let ready = try await cluster.ask("e1", "/readyz")
    #expect(ready.status == 503)
    #expect(ready.body.contains("waits for NATS: no nats-server can be reached"), "\(ready.body)")
    #expect(!ready.body.contains("tls://"), "where NATS is stands in the log")
    #expect(try await cluster.ask("e1", "/healthz").status == 200)
    #expect(try await cluster.get("e1", "/healthz").status == 0, "devices go elsewhere at once")
    try await cluster.nats.relaunch()
    try await cluster.waitUntilReady("e1")
    let alice = try await TestDevice(cluster, user: "alice", "a1", edges: ["e1"])
    let bob = try await TestDevice(cluster, user: "bob", "b1", edges: ["e1"])
    defer { for device in [alice, bob] { device.stop() } }
    let call = CallID.random()
    try await alice.device.place(PlaceRequest(call: call), to: "bob")
    try await bob.waitForInvite(call)
    #expect(try await bob.device.answer(call))
    for node in ["c1", "e1"] { #expect(cluster.stop(node) == 0, "\(cluster.log(node))") }
  }

  /// Else it would end with 1, after the five minutes that it waits.
  @Test func aSignalEndsTheWait() async throws {
    let cluster = try await waitingCluster()
    defer { cluster.stop() }
    for node in ["c1", "e1"] {
      #expect(cluster.stop(node) == 0, "\(cluster.log(node))")
      #expect(cluster.log(node).contains("stopped"))
    }
  }

  /// An edge that waits for the first coordinator is there, and can be stopped.
  @Test func aSignalEndsTheWaitForACoordinator() async throws {
    let cluster = try await TestCluster.start(coordinators: 0, edges: 1, waits: false)
    defer { cluster.stop() }
    try await cluster.waitForLog("e1", "waits for the store")
    // It says in its log that it waits, and opens its port.
    try await eventually("e1 answers") { try await cluster.ask("e1", "/readyz").status != 0 }
    let ready = try await cluster.ask("e1", "/readyz")
    #expect(ready.status == 503)
    #expect(ready.body.contains("waits for the store: there is no bucket"), "\(ready.body)")
    #expect(cluster.stop("e1") == 0, "\(cluster.log("e1"))")
  }

  private struct Wrong: Sendable {
    var arguments: [String]
    var status: Int32
  }

  private static let wrong = [
    Wrong(arguments: ["--nats-url", "nats://127.0.0.1:1", "--start-timeout", "0s"], status: 1),
    Wrong(
      arguments: ["--nats-url", "nats://127.0.0.1:1", "--nats-credentials", "/nowhere/node.creds"],
      status: 2),
    Wrong(arguments: ["--nats-url", "127.0.0.1"], status: 2),
  ]

  @Test(arguments: wrong.indices)
  func whatIsWrongEndsTheNode(index: Int) async throws {
    let wrong = Self.wrong[index]
    let output = try await TestCluster.runAlone(
      "callnode", ["coordinator", "--keys-file", try Self.keysFile()] + wrong.arguments)
    #expect(output.status == wrong.status, "\(output.text)")
  }

  @Test func anotherShardCountThanTheClustersEndsTheNode() async throws {
    let cluster = try await TestCluster.start(coordinators: 1, edges: 0)
    defer { cluster.stop() }
    // From here on the cluster has its number: 64.
    try await cluster.waitForLog("c1", "node starts")
    let node =
      [
        try TestCluster.program("callnode"), "coordinator", "--cluster", TestCluster.name,
        "--shard-count", "32", "--keys-file", cluster.folder + "/keys.json",
      ] + cluster.ground.access("coordinator")
    // Why it ends it says on standard error.
    let output = try await cluster.run("/bin/sh", ["-c", #"exec "$0" "$@" 2>&1"#] + node)
    #expect(output.status == 2, "\(output.text)")
    #expect(
      output.text.contains(#"cluster "callmesh" was created with 64 shards"#), "\(output.text)")
    #expect(output.text.contains("this node is set to 32"), "\(output.text)")
    #expect(output.text.contains("Leave shardCount out or set it to 64"), "\(output.text)")
  }

  @Test func credentialsThatAreRefusedEndTheNode() async throws {
    let server = try await NATSServerProcess.start(arguments: ["--user", "u", "--pass", "right"])
    defer { server.stop() }
    let output = try await TestCluster.runAlone(
      "callnode",
      ["coordinator", "--nats-url", server.url, "--keys-file", try Self.keysFile()])
    #expect(output.status == 1, "\(output.text)")
  }

  /// A file of keys that is of no cluster.
  private static func keysFile() throws -> String {
    let path = NSTemporaryDirectory() + "/callmesh-keys-\(UUID().uuidString).json"
    try AppKeys.generateDevelopment(app: "demo").json
      .write(toFile: path, atomically: true, encoding: .utf8)
    return path
  }
}
