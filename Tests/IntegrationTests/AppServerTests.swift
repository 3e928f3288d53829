import CallClient
import CallCore
import CallProcesses
import CallWire
import Foundation
import Testing

/// An app's server through HTTP, on real processes, whose coordinators die.
@Suite(.timeLimit(.minutes(4)), .serialized)
struct AppServerTests {
  @Test func aCallIsEndedAfterItsCoordinatorsDied() async throws {
    let cluster = try await TestCluster.start()
    defer { cluster.stop() }
    let alice = try await cluster.device("alice", "a1", edges: ["e1"])
    let bob = try await cluster.device("bob", "b1", edges: ["e2"])
    let call = try await alice.place(to: "bob")
    try await bob.answer(call, of: alice)
    try cluster.restartCoordinators()

    for user in ["alice", "bob"] {
      let listed = try await cluster.asServer("GET", "/v1/app/users/\(user)/calls")
      let calls = HTTPBodies.readAppCalls(listed.body)?.calls ?? []
      #expect(listed.status == 200 && calls.map(\.state.call) == [call], "\(user)")
      #expect(calls.first?.answeredBy?.device == "b1" && calls.first?.caller.user == "alice")
    }
    let path = "/v1/app/calls/bob/\(call)"
    for _ in 0..<2 {
      let ended = try await cluster.asServer("POST", path + "/end")
      let answer = HTTPBodies.readAppCall(ended.body)
      #expect(ended.status == 200 && answer?.state.reason == .hungUp)
      #expect(answer?.endedByApp == true)
    }
    for device in [alice, bob] { try await device.waitForStop(call, .hungUp) }
    let found = try await cluster.asServer("GET", path)
    #expect(HTTPBodies.readAppCall(found.body)?.state.phase == .ended)
    let unknown = try await cluster.asServer("POST", "/v1/app/calls/bob/\(CallID.random())/end")
    #expect(unknown.status == 404)
    #expect(HTTPBodies.readError(unknown.body)?.code == .unknownCall)
  }

  /// The caller stays attached while the name changes and every coordinator dies.
  @Test func namesReachAttachedSessionsAndOutliveAllCoordinators() async throws {
    let cluster = try await TestCluster.start()
    defer { cluster.stop() }
    let alice = try await cluster.device("alice", "a1", edges: ["e1"])
    let bob = try await cluster.device("bob", "b1", edges: ["e2"])
    let path = "/v1/app/users/alice/name"
    /// Alice calls until bob sees the name, five times at most. The notice to her session leaves with the answer to her
    /// app's server, and may arrive a moment later.
    func isSeen(_ name: String) async throws -> Bool {
      for attempt in 0..<5 {
        if attempt > 0 { try await Task.sleep(for: .milliseconds(200)) }
        let call = try await alice.place(to: "bob")
        try await bob.waitForInvite(call)
        try await alice.device.cancel(call)
        if bob.invites(call).first?.caller.name == name { return true }
      }
      return false
    }
    #expect(try await isSeen(""))
    let put = try await cluster.asServer("PUT", path, body: #"{"name":"Alice\u202e Lee"}"#)
    #expect(put.status == 200 && HTTPBodies.readDisplayName(put.body) == "Alice Lee")
    #expect(try await isSeen("Alice Lee"))
    try cluster.restartCoordinators()
    #expect(HTTPBodies.readDisplayName(try await cluster.asServer("GET", path).body) == "Alice Lee")
    #expect(try await isSeen("Alice Lee"))
    let user = try await cluster.asServer("GET", "/v1/app/users/alice")
    #expect(HTTPBodies.readAppUser(user.body)?.name == "Alice Lee")

    // A session that begins has it at once.
    let tablet = try await cluster.device("alice", "a2", edges: ["e2"])
    let call = try await tablet.place(to: "bob")
    try await bob.waitForInvite(call)
    #expect(bob.invites(call).first?.caller.name == "Alice Lee")

    #expect(try await cluster.asServer("DELETE", path).status == 200)
    #expect(try await isSeen(""))
  }
}
