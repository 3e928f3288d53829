import CallClient
import CallCore
import CallWire
import Testing

/// R25 through real processes: a call goes on to other users by the callee's rules, and the coordinators are killed in
/// mid-ring.
@Suite(.serialized) struct ForwardTests {
  @Test func rulesSendACallOn() async throws {
    let cluster = try await TestCluster.start()
    defer { cluster.stop() }
    func phone(
      _ user: String, _ edge: String, _ codec: DeviceCodec = .protobuf
    ) async throws -> TestDevice {
      try await cluster.device(user, "phone", edges: [edge], codec: codec)
    }
    // Their devices have one id, but are devices of four users.
    let (alice, bob) = (try await phone("alice", "e1", .json), try await phone("bob", "e2"))
    let (carol, dave) = (try await phone("carol", "e1"), try await phone("dave", "e2", .json))
    let all = [alice, bob, carol, dave]
    for device in all { try await device.device.register(RegistrationRequest()) }
    try await bob.device.setRules(
      UserRules(onNoAnswer: UserRules.Forward(users: ["carol", "dave"]), noAnswerSeconds: 5))

    let call = CallID.random()
    try await alice.device.place(PlaceRequest(call: call, description: "offer"), to: "bob")
    try await bob.waitForInvite(call)
    try await bob.waitForStop(call, .unanswered)
    #expect(bob.stops(call).map(\.missed) == [true])
    for device in [carol, dave] { try await device.waitForInvite(call) }
    let until = try #require(carol.invites(call).first?.deadline)
    try await alice.wait("the later time") { $0 == .call(call, .ringsUntil(until)) }
    #expect(carol.invites(call).map(\.divertedBy) == ["bob"])

    try cluster.restartCoordinators()
    try await retrying { try await carol.device.decline(call) }
    #expect(try await retrying { try await dave.device.answer(call, description: "answer") })
    try await alice.waitForAnswer(call)
    let winners = alice.heard.compactMap {
      if case .call(call, .answered(let answered)) = $0 { answered.by.user } else { nil }
    }
    #expect(winners == ["dave"])
    #expect(carol.stops(call).map(\.reason) == [.declined], "its own")

    // Both sides talk, also after their shards have moved once more.
    try cluster.restartCoordinators()
    try await retrying { try await dave.device.signal(call, .description, "of dave") }
    try await alice.waitForDescription(call, "of dave")
    try await retrying { try await alice.device.hangUp(call) }
    try await dave.waitForStop(call, .hungUp)
    #expect(bob.stops(call).map(\.reason) == [.unanswered])
  }
}
