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
    let alice = try await cluster.device("alice", "a1", edges: ["e1"])
    let bob = try await cluster.device("bob", "b1", edges: ["e1"])
    try await bob.answer(try await alice.place(to: "bob"), of: alice)
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

  @Test(
    arguments: [
      (["--nats-url", "nats://127.0.0.1:1", "--start-timeout", "0s"], 1),
      (["--nats-url", "nats://127.0.0.1:1", "--nats-credentials", "/nowhere/node.creds"], 2),
      (["--nats-url", "127.0.0.1"], 2),
    ] as [([String], Int32)])
  func whatIsWrongEndsTheNode(arguments: [String], status: Int32) async throws {
    let output = try await TestCluster.runAlone(
      "callnode", ["coordinator", "--keys-file", try Self.keysFile()] + arguments)
    #expect(output.status == status, "\(output.said)")
  }

  @Test func anotherShardCountThanTheClustersEndsTheNode() async throws {
    let cluster = try await TestCluster.start(coordinators: 1, edges: 0)
    defer { cluster.stop() }
    // From here on the cluster has its number: 64.
    try await cluster.waitForLog("c1", "node starts")
    let output = try await TestCluster.runAlone(
      "callnode",
      [
        "coordinator", "--cluster", TestCluster.name, "--shard-count", "32", "--keys-file",
        cluster.folder + "/keys.json",
      ] + cluster.ground.access("coordinator"))
    #expect(output.status == 2)
    for words in [
      #"cluster "callmesh" was created with 64 shards"#, "this node is set to 32",
      "Leave shardCount out or set it to 64",
    ] {
      #expect(output.said.contains(words), "\(output.said)")
    }
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
