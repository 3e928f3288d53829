import CallClient
import CallCore
import CallProcesses
import CallWire
import Testing

/// The store itself dies. What it had acknowledged is in the kernel's hands, so a process that is
/// killed loses nothing; what a power cut does is another matter, and docs/reliability.md tells.
@Suite(.serialized) struct StoreCrashTests {
  @Test func acknowledgedCallsSurviveTheKillOfTheStore() async throws {
    let cluster = try await TestCluster.start()
    defer { cluster.stop() }
    let alice = try await TestDevice(cluster, user: "alice", "a1")
    let carol = try await TestDevice(cluster, user: "carol", "c1")
    let bob = try await TestDevice(cluster, user: "bob", "b1")
    let dave = try await TestDevice(cluster, user: "dave", "d1")
    defer { for device in [alice, bob, carol, dave] { device.stop() } }
    for device in [bob, dave] { try await device.device.register(RegistrationRequest()) }

    let ringing = CallID.random()
    try await alice.device.place(PlaceRequest(call: ringing, ringTimeoutSeconds: 120), to: "bob")
    try await bob.waitForInvite(ringing)
    let answered = CallID.random()
    try await carol.device.place(PlaceRequest(call: answered, ringTimeoutSeconds: 120), to: "dave")
    try await dave.waitForInvite(answered)
    #expect(try await dave.device.answer(answered))
    try await carol.waitForAnswer(answered)

    cluster.nats.kill()
    try await cluster.nats.restart()

    // The same coordinators go on, over the same journal.
    #expect(try await retrying { try await bob.device.answer(ringing) })
    try await alice.waitForAnswer(ringing)
    #expect(bob.stops(ringing).isEmpty)
    try await retrying { try await dave.device.hangUp(answered) }
    try await carol.waitForStop(answered, .hungUp)
    try await retrying { try await alice.device.hangUp(ringing) }
    try await bob.waitForStop(ringing, .hungUp)
    let user = try await cluster.callctl("user", "demo", "bob", "--json")
    #expect(user.text.contains("b1"), "the registration is gone: \(user.text)")
  }

  /// Not even the coordinators remember: they are killed while the store is down.
  @Test func theJournalAloneBringsCallsBack() async throws {
    let cluster = try await TestCluster.start()
    defer { cluster.stop() }
    let alice = try await TestDevice(cluster, user: "alice", "a1")
    let bob = try await TestDevice(cluster, user: "bob", "b1")
    defer { for device in [alice, bob] { device.stop() } }
    try await bob.device.register(RegistrationRequest())
    let call = CallID.random()
    try await alice.device.place(
      PlaceRequest(call: call, ringTimeoutSeconds: 120, description: "offer"), to: "bob")
    try await bob.waitForInvite(call)

    cluster.nats.kill()
    for node in ["c1", "c2"] { cluster.kill(node) }
    try await cluster.nats.restart()
    for node in ["c1", "c2"] { try cluster.startCoordinator(node) }

    #expect(try await retrying { try await bob.device.answer(call, description: "answer") })
    try await alice.waitForAnswer(call)
    #expect(bob.stops(call).isEmpty)
    try await retrying { try await alice.device.hangUp(call) }
    try await bob.waitForStop(call, .hungUp)
  }
}
