import CallClient
import CallCore
import CallWire
import Testing

/// R24 through real processes: both sides of an answered call move, and the coordinators are killed in between.
@Suite(.serialized) struct PullTests {
  @Test(arguments: DeviceCodec.allCases)
  func bothSidesMove(codec: DeviceCodec) async throws {
    let cluster = try await TestCluster.start()
    defer { cluster.stop() }
    let alices = [
      try await TestDevice(cluster, user: "alice", "a1", edges: ["e1"], codec: codec),
      try await TestDevice(cluster, user: "alice", "a2", edges: ["e2"], codec: codec),
    ]
    let bobs = [
      try await TestDevice(cluster, user: "bob", "b1", edges: ["e1"], codec: codec),
      try await TestDevice(cluster, user: "bob", "b2", edges: ["e2"], codec: codec),
    ]
    defer { for device in alices + bobs { device.stop() } }
    for device in alices + bobs { try await device.device.register(RegistrationRequest()) }
    let call = CallID.random()
    try await alices[0].device.place(PlaceRequest(call: call, description: "offer"), to: "bob")
    try await bobs[0].waitForInvite(call)
    try await bobs[1].waitForInvite(call)
    #expect(try await bobs[0].device.answer(call, description: "answer"))
    try await alices[0].waitForAnswer(call)
    try await bobs[1].waitForStop(call, .answeredElsewhere)

    #expect(try await bobs[1].device.pull(call, from: "b1", description: "bob 2"))
    try await bobs[0].waitForStop(call, .moved)
    try await alices[0].waitForMove(call, to: "b2", "bob 2")
    #expect(try await !bobs[0].device.pull(call, from: "b1"), "it has it no more")

    // The coordinator that takes over knows where the call went, and goes on with it.
    for name in ["c1", "c2"] { cluster.kill(name) }
    for name in ["c1", "c2"] { try cluster.startCoordinator(name) }
    let pulled = try await retrying {
      try await alices[1].device.pull(call, callee: "bob", from: "a1", description: "alice 2")
    }
    #expect(pulled)
    try await alices[0].waitForStop(call, .moved)
    try await bobs[1].waitForMove(call, to: "a2", "alice 2")
    try await retrying { try await alices[1].device.signal(call, .description, "of a2") }
    try await bobs[1].wait("description of a2") {
      if case .call(call, .signal(let signal)) = $0 { signal.body == "of a2" } else { false }
    }
    try await retrying { try await alices[1].device.hangUp(call) }
    try await bobs[1].waitForStop(call, .hungUp)
    #expect(alices[0].stops(call).map(\.reason) == [.moved])
    #expect(bobs[0].stops(call).map(\.reason) == [.moved])
  }
}

extension TestDevice {
  fileprivate func waitForMove(_ call: CallID, to device: DeviceID, _ description: String)
    async throws
  {
    try await wait("a move to \(device)") {
      guard case .call(call, .moved(let moved)) = $0 else { return false }
      return moved.to.device == device && moved.description == description
    }
  }
}
