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
  private func token(_ keys: AppKeys, _ user: String, aheadSeconds: Int64 = 0) throws -> String {
    try keys.mintToken(
      app: "demo", user: user, lifetimeSeconds: 3600,
      now: Int64(Date().timeIntervalSince1970) + aheadSeconds)
  }

  /// The code with which an edge refuses a token; nil: the device is attached.
  private func attach(_ cluster: TestCluster, _ edge: String, _ token: String) async throws
    -> CallError.Code?
  {
    let device = CallDevice(.init(edges: [cluster.url(edge)], token: token, device: "probe"))
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
    let old = try token(cluster.keys, "ann")
    let phone = try await cluster.device("ann", "phone", edges: ["e1"])
    let tablet = try await cluster.device("ann", "tablet", edges: ["e2"])
    let bob = try await cluster.device("bob", "phone", edges: ["e1"])
    let output = try await cluster.callctl("revoke", "demo", "ann", "--json")
    #expect(output.status == 0)
    #expect(output.text.contains(#""sessionsEnded" : 2"#), "\(output.text)")
    #expect(output.text.contains(#""silentEdges" : ["#), "\(output.text)")
    try await waitForRefusal(phone, .revoked)
    try await waitForRefusal(tablet, .revoked)
    // A token that is issued later is good: from the next second on.
    let new = try token(cluster.keys, "ann", aheadSeconds: 5)
    for edge in ["e1", "e2"] {
      #expect(try await attach(cluster, edge, old) == .revoked)
      #expect(try await attach(cluster, edge, new) == nil)
    }
    let ofEve = try token(cluster.keys, "eve")
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
    let phone = try await cluster.device("ann", "phone", edges: ["e1"])
    let tablet = try await cluster.device("ann", "tablet", edges: ["e2"])
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
    // Nothing tells when another process listens.
    try await eventually("e1 answers") { try await cluster.ask("e1", "/readyz").status != 0 }
    let ready = try await cluster.ask("e1", "/readyz")
    #expect(ready.status == 503 && ready.body.contains("the list of revoked tokens"), "\(ready)")
    // A coordinator makes it.
    cluster.stop("c1")
    try cluster.startCoordinator("c1")
    try await cluster.waitUntilReady("e1")
  }
}
