import CallAuth
import CallBus
import CallClient
import CallCore
import CallProcesses
import CallTelemetry
import CallTestKit
import CallWire
import Foundation
import NATSBus
import Testing

/// Operators end sessions and make tokens void, on real nodes.
@Suite(.serialized) struct RevocationTests {
  private func token(_ keys: AppKeys, _ user: String, aheadSeconds: Int64 = 0) async throws
    -> String
  {
    try keys.mintToken(
      app: "demo", user: user, lifetimeSeconds: 3600,
      now: Int64(Date().timeIntervalSince1970) + aheadSeconds)
  }

  /// The code with which an edge refuses a token; nil: the device is attached.
  private func attach(_ cluster: TestCluster, _ edge: String, _ token: String) async throws
    -> CallError.Code?
  {
    let device = CallDevice(
      .init(edges: [cluster.url(edge)], token: token, device: "probe"))
    device.start()
    defer { device.stop() }
    for await event in device.events {
      switch event {
      case .attached: return nil
      case .refused(let error): return error.code
      default: break
      }
    }
    throw TestCluster.Failure(description: "the device ended")
  }

  private func waitForRefusal(_ device: TestDevice, _ code: CallError.Code) async throws {
    try await device.wait("\(code)") {
      if case .refused(let error) = $0 { error.code == code } else { false }
    }
  }

  @Test func revokedTokensAreVoidEverywhereAndOverRestarts() async throws {
    let cluster = try await TestCluster.start(coordinators: 1, edges: 2)
    defer { cluster.stop() }
    let old = try await token(cluster.keys, "ann")
    let phone = try await TestDevice(cluster, user: "ann", "phone", edges: ["e1"])
    let tablet = try await TestDevice(cluster, user: "ann", "tablet", edges: ["e2"])
    let bob = try await TestDevice(cluster, user: "bob", "phone", edges: ["e1"])
    let output = try await cluster.callctl("revoke", "demo", "ann", "--json")
    #expect(output.status == 0)
    #expect(output.text.contains(#""sessionsEnded" : 2"#), "\(output.text)")
    #expect(output.text.contains(#""silentEdges" : ["#), "\(output.text)")
    try await waitForRefusal(phone, .revoked)
    try await waitForRefusal(tablet, .revoked)
    // A token that is issued later is good: from the next second on.
    let new = try await token(cluster.keys, "ann", aheadSeconds: 5)
    for edge in ["e1", "e2"] {
      #expect(try await attach(cluster, edge, old) == .revoked)
      #expect(try await attach(cluster, edge, new) == nil)
    }
    let ofEve = try await token(cluster.keys, "eve")
    for node in ["e1", "e2"] { cluster.kill(node) }
    // An order while no edge is there.
    #expect(try await cluster.callctl("revoke", "demo", "eve").status == 0)
    let audit = try await cluster.callctl("audit", "--json")
    let records = try JSONDecoder().decode([AuditRecord].self, from: Data(audit.text.utf8))
    #expect(records.last.map { [$0.order, $0.about, $0.node] } == ["revoke", "demo eve", "c1"])
    cluster.kill("c1")
    let refused = try await cluster.callctl("revoke", "demo", "bob", "--timeout", "0.3")
    #expect(refused.status == 2)
    try cluster.startCoordinator("c1")
    for edge in ["e1", "e2"] {
      try cluster.startEdge(edge)
      try await cluster.waitUntilReady(edge)
    }
    for edge in ["e1", "e2"] {
      #expect(try await attach(cluster, edge, old) == .revoked)
      #expect(try await attach(cluster, edge, ofEve) == .revoked)
      #expect(try await attach(cluster, edge, new) == nil)
    }
    #expect(!bob.heard.contains { if case .refused = $0 { true } else { false } })
  }

  @Test func whoIsKickedComesBack() async throws {
    let cluster = try await TestCluster.start(coordinators: 1, edges: 2)
    defer { cluster.stop() }
    let phone = try await TestDevice(cluster, user: "ann", "phone", edges: ["e1"])
    let tablet = try await TestDevice(cluster, user: "ann", "tablet", edges: ["e2"])
    let one = try await cluster.callctl("kick", "demo", "ann", "tablet")
    #expect(one.status == 0)
    #expect(one.text == "1 session of ann's device tablet ended on 2 edges.\n")
    let again: @Sendable (ClientEvent) -> Bool = {
      if case .attached(_, again: true) = $0 { true } else { false }
    }
    try await tablet.wait("attached again", again)
    let all = try await cluster.callctl("kick", "demo", "ann")
    #expect(all.text == "2 sessions of ann ended on 2 edges.\n")
    try await phone.wait("attached again", again)
    try await tablet.wait("attached again", count: 2, again)
    #expect(!cluster.log("e1").contains("tokens revoked"))
    #expect(cluster.log("e1").contains("sessions kicked"))
  }

  /// A key that leaked is replaced while the edges run.
  @Test func newKeysNeedNoRestart() async throws {
    let cluster = try await TestCluster.start(
      coordinators: 1, edges: 1, options: ["--log-level", "debug"])
    defer { cluster.stop() }
    try await theLogSaysWhatIsWrong(cluster)
    let phone = try await TestDevice(cluster, user: "ann", "phone", edges: ["e1"])
    let path = cluster.folder + "/keys.json"
    let good = try String(contentsOfFile: path, encoding: .utf8)
    try "{".write(toFile: path, atomically: true, encoding: .utf8)
    try await cluster.waitForLog("e1", "The file of keys is not usable")
    #expect(try await attach(cluster, "e1", try await token(cluster.keys, "bob")) == nil)
    try good.write(toFile: path, atomically: true, encoding: .utf8)
    #expect(!phone.heard.contains { if case .detached = $0 { true } else { false } })
    let (keys, json) = AppKeys.generateDevelopment(app: "demo")
    try json.write(toFile: path, atomically: true, encoding: .utf8)
    try await waitForRefusal(phone, .notAccepted)
    // The edge has read the file. The coordinator does so at a time of its own, and refuses the new token until then.
    let isAccepted = try await Pause.until(within: .seconds(60)) {
      try await attach(cluster, "e1", try await token(keys, "ann")) == nil
    }
    #expect(isAccepted)
  }

  /// With a token whose user is a number: the device does not learn which claim is wrong, the log says it.
  private func theLogSaysWhatIsWrong(_ cluster: TestCluster) async throws {
    let token = [
      #"{"alg":"HS256","kid":"k1"}"#, #"{"app":"demo","sub":424242,"exp":4102444800}"#, "none",
    ].map { Base64URL.text(Array($0.utf8)) }.joined(separator: ".")
    #expect(try await attach(cluster, "e1", token) == .notAccepted)
    try await cluster.waitForLog("e1", "sub has another type: it is text")
    let log = cluster.log("e1")
    #expect(log.contains("A token was refused.") && !log.contains("424242"))
    #expect(!log.contains(token))
    let metrics = try await cluster.ask("e1", "/metrics").body
    #expect(metrics.contains(#"callmesh_edge_tokens_refused_total{part="sub"} 1"#))
  }

  /// An edge that cannot know which tokens were revoked takes no device, and says what it waits for.
  @Test func anEdgeReadsTheListFirst() async throws {
    let cluster = try await TestCluster.start(coordinators: 1, edges: 1)
    defer { cluster.stop() }
    cluster.kill("e1")
    let bus = try await cluster.ground.connectAsRoot()
    _ = try await bus.request(
      "$JS.API.STREAM.DELETE.KV_\(TestCluster.name)-revoked", [], timeout: .seconds(10))
    await bus.close()
    try cluster.startEdge("e1")
    try await cluster.waitForLog("e1", "waits for the list of revoked tokens")
    let deadline = ContinuousClock.now + .seconds(60)
    var ready = try await cluster.ask("e1", "/readyz")
    // Nothing tells when another process listens.
    while ready.status == 0, ContinuousClock.now < deadline {
      try await Task.sleep(for: .milliseconds(20))
      ready = try await cluster.ask("e1", "/readyz")
    }
    #expect(ready.status == 503 && ready.body.contains("the list of revoked tokens"), "\(ready)")
    // A coordinator makes it.
    cluster.stop("c1")
    try cluster.startCoordinator("c1")
    try await cluster.waitUntilReady("e1")
  }
}
