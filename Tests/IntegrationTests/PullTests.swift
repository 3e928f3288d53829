import CallClient
import CallCore
import CallWire
import Testing

/// R24 through real processes: both sides of an answered call move, and the coordinators are killed in between. The
/// descriptions are as large as they may be.
@Suite(.serialized) struct PullTests {
  private static func description(_ name: String) -> String {
    name + String(repeating: "d", count: CallLimits().descriptionBytes - name.utf8.count)
  }

  @Test func bothSidesMove() async throws {
    let cluster = try await TestCluster.start()
    defer { cluster.stop() }
    func device(_ user: String, _ name: String, _ codec: DeviceCodec) async throws -> TestDevice {
      try await cluster.device(user, name, edges: [name.hasSuffix("1") ? "e1" : "e2"], codec: codec)
    }
    let alices = [
      try await device("alice", "a1", .protobuf), try await device("alice", "a2", .json),
    ]
    let bobs = [try await device("bob", "b1", .json), try await device("bob", "b2", .protobuf)]
    for device in alices + bobs { try await device.device.register(RegistrationRequest()) }
    let (pulled, back) = (Self.description("bob 2"), Self.description("alice 2"))
    let call = try await alices[0].place(to: "bob", description: Self.description("offer"))
    try await bobs[1].waitForInvite(call)
    try await bobs[0].answer(call, of: alices[0], description: Self.description("answer"))
    try await bobs[1].waitForStop(call, .answeredElsewhere)

    #expect(try await bobs[1].device.pull(call, from: "b1", description: pulled))
    try await bobs[0].waitForStop(call, .moved)
    try await alices[0].waitForMove(call, to: "bob", "b2", pulled)
    #expect(try await !bobs[0].device.pull(call, from: "b1"), "it has it no more")

    // The coordinator that takes over knows where the call went, and goes on with it.
    try cluster.restartCoordinators()
    let isPulled = try await retrying {
      try await alices[1].device.pull(call, callee: "bob", from: "a1", description: back)
    }
    #expect(isPulled)
    try await alices[0].waitForStop(call, .moved)
    try await bobs[1].waitForMove(call, to: "alice", "a2", back)
    let later = Self.description("of a2")
    try await retrying { try await alices[1].device.signal(call, .description, later) }
    try await bobs[1].waitForDescription(call, later)
    try await retrying { try await alices[1].device.hangUp(call) }
    try await bobs[1].waitForStop(call, .hungUp)
    for device in [alices[0], bobs[0]] {
      #expect(device.stops(call).map(\.reason) == [.moved])
    }
  }
}
