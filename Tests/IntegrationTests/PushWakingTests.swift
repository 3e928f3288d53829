import CallClient
import CallCore
import CallTelemetry
import CallTestKit
import CallWire
import PushSimulators
import Testing

/// Devices that sleep are woken through real gateways, and what gateways do when one of them dies.
@Suite("Waking by push", .serialized, .timeLimit(.minutes(3))) struct PushWakingTests {
  // MARK: FCM and Web Push

  private struct Bob {
    var desk: TestDevice
    var phone: PushToken
    var tablet: PushToken
  }

  /// Awake at the desk; a phone and a tablet by FCM, a browser and a kiosk by Web Push.
  private func register(_ stage: PushCluster) async throws -> Bob {
    let bob = Bob(
      desk: try await stage.attached("bob", "desk"), phone: stage.fcmToken(),
      tablet: stage.fcmToken())
    try await bob.desk.device.register(RegistrationRequest())
    try await stage.register("bob", "phone", alert: bob.phone)
    try await stage.register("bob", "tablet", alert: bob.tablet)
    try await stage.register("bob", "browser", alert: stage.webToken())
    try await stage.register("bob", "kiosk", alert: stage.webToken(), capabilities: [])
    return bob
  }

  @Test("FCM and Web Push: pushed, woken, rung, answered; the others hear it as they can")
  func wokenByFCMAndWebPush() async throws {
    try await PushCluster.run { stage in
      let bob = try await register(stage)
      let alice = try await stage.attached("alice", "a1")
      let call = CallID.random()
      try await alice.device.place(PlaceRequest(call: call, ringTimeoutSeconds: 120), to: "bob")
      try await bob.desk.waitForInvite(call)
      try await allArePushed(stage, bob, call)

      let phone = try await stage.attached("bob", "phone", wokenFor: call)
      let browser = try await stage.attached("bob", "browser", wokenFor: call)
      defer { for device in [alice, bob.desk, phone, browser] { device.stop() } }
      for device in [phone, browser] {
        try await device.waitForInvite(call)
        try await device.device.alerting(call)
      }
      #expect(try await phone.device.answer(call))
      try await alice.waitForAnswer(call)
      for device in [bob.desk, browser] {
        try await device.waitForStop(call, .answeredElsewhere)
        #expect(device.stops(call).map(\.by?.device.text) == ["phone"])
      }
      try await theOthersHear(stage, bob, call)
      try await alice.device.hangUp(call)
      try await phone.waitForStop(call, .hungUp)
      #expect(stage.violations == [])
    }
  }

  @inline(never)
  private func allArePushed(_ stage: PushCluster, _ bob: Bob, _ call: CallID) async throws {
    let (phone, tablet) = (bob.phone, bob.tablet)
    try await eventually("FCM has both pushes, and the browsers theirs") {
      try stage.newsByFCM(phone).has(.ring, of: call)
        && stage.newsByFCM(tablet).has(.ring, of: call)
        && stage.newsByWebPush(0).has(.ring, of: call)
        && stage.newsByWebPush(1).has(.ring, of: call)
    }
    for news in [try stage.newsByFCM(bob.phone), try stage.newsByWebPush(0)] {
      let invite = try #require(news.invite)
      #expect(invite.callee == "bob")
      #expect(invite.caller?.user == "alice")
      let (sent, deadline) = (try #require(invite.sentAt), try #require(invite.deadline))
      #expect(sent < deadline)
      // The capability of the push is good for a look at the call.
      let actions = stage.http.actions(
        callee: "bob", call: call, capability: try #require(invite.capability))
      #expect([.placed, .ringing].contains(try await actions.state().phase))
    }
    #expect(stage.fcm.accepted.allSatisfy { (1...120).contains($0.ttlSeconds) })
    #expect(stage.web.accepted.allSatisfy { $0.urgency == "high" })
  }

  /// The tablet and the kiosk sleep on. The one takes a push that says that it is over, the other
  /// asked for none; nor do those that attached need one.
  @inline(never)
  private func theOthersHear(_ stage: PushCluster, _ bob: Bob, _ call: CallID) async throws {
    let tablet = bob.tablet
    try await eventually("the tablet is told") {
      try stage.newsByFCM(tablet).has(.ended, of: call)
    }
    let told = try stage.newsByFCM(bob.tablet).compactMap { news -> PushStop? in
      if case .stop(let stop) = news { stop } else { nil }
    }
    #expect(told.allSatisfy { $0.reason == .answeredElsewhere && $0.by?.device.text == "phone" })
    // Decided together with the tablet's.
    let pushes = try await stage.pushes(call)
    #expect(
      pushes == [
        "desk": [], "phone": ["ring"], "browser": ["ring"], "kiosk": ["ring"],
        "tablet": ["ring", "ended"],
      ])
    #expect(try stage.newsByFCM(bob.phone).purposes == [.ring])
    #expect(try stage.newsByWebPush(0).purposes == [.ring])
    #expect(try stage.newsByWebPush(1).purposes == [.ring])
  }

  // MARK: A gateway dies

  /// Five users with a phone that sleeps, and a call to each.
  private struct Sleepers {
    var alice: TestDevice
    var users: [(user: String, token: PushToken, call: CallID)] = []
    var tokens: Set<String> { Set(users.map(\.token.token)) }
  }

  private func sleepers(_ stage: PushCluster) async throws -> Sleepers {
    var sleepers = Sleepers(alice: try await stage.attached("alice", "a1"))
    for number in 1...5 {
      let token = stage.voipToken()
      try await stage.register("bob\(number)", "phone", voip: token)
      sleepers.users.append(("bob\(number)", token, CallID.random()))
    }
    return sleepers
  }

  private func place(_ sleepers: Sleepers) async throws {
    for (user, _, call) in sleepers.users {
      try await sleepers.alice.device.place(
        PlaceRequest(call: call, ringTimeoutSeconds: 120), to: user)
    }
  }

  /// Kills the gateway that has a push with APNs, and perhaps further ones behind it; from then on APNs
  /// answers.
  @inline(never)
  private func killOne(_ stage: PushCluster) async throws {
    try await eventually("APNs holds a push") { stage.apns.report.unanswered > 0 }
    let taken = #"callmesh_push_jobs_total{lane="apns-production"}"#
    let victim = await stage.metric("p1", taken) > 0 ? "p1" : "p2"
    stage.cluster.kill(victim)
    stage.apns.play(APNsScript())
  }

  @inline(never)
  private func answerAll(_ stage: PushCluster, _ sleepers: Sleepers, _ phones: [TestDevice])
    async throws
  {
    for (sleeper, phone) in zip(sleepers.users, phones) {
      try await phone.waitForInvite(sleeper.call)
      #expect(try await phone.device.answer(sleeper.call))
      try await sleepers.alice.waitForAnswer(sleeper.call)
      try await sleepers.alice.device.hangUp(sleeper.call)
      try await phone.waitForStop(sleeper.call, .hungUp)
      #expect(phone.invites(sleeper.call) == 1)
      // Any gateway may have sent it, any number of times: it is one push.
      #expect(Set(stage.mail.pushes(to: sleeper.token.token).map(\.id)).count == 1)
    }
    #expect(stage.violations == [])
  }

  @Test("A gateway is killed with pushes in hand that no device got: another one sends them")
  func killedBeforeTheProviderHadIt() async throws {
    try await PushCluster.run(gateways: 2) { stage in
      let sleepers = try await sleepers(stage)
      stage.apns.play(APNsScript([.init(.noAnswer, tokens: sleepers.tokens)]))
      try await place(sleepers)
      try await killOne(stage)
      var phones: [TestDevice] = []
      for (user, token, call) in sleepers.users {
        try await eventually("\(user) is pushed") { try stage.newsByAPNs(token).invite != nil }
        phones.append(try await stage.attached(user, "phone", wokenFor: call))
      }
      defer { for device in phones + [sleepers.alice] { device.stop() } }
      try await answerAll(stage, sleepers, phones)
      let report = try await stage.report(sleepers.users[0].call)
      #expect(report.phase == "ended" && report.reason == "hungUp", "\(report)")
    }
  }

  @Test(
    "A gateway is killed with pushes in hand that devices got: a second copy rings nobody twice")
  func killedAfterTheProviderHadIt() async throws {
    try await PushCluster.run(gateways: 2) { stage in
      let sleepers = try await sleepers(stage)
      stage.apns.play(APNsScript([.init(.deliverWithoutAnswer, tokens: sleepers.tokens)]))
      try await place(sleepers)
      try await killOne(stage)
      var phones: [TestDevice] = []
      for (user, _, call) in sleepers.users {
        phones.append(try await stage.attached(user, "phone", wokenFor: call))
      }
      defer { for device in phones + [sleepers.alice] { device.stop() } }
      try await eventually("all are accepted, and what the dead gateway sent is sent again") {
        stage.apns.report.accepted >= sleepers.users.count
          && sleepers.tokens.contains { stage.mail.pushes(to: $0).count > 1 }
      }
      // The app is told of a second copy as well.
      for (phone, sleeper) in zip(phones, sleepers.users) { phone.device.woken(for: sleeper.call) }
      try await answerAll(stage, sleepers, phones)
    }
  }

  @Test("A gateway is killed with a push in hand, and its call ends: nobody is woken for it")
  func killedAndOvertaken() async throws {
    try await PushCluster.run { stage in
      let token = stage.voipToken()
      let alice = try await stage.attached("alice", "a1")
      defer { alice.stop() }
      try await stage.register("bob", "phone", voip: token, capabilities: [])
      stage.apns.play(APNsScript([.init(.noAnswer, tokens: [token.token])]))
      let call = CallID.random()
      try await alice.device.place(PlaceRequest(call: call, ringTimeoutSeconds: 120), to: "bob")
      try await eventually("APNs holds the push") { stage.apns.report.unanswered > 0 }
      stage.cluster.kill("p1")
      try await alice.device.cancel(call)
      try await alice.waitForStop(call, .cancelled)
      stage.apns.play(APNsScript())
      // The queue hands its job to whoever serves next.
      try stage.startGateway("p2")
      try await eventually("the other gateway drops it") {
        await stage.metric("p2", #"callmesh_push_events_total{event="overtaken"}"#) > 0
      }
      #expect(stage.mail.pushes(to: token.token).isEmpty)
      #expect(stage.violations == [])
    }
  }
}
