import CallClient
import CallCore
import CallProcesses
import CallWire
import Testing

/// The store itself dies. What it had acknowledged is in the kernel's hands, so a process that is
/// killed loses nothing; what a power cut does is another matter, and docs/reliability.md tells.
@Suite(.serialized) struct StoreCrashTests {
  /// - Parameter coordinatorsToo: not even they remember: they are killed while the store is down.
  @Test(arguments: [false, true])
  func acknowledgedCallsSurviveTheKillOfTheStore(coordinatorsToo: Bool) async throws {
    let cluster = try await TestCluster.start()
    defer { cluster.stop() }
    let alice = try await cluster.device("alice", "a1")
    let carol = try await cluster.device("carol", "c1")
    let bob = try await cluster.device("bob", "b1")
    let dave = try await cluster.device("dave", "d1")
    for device in [bob, dave] { try await device.device.register(RegistrationRequest()) }
    let ringing = try await alice.place(to: "bob", description: "offer")
    try await bob.waitForInvite(ringing)
    let answered = try await carol.place(to: "dave")
    try await dave.answer(answered, of: carol)

    cluster.nats.kill()
    let coordinators = coordinatorsToo ? ["c1", "c2"] : []
    for node in coordinators { cluster.kill(node) }
    try await cluster.nats.restart()
    for node in coordinators { try cluster.startCoordinator(node) }

    #expect(try await retrying { try await bob.device.answer(ringing, description: "answer") })
    try await alice.waitForAnswer(ringing)
    #expect(bob.stops(ringing).isEmpty)
    try await retrying { try await dave.device.hangUp(answered) }
    try await carol.waitForStop(answered, .hungUp)
    try await retrying { try await alice.device.hangUp(ringing) }
    try await bob.waitForStop(ringing, .hungUp)
    let user = try await cluster.told("user", "demo", "bob", "--json")
    #expect(user.contains("b1"), "the registration is gone: \(user)")
  }
}
