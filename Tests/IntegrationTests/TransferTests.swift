import CallClient
import CallCore
import CallWire
import Testing

/// R26 through real processes: sides of an answered call are handed over to other users, and the coordinators are killed
/// while those ring.
@Suite(.serialized) struct TransferTests {
  /// Alice has called bob. Dave is asked in vain and then takes bob's side, erin takes alice's.
  @Test func bothSidesAreHandedOver() async throws {
    let cluster = try await TestCluster.start()
    defer { cluster.stop() }
    func phone(_ user: String, _ edge: String, _ codec: DeviceCodec) async throws -> TestDevice {
      try await cluster.device(user, "phone", edges: [edge], codec: codec)
    }
    let alice = try await phone("alice", "e1", .protobuf)
    let bob = try await phone("bob", "e2", .json)
    let dave = try await phone("dave", "e1", .protobuf)
    let erin = try await phone("erin", "e2", .json)
    let all = [alice, bob, dave, erin]
    for device in all { try await device.device.register(RegistrationRequest()) }
    let call = try await alice.place(to: "bob", description: "offer")
    try await bob.answer(call, of: alice, description: "answer")

    try await bob.device.transfer(call, to: "dave")
    try await dave.waitForInvite(call)
    #expect(dave.invites(call).map(\.transferredBy?.user) == ["bob"])
    #expect(dave.invites(call).map(\.caller.user) == ["alice"])
    try await dave.device.decline(call)
    try await bob.wait("the end of the transfer") {
      if case .call(call, .transfer(let news)) = $0 { news.reason == .declined } else { false }
    }

    try await bob.device.transfer(call, to: "dave")
    try await dave.wait("a second invite", count: 2) {
      if case .call(call, .invited) = $0 { true } else { false }
    }
    try cluster.restartCoordinators()
    #expect(try await retrying { try await dave.device.answer(call, description: "of dave") })
    try await bob.waitForStop(call, .transferred)
    try await alice.waitForMove(call, to: "dave", "phone", "of dave")

    try await retrying { try await alice.device.transfer(call, to: "erin") }
    try await erin.waitForInvite(call)
    #expect(erin.invites(call).map(\.caller.user) == ["dave"])
    #expect(try await retrying { try await erin.device.answer(call, description: "of erin") })
    try await alice.waitForStop(call, .transferred)
    try await dave.waitForMove(call, to: "erin", "phone", "of erin")
    try cluster.restartCoordinators()
    try await retrying { try await erin.device.signal(call, .description, "to dave") }
    try await dave.waitForDescription(call, "to dave")
    try await retrying { try await dave.device.hangUp(call) }
    try await erin.waitForStop(call, .hungUp)
    for device in [alice, bob] { #expect(device.stops(call).map(\.reason) == [.transferred]) }
  }
}
