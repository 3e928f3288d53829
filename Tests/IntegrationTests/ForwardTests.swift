import CallClient
import CallCore
import CallWire
import Testing

/// R25 through real processes: calls go on to other users by the callee's rules, and the coordinators are killed in
/// mid-ring.
@Suite(.serialized) struct ForwardTests {
  @Test(arguments: DeviceCodec.allCases)
  func rulesSendACallOn(codec: DeviceCodec) async throws {
    let cluster = try await TestCluster.start()
    defer { cluster.stop() }
    let alice = try await TestDevice(cluster, user: "alice", "phone", edges: ["e1"], codec: codec)
    let bob = try await TestDevice(cluster, user: "bob", "phone", edges: ["e2"], codec: codec)
    // Their devices have one id, but are devices of two users.
    let carol = try await TestDevice(cluster, user: "carol", "phone", edges: ["e1"], codec: codec)
    let dave = try await TestDevice(cluster, user: "dave", "phone", edges: ["e2"], codec: codec)
    let all = [alice, bob, carol, dave]
    defer { for device in all { device.stop() } }
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

    for name in ["c1", "c2"] { cluster.kill(name) }
    for name in ["c1", "c2"] { try cluster.startCoordinator(name) }
    try await retrying { try await carol.device.decline(call) }
    #expect(try await retrying { try await dave.device.answer(call, description: "answer") })
    try await alice.waitForAnswer(call)
    #expect(alice.answers(call).map(\.by.user) == ["dave"])
    #expect(carol.stops(call).map(\.reason) == [.declined], "its own")

    // Both sides talk, also after their shards have moved once more.
    for name in ["c1", "c2"] { cluster.kill(name) }
    for name in ["c1", "c2"] { try cluster.startCoordinator(name) }
    try await retrying { try await dave.device.signal(call, .description, "of dave") }
    try await alice.wait("the description") {
      if case .call(call, .signal(let signal)) = $0 { signal.body == "of dave" } else { false }
    }
    try await retrying { try await alice.device.hangUp(call) }
    try await dave.waitForStop(call, .hungUp)
    #expect(bob.stops(call).map(\.reason) == [.unanswered])
  }
}

extension ForwardTests {
  /// The trial of a caller who asked for 8 s.
  @Test func aTimeThatTheCallerChoseHolds() async throws {
    let cluster = try await TestCluster.start()
    defer { cluster.stop() }
    let alice = try await TestDevice(cluster, user: "alice", "phone", edges: ["e1"])
    let bob = try await TestDevice(cluster, user: "bob", "phone", edges: ["e2"])
    let carol = try await TestDevice(cluster, user: "carol", "phone", edges: ["e1"])
    let all = [alice, bob, carol]
    defer { for device in all { device.stop() } }
    try await bob.device.setRules(
      UserRules(onNoAnswer: UserRules.Forward(users: ["carol"]), noAnswerSeconds: 20))

    let call = CallID.random()
    try await alice.device.place(PlaceRequest(call: call, ringTimeoutSeconds: 8), to: "bob")
    for device in [bob, carol] { try await device.waitForInvite(call) }
    #expect(carol.invites(call).map(\.deadline) == bob.invites(call).map(\.deadline))
    try await alice.waitForStop(call, .unanswered)
    try await carol.waitForStop(call, .unanswered)
  }
}

extension TestDevice {
  fileprivate func invites(_ call: CallID) -> [Invite] {
    heard.compactMap { if case .call(call, .invited(let invite)) = $0 { invite } else { nil } }
  }

  fileprivate func answers(_ call: CallID) -> [Answered] {
    heard.compactMap { if case .call(call, .answered(let answered)) = $0 { answered } else { nil } }
  }
}
