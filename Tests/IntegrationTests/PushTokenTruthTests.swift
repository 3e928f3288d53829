import CallClient
import CallCore
import CallTelemetry
import CallTestKit
import CallWire
import Testing

/// A registration goes only for what is true of its token.
@Suite("What is true of a push token", .serialized, .timeLimit(.minutes(3)))
struct PushTokenTruthTests {
  private func place(_ alice: TestDevice, _ user: String) async throws -> CallID {
    let call = CallID.random()
    try await alice.device.place(PlaceRequest(call: call, ringTimeoutSeconds: 120), to: user)
    return call
  }

  private func tokens(_ stage: PushCluster, _ user: String) async throws -> String {
    try await stage.cluster.callctl("user", "demo", user, "--json").text.filter { !$0.isWhitespace }
  }

  @Test("a token without an environment that the sandbox knows: it rings, and that is kept")
  func environmentIsFound() async throws {
    try await PushCluster.run(hasSandbox: true) { stage in
      var token = PushToken(
        provider: .apns, environment: "", topic: PushCluster.bundle,
        token: PushCluster.randomHex())
      stage.sandbox.register(token.token, topic: PushCluster.bundle + ".voip")
      let alice = try await stage.attached("alice", "a1")
      defer { alice.stop() }
      try await stage.register("bob", "phone", voip: token)
      for number in 1...2 {
        let call = try await place(alice, "bob")
        try await eventually("the phone is pushed") {
          try stage.newsByAPNs(token).has(.ring, of: call)
        }
        try await eventually("its environment is kept") {
          try await tokens(stage, "bob").contains(#""environment":"sandbox""#)
        }
        try await alice.device.cancel(call)
        try await alice.waitForStop(call, .cancelled)
        #expect(stage.apns.report.responses["400 BadDeviceToken"] == 1, "call \(number)")
      }
      // The same token, as another environment's: what was found is kept.
      token.environment = "production"
      try await stage.register("bob", "phone", voip: token)
      #expect(try await tokens(stage, "bob").contains(#""environment":"sandbox""#))
    }
  }

  @Test("ten tokens that APNs had accepted, and a moment in which it knows none of them")
  func aMomentOfBadDeviceToken() async throws {
    try await PushCluster.run { stage in
      // One device may have five live calls.
      let callers = [
        try await stage.attached("alice", "a1"), try await stage.attached("alan", "a1"),
      ]
      defer { for caller in callers { caller.stop() } }
      let users = (0..<10).map { "user\($0)" }
      var tokens: [PushToken] = []
      for user in users {
        tokens.append(stage.voipToken())
        try await stage.register(user, "phone", voip: tokens.last)
      }
      func callAll(_ what: String) async throws {
        var calls: [CallID] = []
        for (index, user) in users.enumerated() {
          calls.append(try await place(callers[index % 2], user))
        }
        for (index, call) in calls.enumerated() {
          try await eventually("\(users[index]) is pushed \(what)") {
            try stage.newsByAPNs(tokens[index]).has(.ring, of: call)
          }
          try await callers[index % 2].device.cancel(call)
          try await callers[index % 2].waitForStop(call, .cancelled)
        }
      }
      try await callAll("before")
      for user in users {
        try await eventually("the registration of \(user) has it") {
          try await self.tokens(stage, user).contains(#""trust":"proven""#)
        }
      }
      stage.apns.play(APNsScript([.init(.answer(.badDeviceToken), times: 15)]))
      try await callAll("in that moment")
      stage.apns.play(APNsScript())
      try await callAll("afterwards")
      #expect(await stage.metric("p1", "callmesh_push_tokens_doubted_total") >= 15)
      #expect(stage.apns.report.responses["400 BadDeviceToken"] == 15)
      #expect(stage.apns.report.goodTokensRefused == 15)
    }
  }
}
