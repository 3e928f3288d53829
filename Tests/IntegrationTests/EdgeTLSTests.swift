import CallClient
import CallCore
import CallTelemetry
import CallTestKit
import CallWire
import Foundation
import Testing

/// `wss://` end to end: files, edges as processes, devices that verify them, and callload.
@Suite(.serialized, .timeLimit(.minutes(5))) struct EdgeTLSTests {
  private struct Stage: Sendable {
    let authority: LoopbackAuthority
    let cluster: TestCluster
    var certificateFile: String { cluster.folder + "/edge.pem" }
    var keyFile: String { cluster.folder + "/edge-key.pem" }
    var options: [String] { ["--tls-certificate", certificateFile, "--tls-key", keyFile] }
    var url: String { "wss://localhost:\(cluster.port("e1"))" }

    init() async throws {
      authority = try LoopbackAuthority()
      cluster = try await TestCluster.start(coordinators: 1, edges: 0, waits: false)
    }

    /// As tools do it: beside the old files, then renamed.
    func write(_ identity: LoopbackAuthority.Identity) throws {
      try identity.certificate.write(toFile: certificateFile, atomically: true, encoding: .utf8)
      try identity.key.write(toFile: keyFile, atomically: true, encoding: .utf8)
    }

    func device(_ user: String, _ name: String) async throws -> TestDevice {
      try await TestDevice(
        keys: cluster.keys, edges: [url], user: user, name,
        trust: try EdgeTrust(caFile: authority.caFile))
    }
  }

  @Test func callsOverTLSAndARenewedCertificate() async throws {
    let stage = try await Stage()
    let cluster = stage.cluster
    defer { cluster.stop() }
    try stage.write(stage.authority.issue(seconds: 3 * 86_400))
    try cluster.startEdge("e1", stage.options)
    try await cluster.waitUntilReady("e1")
    let alice = try await stage.device("alice", "a1")
    let bob = try await stage.device("bob", "b1")
    defer { for device in [alice, bob] { device.stop() } }
    let call = try await alice.place(to: "bob")
    try await bob.waitForInvite(call)
    // It expires soon, and the operator hears of it.
    let before = try await cluster.callctl("status", "--once")
    #expect(before.status == 1)
    #expect(before.text.contains("The certificate of e1 expires in"), "\(before.text)")

    try stage.write(stage.authority.issue(seconds: 30 * 86_400))
    try await eventually("the renewed certificate is in force") {
      try await !cluster.callctl("status", "--once").text.contains("certificate")
    }
    // Who was there noticed nothing.
    try await bob.answer(call, of: alice)
    for device in [alice, bob] { #expect(!device.wasDetached) }

    // A key of another certificate is refused, and SIGHUP reads as well.
    try stage.authority.issue().key
      .write(toFile: stage.keyFile, atomically: true, encoding: .utf8)
    cluster.signal("e1", SIGHUP)
    try await cluster.waitForLog("e1", "The certificate is not usable; the former one stays.")
    let late = try await stage.device("late", "l1")
    late.stop()
    let metrics = try await cluster.ask("e1", "/metrics").body
    #expect(!metrics.contains("callmesh_edge_certificate_refused_total 0"))
  }

  @Test func aPairThatDoesNotGoTogetherIsRefused() async throws {
    let stage = try await Stage()
    defer { stage.cluster.stop() }
    let certificate = try stage.authority.issue().certificate
    try stage.write(.init(certificate: certificate, key: stage.authority.issue().key))
    let options = ["--keys-file", stage.cluster.folder + "/keys.json"] + stage.options
    for command in [["edge"], ["config", "--role", "edge"]] {
      let output = try await TestCluster.runAlone("callnode", command + options)
      #expect(output.status == 2)
      for words in ["tlsKey = \"\(stage.keyFile)\"", "it is not the key of the first certificate"] {
        #expect(output.said.contains(words), "\(output.said)")
      }
    }
    // Other roles do not read them, though one file of settings serves all.
    let other = try await TestCluster.runAlone(
      "callnode", ["config", "--role", "coordinator"] + options)
    #expect(other.status == 0, "\(other.said)")
  }

  @Test func callloadOverTLS() async throws {
    let run = try await CallloadRun.of([
      "--tls", "--devices", "60", "--rate", "5", "--duration", "6s", "--shards", "16", "--seed",
      "5", "--sleeping", "30%",
    ])
    #expect(run.output.text.contains("devices over TLS"))
    #expect(run["settings.tls"] as? Bool == true)
  }

  @Test func callloadVerifiesEdgesThatAreNotItsOwn() async throws {
    let stage = try await Stage()
    let cluster = stage.cluster
    defer { cluster.stop() }
    try stage.write(stage.authority.issue())
    try cluster.startEdge("e1", stage.options)
    try await cluster.waitUntilReady("e1")
    func load(_ authority: LoopbackAuthority) async throws -> TestCluster.Output {
      try await TestCluster.runAlone(
        "callload",
        [
          "--devices", "30", "--rate", "2", "--duration", "2s", "--scenario", "answered", "--edge",
          stage.url, "--keys", cluster.folder + "/keys.json", "--ca", authority.caFile,
        ])
    }
    let good = try await load(stage.authority)
    #expect(good.status == 0, "\(good.text)")
    let bad = try await load(LoopbackAuthority())
    #expect(bad.status == 2)
    for words in ["no device could connect", "of no authority that is trusted"] {
      #expect(bad.said.contains(words), "\(bad.said)")
    }
  }
}
