import CallBus
import CallClient
import CallCore
import CallProcesses
import CallTelemetry
import CallTestKit
import Foundation
import NATSBus
import Testing

/// The configurations of NATS that come with the programs. Every cluster of these tests runs with them (`TestCluster`).
/// Here no login may do more than its role needs.
@Suite(.timeLimit(.minutes(4)), .serialized)
struct NATSRolesTests {
  /// The permissions in the committed file are those of the programs.
  @Test func thePermissionsAreTheProgramsOwn() async throws {
    let printed = try await TestCluster.runAlone("callctl", ["nats-permissions"])
    let committed = try String(
      contentsOfFile: NATSGround.deploy + "permissions.conf", encoding: .utf8)
    #expect(printed.text == committed, "callctl nats-permissions > deploy/nats/permissions.conf")
    let others = try await TestCluster.runAlone(
      "callctl", ["nats-permissions", "--cluster", "x", "--operator", "ann", "--operator", "b-c"])
    #expect(others.text.contains("\nCALLMESH_OPERATOR_ann: {"))
    #expect(others.text.contains("\nCALLMESH_OPERATOR_b_c: {"))
    #expect(others.text.contains("\"x.orders.b-c.*\"") && !others.text.contains("callmesh."))
    #expect(printed.text.contains("\nCALLMESH_ALL: {"))
    // Each role of the process answers on the one connection.
    #expect(printed.text.contains("  allow_responses: { max: 3 }\n"))
  }

  /// The subjects of orders name the operator, so no operator gives an order in another's name.
  @Test func everyOrderIsAudited() async throws {
    let cluster = try await TestCluster.start()
    defer { cluster.stop() }
    for arguments in [
      ["drain", "c2", "--wait"], ["resume", "c2"],
      ["drain", "e2", "--wait", "--over", "0"], ["resume", "e2"],
    ] {
      let output = try await cluster.callctl(arguments)
      #expect(output.status == 0, "\(arguments): \(output.said)")
    }
    let audit = try await cluster.told("audit", "--json")
    let records = try JSONDecoder().decode([AuditRecord].self, from: Data(audit.utf8))
    #expect(records.map(\.operatorName) == ["admin", "admin", "admin", "admin"])
    #expect(records.map(\.order) == ["drain", "resume", "drain", "resume"])
    #expect(records.map(\.node) == ["c2", "c2", "e2", "e2"])
    #expect(records.map(\.about) == ["c2", "c2", "e2 over 0 s", "e2"])
    let other = try await cluster.callctl("drain", "e2", "--operator", "bob", "--timeout", "0.3")
    #expect(other.status != 0)
    #expect(try await cluster.told("audit").split(separator: "\n").count == 5)
    let revoked = try await cluster.told("revoke", "demo", "carol")
    let trail = try await cluster.told("audit")
    #expect(trail.contains("revoke  demo carol"), "\(revoked)\(trail)")
  }

  /// Records are on each of the three: one that is killed takes nothing along.
  @Test func theClusterRunsOnThreeServers() async throws {
    let cluster = try await TestCluster.start(servers: 3)
    defer { cluster.stop() }
    let alice = try await cluster.device("alice", "a1")
    let bob = try await cluster.device("bob", "b1")
    let first = try await alice.place(to: "bob")
    try await bob.waitForInvite(first)
    cluster.ground.servers[2].kill()
    // Whatever was under way is retransmitted: the call is answered, and others follow.
    try await bob.answer(first, of: alice)
    try await alice.hangUp(first, with: bob)
    try await bob.answer(try await alice.place(to: "bob"), of: alice)
  }

  /// Each of these a role could do with the rights of another.
  private static let forbidden: [NATSRole: [String]] = [
    .edge: [
      "callmesh-journal.0", "$KV.callmesh-leases.0", "$KV.callmesh-config.cluster",
      "$KV.callmesh-registrations.0.demo.bob.b1", "callmesh.orders.admin.drain",
      "callmesh.orders.edge.drain", "callmesh.admin.status", "callmesh.push.fcm",
      "callmesh.heartbeat", "callmesh.heartbeat.push", "callmesh.announce", "callmesh.edge.1",
      "callmesh.shard.0.reports", "callmesh.shard.0.peers", "callmesh.audit.coordinator",
      "$JS.API.STREAM.MSG.GET.callmesh-journal-0", "$JS.API.STREAM.INFO.callmesh-journal-0",
      "$JS.API.STREAM.MSG.GET.KV_callmesh-push-keys",
      "$JS.API.CONSUMER.CREATE.KV_callmesh-push-keys",
      "$JS.API.DIRECT.GET.KV_callmesh-push-keys",
      "$JS.API.STREAM.MSG.GET.KV_callmesh-registrations",
      "$JS.API.CONSUMER.CREATE.callmesh-journal-0", "$JS.API.STREAM.CREATE.mine",
      "$JS.API.STREAM.UPDATE.callmesh-journal-0", "$JS.API.STREAM.DELETE.callmesh-journal-0",
      "$JS.API.STREAM.PURGE.callmesh-audit", "$JS.API.STREAM.MSG.GET.callmesh-audit",
      "$JS.API.CONSUMER.CREATE.KV_callmesh-config.mine.$KV.callmesh-config.cluster",
    ],
    .push: [
      "callmesh.shard.0.commands", "callmesh.shard.0.peers", "callmesh.shard.0.announced",
      "callmesh-journal.0", "callmesh.orders.admin.drain", "callmesh.edge.1", "callmesh.push.fcm",
      "callmesh.heartbeat", "$KV.callmesh-push-keys.push-keys", "$KV.callmesh-config.cluster",
      "$JS.API.STREAM.MSG.GET.KV_callmesh-registrations",
      "$JS.API.STREAM.MSG.GET.callmesh-journal-0", "$JS.API.STREAM.MSG.GET.KV_callmesh-leases",
      "$JS.API.STREAM.CREATE.mine", "$JS.API.STREAM.PURGE.callmesh-push",
    ],
    .operator: [
      "callmesh.orders.bob.drain", "callmesh.shard.0.commands", "callmesh-journal.0",
      "callmesh.edge.1", "callmesh.heartbeat", "callmesh.audit.edge", "callmesh.push.fcm",
      "$KV.callmesh-leases.0", "$JS.API.STREAM.MSG.GET.callmesh-journal-0",
      "$KV.callmesh-revoked.demo.bob", "$JS.API.STREAM.MSG.GET.KV_callmesh-push-keys",
      "$JS.API.STREAM.MSG.GET.KV_callmesh-registrations",
      "$JS.API.STREAM.DELETE.callmesh-audit", "$JS.API.STREAM.PURGE.callmesh-audit",
    ],
    .coordinator: [
      "callmesh.orders.admin.drain", "callmesh.audit.edge", "$JS.API.STREAM.CREATE.mine",
      "$JS.API.STREAM.PURGE.callmesh-audit", "$JS.API.STREAM.DELETE.callmesh-journal-0",
      "$JS.API.STREAM.UPDATE.callmesh-audit", "other.subject",
    ],
  ]

  private static let deaf: [NATSRole: [String]] = [
    .edge: [
      ">", "callmesh.>", "_INBOX.>", "_INBOX.callmesh.coordinator.>", "callmesh.shard.0.commands",
      "callmesh.gateway.*", "callmesh.peer.*", "callmesh-journal.*", "$KV.>", "$JS.>",
      "callmesh.push.*",
    ],
    .push: [">", "_INBOX.>", "callmesh.edge.*", "callmesh.shard.>", "callmesh-journal.*"],
    .operator: [">", "_INBOX.>", "callmesh.edge.*", "callmesh.shard.>", "callmesh.orders.>"],
    .coordinator: [">", "_INBOX.>", "_INBOX.callmesh.operator.>", "other.subject"],
  ]

  @Test(arguments: [NATSRole.edge, .push, .operator, .coordinator])
  func whatARoleMustNotDoIsRefused(role: NATSRole) async throws {
    let ground = try await NATSGround()
    defer { ground.server.stop() }
    let events = Inbox<NATSEvent>(capacity: 1000)
    let bus = try await ground.connect(role, events)
    for subject in try #require(Self.forbidden[role]) {
      bus.publish(subject, Array("{}".utf8))
      try await refused(events, "\(role) says \(subject)")
    }
    for subject in try #require(Self.deaf[role]) {
      _ = try bus.subscribe(subject) { _ in Issue.record("\(role) hears \(subject)") }
      try await refused(events, "\(role) listens to \(subject)")
    }
    await bus.close()
  }

  private func refused(_ events: Inbox<NATSEvent>, _ what: String) async throws {
    while true {
      let batch = await events.next(until: .now + .seconds(20))
      try #require(!batch.isEmpty, "\(what), and NATS has nothing against it")
      let isRefused = batch.contains { event in
        if case .failure(let text) = event { text.contains("Permitted") } else { false }
      }
      if isRefused { return }
    }
  }

  /// No client comes in without a password, or without TLS.
  @Test func strangersAreRefused() async throws {
    let ground = try await NATSGround()
    defer { ground.server.stop() }
    var options = NATSOptions(subjects: Subjects(cluster: "callmesh", shardCount: 64))
    await #expect(throws: BusError.self) {
      _ = try await NATSBus.connect(
        url: "nats://127.0.0.1:\(ground.server.port)", name: "test", options: options)
    }
    options.access.ca = ground.folder.caFile
    await #expect(throws: BusError.self) {
      _ = try await NATSBus.connect(url: ground.url, name: "test", options: options)
    }
  }
}
