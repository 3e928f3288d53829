import CallClient
import CallCore
import CallTestKit
import CallWire
import PushSimulators
import Testing

/// R14: a provider that answers no request delays only its own pushes.
@Suite("A dead provider", .serialized, .timeLimit(.minutes(4))) struct PushIsolationTests {
  private static let users = 60
  /// A caller may have five calls at a time.
  private static let callsPerCaller = 5
  private static let shortCalls = 30

  private struct Pair: Sendable {
    var caller: TestDevice
    var user: String
    var call = CallID.random()
    var socket: TestDevice
    var fcm: PushToken

    func ring() async throws {
      let state = try await caller.device.place(
        PlaceRequest(call: call, ringTimeoutSeconds: 120), to: user)
      #expect(state.phase == .placed || state.phase == .ringing)
      try await socket.waitForInvite(call)
    }

    func answer() async throws {
      try await socket.answer(call, of: caller)
      try await caller.hangUp(call, with: socket)
    }
  }

  /// Each callee has a phone by APNs, one by FCM, and a laptop that is attached.
  private func pairs(_ stage: PushCluster) async throws -> [Pair] {
    var pairs: [Pair] = []
    for number in 0..<Self.users {
      let user = "bob\(number)"
      let caller =
        number.isMultiple(of: Self.callsPerCaller)
        ? try await stage.attached("alice\(number)", "a1") : pairs[number - 1].caller
      let pair = Pair(
        caller: caller, user: user, socket: try await stage.attached(user, "laptop"),
        fcm: stage.fcmToken())
      try await stage.register(user, "iphone", voip: stage.voipToken())
      try await stage.register(user, "android", alert: pair.fcm)
      pairs.append(pair)
    }
    return pairs
  }

  private func atOnce(_ count: Int, _ body: @escaping @Sendable (Int) async throws -> Void)
    async throws
  {
    try await withThrowingTaskGroup(of: Void.self) { group in
      for number in 0..<count { group.addTask { try await body(number) } }
      try await group.waitForAll()
    }
  }

  @Test("R14: APNs is dead, its pool full; sockets ring, FCM is pushed, and the rest is counted")
  func deadProvider() async throws {
    let dead = APNsScript(connections: [(1...Int.max, .blackHole)])
    try await PushCluster.run(
      script: dead, gatewayOptions: ["--push-in-flight", "8", "--push-waiting", "8"]
    ) { stage in
      let pairs = try await pairs(stage)
      try await atOnce(pairs.count) { try await pairs[$0].ring() }
      try await eventually("FCM has all its pushes") {
        let pushed = Set(stage.fcm.accepted.map(\.token))
        return pairs.allSatisfy { pushed.contains($0.fcm.token) }
      }
      try await eventually("there are more jobs for APNs than its pool takes") {
        let depth = await stage.metric("p1", #"callmesh_push_queue_depth{lane="apns-production"}"#)
        let turned = await stage.metric("p1", #"callmesh_push_events_total{event="turnedAway"}"#)
        return depth > 16 && turned > 0
      }
      try await atOnce(pairs.count) { try await pairs[$0].answer() }
      try await shortCalls(stage, pairs)
      try await isSeen(stage)
      #expect(stage.apns.report.accepted == 0)
      #expect(stage.fcm.violations == [])
    }
  }

  /// Calls to users who have a phone by APNs and nothing else: they end, and their pushes go nowhere.
  @inline(never)
  private func shortCalls(_ stage: PushCluster, _ pairs: [Pair]) async throws {
    for number in 0..<Self.shortCalls {
      try await stage.register("carol\(number)", "iphone", voip: stage.voipToken())
    }
    try await atOnce(Self.shortCalls) { number in
      let (caller, call) = (pairs[number].caller, CallID.random())
      try await caller.device.place(
        PlaceRequest(call: call, ringTimeoutSeconds: 5), to: "carol\(number)")
      // Unanswered; or unreachable, once the gateway has given the push up.
      try await caller.wait("the end") {
        if case .call(call, .stopped) = $0 { true } else { false }
      }
    }
  }

  /// An operator sees which provider it is.
  @inline(never)
  private func isSeen(_ stage: PushCluster) async throws {
    try await eventually("late jobs are dropped and counted") {
      await stage.metric("p1", #"callmesh_push_events_total{event="late"}"#) > 0
    }
    try await eventually("the status shows pushes that failed, and whose they are") {
      let status = try await stage.cluster.callctl("status", "--once").text
      let pools = status.split(separator: "\n").filter { $0.contains(" p1 ") }
      guard let phones = pools.first(where: { $0.hasPrefix("phones ") }),
        let androids = pools.first(where: { $0.hasPrefix("androids ") })
      else { return false }
      // POOL GATEWAY LANE, IN FLIGHT WAIT CONNECTED, ACCEPTED GONE REJECTED FAILED EXPIRED
      let (dead, alive) = (phones.split(separator: " "), androids.split(separator: " "))
      #expect(dead[6] == "0", "accepted: \(phones)")
      #expect(Int(alive[6]) ?? 0 >= Self.users, "accepted: \(androids)")
      return (Int(dead[9]) ?? 0) + (Int(dead[10]) ?? 0) > 0
    }
  }
}
