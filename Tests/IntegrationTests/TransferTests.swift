import CallClient
import CallCore
import CallWire
import Testing

/// R26 through real processes: sides of an answered call are handed over to other users, and the coordinators are killed
/// while those ring.
@Suite(.serialized) struct TransferTests {
  /// Alice has called bob. Dave is asked in vain and then takes bob's side, erin takes alice's.
  @Test(arguments: DeviceCodec.allCases)
  func bothSidesAreHandedOver(codec: DeviceCodec) async throws {
    let cluster = try await TestCluster.start()
    defer { cluster.stop() }
    func device(_ user: String, _ edge: String) async throws -> TestDevice {
      try await TestDevice(cluster, user: user, "phone", edges: [edge], codec: codec)
    }
    let (alice, bob) = (try await device("alice", "e1"), try await device("bob", "e2"))
    let (dave, erin) = (try await device("dave", "e1"), try await device("erin", "e2"))
    let all = [alice, bob, dave, erin]
    defer { for device in all { device.stop() } }
    for device in all { try await device.device.register(RegistrationRequest()) }
    let call = CallID.random()
    try await alice.device.place(PlaceRequest(call: call, description: "offer"), to: "bob")
    try await bob.waitForInvite(call)
    #expect(try await bob.device.answer(call, description: "answer"))
    try await alice.waitForAnswer(call)

    try await bob.device.transfer(call, to: "dave")
    try await dave.waitForInvite(call)
    #expect(dave.transfers(call).map(\.by) == ["bob"])
    #expect(dave.transfers(call).map(\.stays) == ["alice"])
    try await dave.device.decline(call)
    try await bob.waitForNews(call, .declined)

    try await bob.device.transfer(call, to: "dave")
    try await dave.wait("a second invite", count: 2) {
      if case .call(call, .invited) = $0 { true } else { false }
    }
    cluster.restartCoordinators()
    #expect(try await retrying { try await dave.device.answer(call, description: "of dave") })
    try await bob.waitForStop(call, .transferred)
    try await alice.waitForOther(call, user: "dave", "of dave")

    try await retrying { try await alice.device.transfer(call, to: "erin") }
    try await erin.waitForInvite(call)
    #expect(erin.transfers(call).map(\.stays) == ["dave"])
    #expect(try await retrying { try await erin.device.answer(call, description: "of erin") })
    try await alice.waitForStop(call, .transferred)
    try await dave.waitForOther(call, user: "erin", "of erin")
    cluster.restartCoordinators()
    try await retrying { try await erin.device.signal(call, .description, "to dave") }
    try await dave.wait("the description of erin") {
      if case .call(call, .signal(let signal)) = $0 { signal.body == "to dave" } else { false }
    }
    try await retrying { try await dave.device.hangUp(call) }
    try await erin.waitForStop(call, .hungUp)
    #expect(alice.stops(call).map(\.reason) == [.transferred])
    #expect(bob.stops(call).map(\.reason) == [.transferred])
  }

  /// Bob asks dave first, in a call of their own.
  @Test(arguments: DeviceCodec.allCases)
  func afterConsultation(codec: DeviceCodec) async throws {
    let cluster = try await TestCluster.start()
    defer { cluster.stop() }
    func device(_ user: String, _ name: String, _ edge: String) async throws -> TestDevice {
      try await TestDevice(cluster, user: user, name, edges: [edge], codec: codec)
    }
    let alice = try await device("alice", "phone", "e1")
    let bob = try await device("bob", "phone", "e2")
    let dave = try await device("dave", "phone", "e1")
    let tablet = try await device("dave", "tablet", "e2")
    let all = [alice, bob, dave, tablet]
    defer { for device in all { device.stop() } }
    for device in all { try await device.device.register(RegistrationRequest()) }
    let (call, question) = (CallID.random(), CallID.random())
    try await alice.device.place(PlaceRequest(call: call), to: "bob")
    try await bob.waitForInvite(call)
    #expect(try await bob.device.answer(call))
    try await bob.device.place(PlaceRequest(call: question), to: "dave")
    try await dave.waitForInvite(question)
    #expect(try await dave.device.answer(question))
    try await bob.waitForAnswer(question)

    let consulted = ConsultedCall(call: question, callee: "dave")
    try await bob.device.transfer(call, to: "dave", device: "phone", consulted: consulted)
    try await dave.waitForInvite(call)
    #expect(dave.transfers(call).map(\.consulted) == [consulted])
    #expect(try await dave.device.answer(call, description: "of dave"))
    try await alice.waitForOther(call, user: "dave", "of dave")
    try await bob.waitForStop(call, .transferred)
    for device in [bob, dave] { try await device.waitForStop(question, .transferred) }
    #expect(dave.stops(question).map(\.survivor) == [call])
    #expect(tablet.transfers(call).isEmpty, "only the device that was asked is rung")
    try await alice.device.hangUp(call)
    try await dave.waitForStop(call, .hungUp)
  }
}

extension TestCluster {
  fileprivate func restartCoordinators() {
    for name in ["c1", "c2"] { kill(name) }
    for name in ["c1", "c2"] {
      do { try startCoordinator(name) } catch { Issue.record("\(name) does not start: \(error)") }
    }
  }
}

extension TestDevice {
  /// The invites to take a side.
  fileprivate func transfers(_ call: CallID) -> [(
    by: String, stays: String, consulted: ConsultedCall?
  )] {
    heard.compactMap {
      guard case .call(call, .invited(let invite)) = $0, let by = invite.transferredBy else {
        return nil
      }
      return (by.user, invite.caller.user, invite.consulted)
    }
  }

  fileprivate func waitForNews(_ call: CallID, _ reason: EndReason) async throws {
    try await wait("the end of the transfer") {
      if case .call(call, .transfer(let news)) = $0 { news.reason == reason } else { false }
    }
  }

  fileprivate func waitForOther(_ call: CallID, user: String, _ description: String)
    async throws
  {
    try await wait("the other side is \(user)") {
      guard case .call(call, .moved(let moved)) = $0 else { return false }
      return moved.to.user == user && moved.description == description
    }
  }
}
