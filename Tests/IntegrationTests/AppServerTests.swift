import CallAuth
import CallClient
import CallCore
import CallProcesses
import CallWire
import Foundation
import Testing

/// An app's server through HTTP, on real processes, whose coordinators die.
@Suite(.timeLimit(.minutes(4)), .serialized)
struct AppServerTests {
  private struct Answer {
    var status: Int32
    var body: [UInt8]
  }

  /// Asks an edge as the app's server, and again while the cluster asks for that.
  private func ask(
    _ cluster: TestCluster, _ method: String, _ path: String, body: String = ""
  ) async throws -> Answer {
    let now = Int64(Date().timeIntervalSince1970)
    let token = try cluster.keys.mintServerToken(app: "demo", lifetimeSeconds: 600, now: now)
    let deadline = ContinuousClock.now + .seconds(60)
    while true {
      let answer = await HTTPProbe.send(
        method, "127.0.0.1", cluster.port("e1"), path,
        headers: ["Authorization: Bearer \(token)"], body: body, seconds: 30)
      // 503: a shard has no owner just now.
      guard answer.status == 503 || answer.status == 0, ContinuousClock.now < deadline else {
        return Answer(status: answer.status, body: Array(answer.body.utf8))
      }
      try await Task.sleep(for: .milliseconds(100))
    }
  }

  private func restartCoordinators(_ cluster: TestCluster) throws {
    for name in ["c1", "c2"] { cluster.kill(name) }
    for name in ["c1", "c2"] { try cluster.startCoordinator(name) }
  }

  /// Its members ring in turn, whoever owns the group's shard meanwhile.
  @Test func aGroupRingsInTurnWhileItsCoordinatorsDie() async throws {
    let cluster = try await TestCluster.start()
    defer { cluster.stop() }
    let alice = try await TestDevice(cluster, user: "alice", "phone", edges: ["e1"])
    let bob = try await TestDevice(cluster, user: "bob", "phone", edges: ["e1"])
    let carol = try await TestDevice(cluster, user: "carol", "phone", edges: ["e2"])
    let all = [alice, bob, carol]
    defer { for device in all { device.stop() } }
    for device in all { try await device.device.register(RegistrationRequest()) }
    let path = "/v1/app/groups/front%20desk"
    #expect(try await ask(cluster, "GET", path).status == 404)
    let body = #"{"users":["bob","carol"],"order":"inTurn","turnSeconds":5}"#
    let made = try await ask(cluster, "PUT", path, body: body)
    let group = CallGroup(users: ["bob", "carol"], order: .inTurn, turnSeconds: 5)
    #expect(made.status == 200 && HTTPBodies.readCallGroup(made.body) == group)

    let call = CallID.random()
    try await alice.device.place(PlaceRequest(call: call), to: "front desk")
    try await bob.waitForInvite(call)
    try restartCoordinators(cluster)
    try await bob.waitForStop(call, .unanswered)
    #expect(bob.stops(call).map(\.missed) == [false])
    try await carol.waitForInvite(call)
    #expect(try await carol.device.answer(call))
    try await alice.waitForAnswer(call)
    try restartCoordinators(cluster)
    #expect(HTTPBodies.readCallGroup(try await ask(cluster, "GET", path).body) == group)
    #expect(try await ask(cluster, "DELETE", path).status == 200)
    #expect(try await ask(cluster, "GET", path).status == 404)
  }

  @Test func aCallIsEndedAfterItsCoordinatorsDied() async throws {
    let cluster = try await TestCluster.start()
    defer { cluster.stop() }
    let alice = try await TestDevice(cluster, user: "alice", "a1", edges: ["e1"])
    let bob = try await TestDevice(cluster, user: "bob", "b1", edges: ["e2"])
    defer { for device in [alice, bob] { device.stop() } }
    let call = CallID.random()
    try await alice.device.place(PlaceRequest(call: call), to: "bob")
    try await bob.waitForInvite(call)
    #expect(try await bob.device.answer(call))
    try await alice.waitForAnswer(call)
    try restartCoordinators(cluster)

    for user in ["alice", "bob"] {
      let listed = try await ask(cluster, "GET", "/v1/app/users/\(user)/calls")
      let calls = HTTPBodies.readAppCalls(listed.body)?.calls ?? []
      #expect(listed.status == 200 && calls.map(\.state.call) == [call], "\(user)")
      #expect(calls.first?.answeredBy?.device == "b1" && calls.first?.caller.user == "alice")
    }
    let path = "/v1/app/calls/bob/\(call)"
    for _ in 0..<2 {
      let ended = try await ask(cluster, "POST", path + "/end")
      let answer = HTTPBodies.readAppCall(ended.body)
      #expect(ended.status == 200 && answer?.state.reason == .hungUp)
      #expect(answer?.endedByApp == true)
    }
    try await alice.waitForStop(call, .hungUp)
    try await bob.waitForStop(call, .hungUp)
    let found = try await ask(cluster, "GET", path)
    #expect(HTTPBodies.readAppCall(found.body)?.state.phase == .ended)
    let unknown = try await ask(cluster, "POST", "/v1/app/calls/bob/\(CallID.random())/end")
    #expect(unknown.status == 404)
    #expect(HTTPBodies.readError(unknown.body)?.code == .unknownCall)
  }

  @Test func rulesOutliveAllCoordinators() async throws {
    let cluster = try await TestCluster.start()
    defer { cluster.stop() }
    let alice = try await TestDevice(cluster, user: "alice", "a1", edges: ["e1"])
    defer { alice.stop() }
    let put = try await ask(
      cluster, "PUT", "/v1/app/users/bob/rules", body: #"{"always":{"users":["carol"]}}"#)
    let kept = HTTPBodies.readUserRules(put.body)
    #expect(put.status == 200 && kept?.always?.users == ["carol"])
    let own = try await alice.device.setRules(UserRules(firstDevices: ["a1"], firstSeconds: 5))
    try restartCoordinators(cluster)

    let found = try await ask(cluster, "GET", "/v1/app/users/bob/rules")
    #expect(found.status == 200 && HTTPBodies.readUserRules(found.body) == kept)
    #expect(try await retrying { try await alice.device.rules() } == own)
    let removed = try await ask(cluster, "DELETE", "/v1/app/users/bob/rules")
    #expect(HTTPBodies.readUserRules(removed.body) == UserRules())
    try restartCoordinators(cluster)
    let gone = try await ask(cluster, "GET", "/v1/app/users/bob/rules")
    #expect(HTTPBodies.readUserRules(gone.body) == UserRules())
  }

  /// Times in seconds, and a first stage that is longer than the call rings.
  @Test func rulesAsAppsGetThemWrong() async throws {
    let cluster = try await TestCluster.start(coordinators: 1)
    defer { cluster.stop() }
    let path = "/v1/app/users/bob/rules"
    let now = Int64(Date().timeIntervalSince1970)
    for until in [now + 3600, (now - 3600) * 1000] {
      let body = #"{"doNotDisturb":{"untilMs":\#(until)}}"#
      let refused = try await ask(cluster, "PUT", path, body: body)
      #expect(refused.status == 400)
      #expect(HTTPBodies.readError(refused.body)?.code == .invalidRules)
    }
    let staged = #"{"firstDevices":["b1"],"firstSeconds":60}"#
    #expect(try await ask(cluster, "PUT", path, body: staged).status == 200)

    let alice = try await TestDevice(cluster, user: "alice", "a1")
    let first = try await TestDevice(cluster, user: "bob", "b1")
    let other = try await TestDevice(cluster, user: "bob", "b2")
    defer { for device in [alice, first, other] { device.stop() } }
    let call = CallID.random()
    try await alice.device.place(PlaceRequest(call: call, ringTimeoutSeconds: 10), to: "bob")
    try await first.waitForInvite(call)
    try await other.waitForInvite(call)
    #expect(try await other.device.answer(call))
    try await first.waitForStop(call, .answeredElsewhere)
  }

  /// The caller stays attached while the name changes and every coordinator dies.
  @Test func namesReachAttachedSessionsAndOutliveAllCoordinators() async throws {
    let cluster = try await TestCluster.start()
    defer { cluster.stop() }
    let alice = try await TestDevice(cluster, user: "alice", "a1", edges: ["e1"])
    let bob = try await TestDevice(cluster, user: "bob", "b1", edges: ["e2"])
    defer { for device in [alice, bob] { device.stop() } }
    let path = "/v1/app/users/alice/name"
    /// Alice calls until bob sees the name, five times at most. The notice to her session leaves with the answer to her
    /// app's server, and may arrive a moment later.
    func isSeen(_ name: String) async throws -> Bool {
      for attempt in 0..<5 {
        if attempt > 0 { try await Task.sleep(for: .milliseconds(200)) }
        let call = CallID.random()
        try await alice.device.place(PlaceRequest(call: call), to: "bob")
        try await bob.waitForInvite(call)
        try await alice.device.cancel(call)
        if bob.callerName(of: call) == name { return true }
      }
      return false
    }
    #expect(try await isSeen(""))
    let put = try await ask(cluster, "PUT", path, body: #"{"name":"Alice\u202e Lee"}"#)
    #expect(put.status == 200 && HTTPBodies.readDisplayName(put.body) == "Alice Lee")
    #expect(try await isSeen("Alice Lee"))
    try restartCoordinators(cluster)
    #expect(HTTPBodies.readDisplayName(try await ask(cluster, "GET", path).body) == "Alice Lee")
    #expect(try await isSeen("Alice Lee"))
    let user = try await ask(cluster, "GET", "/v1/app/users/alice")
    #expect(HTTPBodies.readAppUser(user.body)?.name == "Alice Lee")

    // A session that begins has it at once.
    let tablet = try await TestDevice(cluster, user: "alice", "a2", edges: ["e2"])
    defer { tablet.stop() }
    let call = CallID.random()
    try await tablet.device.place(PlaceRequest(call: call), to: "bob")
    try await bob.waitForInvite(call)
    #expect(bob.callerName(of: call) == "Alice Lee")

    #expect(try await ask(cluster, "DELETE", path).status == 200)
    #expect(try await isSeen(""))
  }

  @Test func aRemovedDeviceIsToldAndGone() async throws {
    let cluster = try await TestCluster.start(coordinators: 1)
    defer { cluster.stop() }
    let bob = try await TestDevice(cluster, user: "bob", "b1", edges: ["e1"])
    defer { bob.stop() }
    try await bob.device.register(RegistrationRequest(deviceName: "Bob's phone"))
    let user = try await ask(cluster, "GET", "/v1/app/users/bob")
    let device = HTTPBodies.readAppUser(user.body)?.devices.first
    #expect(device?.device == "b1" && device?.name == "Bob's phone")
    #expect(device?.attachedAt != nil && device?.registeredAt != nil)
    let removed = try await ask(cluster, "DELETE", "/v1/app/users/bob/devices/b1")
    #expect(removed.status == 200)
    try await bob.wait("the notice of its removal") {
      if case .notice(let notice) = $0 { notice.kind == .deviceRemoved } else { false }
    }
  }

  /// A token that `callctl` mints is good, and a user's token is not.
  @Test func callctlMintsServerTokens() async throws {
    let cluster = try await TestCluster.start(coordinators: 1)
    defer { cluster.stop() }
    let keys = cluster.folder + "/keys.json"
    let minted = try await TestCluster.runAlone(
      "callctl",
      ["token", "--app", "demo", "--server", "--lifetime", "1m", "--keys-file", keys])
    #expect(minted.status == 0)
    let server = minted.text.trimmingCharacters(in: .whitespacesAndNewlines)
    let user = try await TestDevice.token(cluster.keys, user: "bob", "b1")
    for (token, status) in [(server, 200), (user, 403)] as [(String, Int32)] {
      let answer = await HTTPProbe.send(
        "GET", "127.0.0.1", cluster.port("e1"), "/v1/app/users/bob",
        headers: ["Authorization: Bearer \(token)"])
      #expect(answer.status == status, "\(answer.body)")
    }
    let both = try await TestCluster.runAlone(
      "callctl", ["token", "--app", "demo", "--server", "--user", "bob", "--keys-file", keys])
    #expect(both.status != 0)
  }
}

extension TestDevice {
  /// The caller's name in the call's first invite; nil: there was none.
  fileprivate func callerName(of call: CallID) -> String? {
    for case .call(call, .invited(let invite)) in heard { return invite.caller.name }
    return nil
  }
}
