import CallClient
import CallCore
import CallTelemetry
import CallTestKit
import CallWire
import Testing

/// R13: a push token has one owner in the whole cluster.
@Suite("A push token moves", .serialized, .timeLimit(.minutes(3))) struct PushTokenMoveTests {
  private func place(_ alice: TestDevice, _ user: String) async throws -> CallID {
    let call = CallID.random()
    try await alice.device.place(PlaceRequest(call: call, ringTimeoutSeconds: 120), to: user)
    return call
  }

  @Test("R13: another user of a phone registers its tokens while the former one's call rings")
  func movesWhileItRings() async throws {
    try await PushCluster.run(coordinators: 2) { stage in
      let (voip, alert) = (stage.voipToken(), stage.alertToken())
      let alice = try await stage.attached("alice", "a1")
      let phone = try await stage.attached("bob", "phone")
      let laptop = try await stage.attached("bob", "laptop")
      defer { for device in [alice, phone, laptop] { device.stop() } }
      let tokens = RegistrationRequest(voipToken: voip, alertToken: alert)
      try await phone.device.register(tokens)
      let call = try await place(alice, "bob")
      for device in [phone, laptop] { try await device.waitForInvite(call) }

      try await stage.register("carol", "phone", voip: voip, alert: alert)
      try await phone.wait("tokenTaken") {
        if case .notice(let notice) = $0 { notice.kind == .tokenTaken } else { false }
      }
      #expect(phone.stops(call).isEmpty, "a session rings without tokens")
      #expect(try await phone.device.answer(call))
      try await alice.waitForAnswer(call)
      try await laptop.waitForStop(call, .answeredElsewhere)
      try await alice.device.hangUp(call)
      try await phone.waitForStop(call, .hungUp)
      phone.stop()

      try await theFormerIsNotPushed(stage, alice, laptop)
      try await theNewOneIs(stage, alice, voip)
      #expect(try stage.newsByAPNs(voip).allSatisfy { $0.purpose != .ring || isCarols($0) })
      #expect(try stage.newsByAPNs(alert).allSatisfy { isCarols($0) })
      #expect(stage.violations == [])
    }
  }

  private func isCarols(_ news: PushNews) -> Bool {
    switch news {
    case .invite(let invite): invite.callee == "carol"
    case .stop(let stop): stop.callee == "carol"
    case .missed(let notice): notice.callee == "carol"
    }
  }

  /// The next call to the former user, whose phone sleeps: missed.
  @inline(never)
  private func theFormerIsNotPushed(
    _ stage: PushCluster, _ alice: TestDevice, _ laptop: TestDevice
  ) async throws {
    let call = try await place(alice, "bob")
    try await laptop.waitForInvite(call)
    try await alice.device.cancel(call)
    try await laptop.waitForStop(call, .cancelled)
    let report = try await stage.report(call)
    #expect(report.timeline?.contains { $0.what.hasPrefix("push") } == false, "\(report)")
    let user = try await stage.cluster.callctl("user", "demo", "bob", "--json")
    #expect(!user.text.contains("fingerprint"), "\(user.text)")
  }

  @inline(never)
  private func theNewOneIs(
    _ stage: PushCluster, _ alice: TestDevice, _ voip: PushToken
  ) async throws {
    let call = try await place(alice, "carol")
    try await eventually("carol is pushed") { try stage.newsByAPNs(voip).has(.ring, of: call) }
    let phone = try await stage.attached("carol", "phone", wokenFor: call)
    defer { phone.stop() }
    try await phone.waitForInvite(call)
    #expect(try await phone.device.answer(call))
    try await alice.waitForAnswer(call)
    try await alice.device.hangUp(call)
    try await phone.waitForStop(call, .hungUp)
  }

  @Test("R13: a phone that a push made ring has a new user: the end of that call is not told it")
  func movesAfterItsPush() async throws {
    try await PushCluster.run(coordinators: 2) { stage in
      let (voip, alert) = (stage.voipToken(), stage.alertToken())
      let alice = try await stage.attached("alice", "a1")
      let laptop = try await stage.attached("bob", "laptop")
      defer { for device in [alice, laptop] { device.stop() } }
      try await stage.register("bob", "phone", voip: voip, alert: alert)
      let call = try await place(alice, "bob")
      try await laptop.waitForInvite(call)
      try await eventually("bob's phone is pushed") {
        try stage.newsByAPNs(voip).has(.ring, of: call)
      }
      try await stage.register("carol", "phone", voip: voip, alert: alert)
      try await alice.device.cancel(call)
      try await laptop.waitForStop(call, .cancelled)
      #expect(try await stage.pushes(call)["phone"] == ["ring"])
      // Comes behind whatever would have been said of the first.
      try await theNewOneIs(stage, alice, voip)
      #expect(try stage.newsByAPNs(alert).isEmpty)
      #expect(stage.violations == [])
    }
  }

  @Test("R13: ten open tabs register one subscription: a sleeping phone is woken all the same")
  func openTabsDoNotDisplaceASleepingPhone() async throws {
    try await PushCluster.run { stage in
      let (voip, subscription) = (stage.voipToken(), stage.webToken())
      try await stage.register("bob", "phone", voip: voip)
      let alice = try await stage.attached("alice", "a1")
      var tabs: [TestDevice] = []
      defer { for device in tabs + [alice] { device.stop() } }
      for number in 1...10 {
        tabs.append(try await stage.attached("bob", "tab\(number)"))
        try await tabs[number - 1].device.register(RegistrationRequest(alertToken: subscription))
      }
      try await tabs[0].wait("its registration gave way") {
        if case .notice(let notice) = $0 { notice.kind == .deviceRemoved } else { false }
      }
      let call = try await place(alice, "bob")
      for tab in tabs { try await tab.waitForInvite(call) }
      try await eventually("the phone is pushed") {
        try stage.newsByAPNs(voip).has(.ring, of: call)
      }
      let phone = try await stage.attached("bob", "phone", wokenFor: call)
      defer { phone.stop() }
      try await phone.waitForInvite(call)
      #expect(try await phone.device.answer(call))
      try await alice.waitForAnswer(call)
      for tab in tabs { try await tab.waitForStop(call, .answeredElsewhere) }
      try await alice.device.hangUp(call)
      try await phone.waitForStop(call, .hungUp)
      #expect(stage.violations == [])
    }
  }
}
