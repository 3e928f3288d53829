import CallClient
import CallCore
import Testing

/// R22 through real processes: the app of a device in a call is killed, and starts anew.
@Suite struct KilledAppTests {
  @Test("an app that says nothing of its former run's call keeps its user busy for a time only")
  func keepsNobodyBusy() async throws {
    let settings = #"{"busyWhileInCall": true, "resumeGraceAnswered": "4s", "reattachGrace": "1s"}"#
    let cluster = try await TestCluster.start(coordinators: 1, settings: settings)
    defer { cluster.stop() }
    let alice = try await cluster.device("alice", "phone")
    let carol = try await cluster.device("carol", "phone")
    let bob = try await cluster.device("bob", "phone", edges: ["e1"])
    let call = try await alice.place(to: "bob", description: "offer")
    try await bob.answer(call, of: alice, description: "answer")
    for device in [bob, alice] { try await device.device.connected(call) }

    // Nobody sees the former session end before the new one is there.
    let again = try await cluster.device("bob", "phone", edges: ["e2"])
    try await again.wait("its call") { if case .call(call, .won) = $0 { true } else { false } }
    let early = try await carol.place(to: "bob")
    try await carol.waitForStop(early, .busy)

    try await alice.waitForStop(call, .hungUp)
    let later = try await carol.place(to: "bob")
    try await again.waitForInvite(later)
  }
}
