import CallClient
import CallCore
import CallTelemetry
import CallTestKit
import CallWire
import Testing

/// R13: a push token has one owner in the whole cluster.
@Suite("A push token moves", .serialized, .timeLimit(.minutes(3))) struct PushTokenMoveTests {
  @Test("R13: another user of a phone registers its tokens while the former one's call rings")
  func movesWhileItRings() async throws {
    try await PushCluster.run(coordinators: 2) { stage in
      let (voip, alert) = (stage.voipToken(), stage.alertToken())
      let alice = try await stage.attached("alice", "a1")
      let phone = try await stage.attached("bob", "phone")
      let laptop = try await stage.attached("bob", "laptop")
      let tokens = RegistrationRequest(voipToken: voip, alertToken: alert)
      try await phone.device.register(tokens)
      let call = try await alice.place(to: "bob")
      for device in [phone, laptop] { try await device.waitForInvite(call) }

      try await stage.register("carol", "phone", voip: voip, alert: alert)
      try await phone.waitForNotice(.tokenTaken)
      #expect(phone.stops(call).isEmpty, "a session rings without tokens")
      try await phone.answer(call, of: alice)
      try await laptop.waitForStop(call, .answeredElsewhere)
      try await alice.hangUp(call, with: phone)
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
    let call = try await alice.place(to: "bob")
    try await laptop.waitForInvite(call)
    try await alice.cancel(call, with: laptop)
    let report = try await stage.report(call)
    #expect(report.timeline?.contains { $0.what.hasPrefix("push") } == false, "\(report)")
    let user = try await stage.cluster.told("user", "demo", "bob", "--json")
    #expect(!user.contains("fingerprint"), "\(user)")
  }

  @inline(never)
  private func theNewOneIs(
    _ stage: PushCluster, _ alice: TestDevice, _ voip: PushToken
  ) async throws {
    let call = try await alice.place(to: "carol")
    try await eventually("carol is pushed") { try stage.newsByAPNs(voip).has(.ring, of: call) }
    let phone = try await stage.attached("carol", "phone", wokenFor: call)
    try await phone.answer(call, of: alice)
    try await alice.hangUp(call, with: phone)
    try await eventually("operators see that the provider took it") {
      let user = try await stage.cluster.told("user", "demo", "carol", "--json")
        .filter { !$0.isWhitespace }
      return user.contains(#""environment":"production""#) && user.contains(#""trust":"proven""#)
    }
  }

  @Test("R13: a phone that a push made ring has a new user: the end of that call is not told it")
  func movesAfterItsPush() async throws {
    try await PushCluster.run(coordinators: 2) { stage in
      let (voip, alert) = (stage.voipToken(), stage.alertToken())
      let alice = try await stage.attached("alice", "a1")
      let laptop = try await stage.attached("bob", "laptop")
      try await stage.register("bob", "phone", voip: voip, alert: alert)
      let call = try await alice.place(to: "bob")
      try await laptop.waitForInvite(call)
      try await eventually("bob's phone is pushed") {
        try stage.newsByAPNs(voip).has(.ring, of: call)
      }
      try await stage.register("carol", "phone", voip: voip, alert: alert)
      try await alice.cancel(call, with: laptop)
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
      for number in 1...10 {
        tabs.append(try await stage.attached("bob", "tab\(number)"))
        try await tabs[number - 1].device.register(RegistrationRequest(alertToken: subscription))
      }
      try await tabs[0].waitForNotice(.deviceRemoved)
      let call = try await alice.place(to: "bob")
      for tab in tabs { try await tab.waitForInvite(call) }
      try await eventually("the phone is pushed") {
        try stage.newsByAPNs(voip).has(.ring, of: call)
      }
      let phone = try await stage.attached("bob", "phone", wokenFor: call)
      try await phone.answer(call, of: alice)
      for tab in tabs { try await tab.waitForStop(call, .answeredElsewhere) }
      try await alice.hangUp(call, with: phone)
      #expect(stage.violations == [])
    }
  }
}
