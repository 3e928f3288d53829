import CallClient
import CallCore
import CallTelemetry
import CallTestKit
import CallWire
import PushSimulators
import Testing

/// Devices that sleep are woken through real gateways, of which one dies.
@Suite("Waking by push", .serialized, .timeLimit(.minutes(3))) struct PushWakingTests {
  /// Five users with a phone that sleeps, and a call to each. APNs lets the pushes of the calls hang as the test says, and
  /// answers again once the gateway that has one of them, and perhaps further ones behind it, is killed.
  private struct Sleepers {
    var alice: TestDevice
    var users: [(user: String, token: PushToken)] = []
    var calls: [CallID] = []
    var phones: [TestDevice] = []
    var tokens: Set<String> { Set(users.map(\.token.token)) }

    mutating func wake(_ number: Int, _ stage: PushCluster) async throws {
      phones.append(try await stage.attached(users[number].user, "phone", wokenFor: calls[number]))
    }
  }

  @inline(never)
  private func killOne(_ stage: PushCluster, holding fault: APNsFault) async throws -> Sleepers {
    var sleepers = Sleepers(alice: try await stage.attached("alice", "a1"))
    for number in 1...5 {
      let token = stage.voipToken()
      try await stage.register("bob\(number)", "phone", voip: token)
      sleepers.users.append(("bob\(number)", token))
    }
    stage.apns.play(APNsScript([.init(fault, tokens: sleepers.tokens)]))
    for (user, _) in sleepers.users {
      sleepers.calls.append(try await sleepers.alice.place(to: user))
    }
    try await eventually("APNs holds a push") { stage.apns.report.unanswered > 0 }
    let taken = #"callmesh_push_jobs_total{lane="apns-production"}"#
    let victim = await stage.metric("p1", taken) > 0 ? "p1" : "p2"
    stage.cluster.kill(victim)
    stage.apns.play(APNsScript())
    return sleepers
  }

  @inline(never)
  private func answerAll(_ stage: PushCluster, _ sleepers: Sleepers) async throws {
    for (index, phone) in sleepers.phones.enumerated() {
      let call = sleepers.calls[index]
      try await phone.answer(call, of: sleepers.alice)
      try await sleepers.alice.hangUp(call, with: phone)
      #expect(phone.invites(call).count == 1)
      // Any gateway may have sent it, any number of times: it is one push.
      let pushes = stage.mail.pushes(to: sleepers.users[index].token.token)
      #expect(Set(pushes.map(\.id)).count == 1)
    }
    #expect(stage.violations == [])
  }

  @Test("A gateway is killed with pushes in hand that no device got: another one sends them")
  func killedBeforeTheProviderHadIt() async throws {
    try await PushCluster.run(gateways: 2) { stage in
      var sleepers = try await killOne(stage, holding: .noAnswer)
      for (number, (user, token)) in sleepers.users.enumerated() {
        try await eventually("\(user) is pushed") { try stage.newsByAPNs(token).invite != nil }
        try await sleepers.wake(number, stage)
      }
      try await answerAll(stage, sleepers)
      let report = try await stage.report(sleepers.calls[0])
      #expect(report.phase == "ended" && report.reason == "hungUp", "\(report)")
    }
  }

  @Test(
    "A gateway is killed with pushes in hand that devices got: a second copy rings nobody twice")
  func killedAfterTheProviderHadIt() async throws {
    try await PushCluster.run(gateways: 2) { stage in
      var sleepers = try await killOne(stage, holding: .deliverWithoutAnswer)
      for number in sleepers.users.indices { try await sleepers.wake(number, stage) }
      let (tokens, users) = (sleepers.tokens, sleepers.users.count)
      try await eventually("all are accepted, and what the dead gateway sent is sent again") {
        stage.apns.report.accepted >= users
          && tokens.contains { stage.mail.pushes(to: $0).count > 1 }
      }
      // The app is told of a second copy as well.
      for (phone, call) in zip(sleepers.phones, sleepers.calls) { phone.device.woken(for: call) }
      try await answerAll(stage, sleepers)
    }
  }
}
