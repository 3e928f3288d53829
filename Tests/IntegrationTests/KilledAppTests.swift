import CallClient
import CallCore
import Foundation
import Testing

/// R22 through real processes: the app of a device in a call is killed, and starts anew.
@Suite struct KilledAppTests {
  @Test("an app that says nothing of its former run's call keeps its user busy for a time only")
  func keepsNobodyBusy() async throws {
    let file = NSTemporaryDirectory() + "/callmesh-killed-\(UUID().uuidString).json"
    let settings = #"{"busyWhileInCall": true, "resumeGraceAnswered": "4s", "reattachGrace": "1s"}"#
    try Data(settings.utf8).write(to: URL(fileURLWithPath: file))
    let cluster = try await TestCluster.start(coordinators: 1, options: ["--config", file])
    defer {
      cluster.stop()
      try? FileManager.default.removeItem(atPath: file)
    }
    let alice = try await TestDevice(cluster, user: "alice", "phone")
    let carol = try await TestDevice(cluster, user: "carol", "phone")
    let bob = try await TestDevice(cluster, user: "bob", "phone", edges: ["e1"])
    defer { for device in [alice, carol, bob] { device.stop() } }
    let call = CallID.random()
    try await alice.device.place(PlaceRequest(call: call, description: "offer"), to: "bob")
    try await bob.waitForInvite(call)
    #expect(try await bob.device.answer(call, description: "answer"))
    try await bob.device.connected(call)
    try await alice.device.connected(call)

    // Nobody sees the former session end before the new one is there.
    let again = try await TestDevice(cluster, user: "bob", "phone", edges: ["e2"])
    defer { again.stop() }
    try await again.wait("its call") { if case .call(call, .won) = $0 { true } else { false } }
    let early = CallID.random()
    try await carol.device.place(PlaceRequest(call: early), to: "bob")
    try await carol.waitForStop(early, .busy)

    try await alice.waitForStop(call, .hungUp)
    let later = CallID.random()
    try await carol.device.place(PlaceRequest(call: later), to: "bob")
    try await again.waitForInvite(later)
  }
}
