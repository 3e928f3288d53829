import CallAuth
import CallClient
import CallCore
import CallTestKit
import Foundation
import Synchronization
import Testing

/// Webhooks in a cluster of real processes: whatever fails and dies, an app learns of each call, in order, signed.
@Suite(.timeLimit(.minutes(10)), .serialized)
struct WebhookTests {
  private static let secretBytes = [UInt8](repeating: 7, count: 32)

  private struct Body: Decodable {
    struct Details: Decodable {
      /// Of an event of a call.
      var call: String?
      /// Of one of a device.
      var user: String?
      var device: String?
      var provider: String?
      var token: String?
    }
    var type: String
    var id: String
    var app: String
    var data: Details
  }

  /// The app's server: fails while it is told to, and keeps what it has taken.
  private final class Receiver: Sendable {
    private struct State {
      var isAway = false
      var bodies: [Body] = []
      var failed = 0
      var unsigned = 0
    }
    private let state = Mutex(State())
    private let endpoint = SignedEndpoint(url: "", secrets: [secretBytes])

    func take(_ request: SimulatedRequest) -> SimulatedReply {
      let body = try? JSONDecoder().decode(Body.self, from: Data(request.body))
      let id = request.header("webhook-id") ?? ""
      let seconds = Int64(request.header("webhook-timestamp") ?? "") ?? 0
      let signature = endpoint.signature(id: id, seconds: seconds, body: request.body)
      return state.withLock { state in
        guard let body, body.id == id, request.header("webhook-signature") == signature else {
          state.unsigned += 1
          return .answer(status: 403)
        }
        if state.isAway {
          state.failed += 1
          return .answer(status: 503)
        }
        state.bodies.append(body)
        return .answer(status: 204)
      }
    }

    func goAway(_ isAway: Bool) { state.withLock { $0.isAway = isAway } }
    var failed: Int { state.withLock { $0.failed } }
    var unsigned: Int { state.withLock { $0.unsigned } }

    /// The events of a call, each as it first came.
    func events(_ call: CallID) -> [String] {
      let all = state.withLock { $0.bodies }
      var found: [String] = []
      for body in all where body.data.call == "\(call)" && !found.contains(body.type) {
        found.append(body.type)
      }
      return found
    }
    func calls() -> Set<String> { Set(state.withLock { $0.bodies.compactMap(\.data.call) }) }

    /// The tokens that are gone, each once.
    func gone() -> Set<[String?]> {
      let all = state.withLock { $0.bodies.filter { $0.type == "device.gone" } }
      return Set(all.map { [$0.data.user, $0.data.device, $0.data.provider, $0.data.token] })
    }
  }

  private func add(_ url: String, to cluster: TestCluster) throws {
    let path = cluster.folder + "/keys.json"
    let object = try JSONSerialization.jsonObject(with: Data(contentsOf: URL(filePath: path)))
    var apps = try #require((object as? [String: Any])?["apps"] as? [[String: Any]])
    let secret = Data(Self.secretBytes).base64EncodedString()
    apps[0]["webhooks"] = [["url": url, "secrets": ["whsec_" + secret]]]
    try JSONSerialization.data(withJSONObject: ["apps": apps]).write(
      to: URL(filePath: path), options: .atomic)
  }

  @Test func anAppLearnsOfEachCallWhateverFails() async throws {
    let receiver = Receiver()
    let server = try await SimulatedHTTPServer.start(authority: nil) { receiver.take($0) }
    let cluster = try await TestCluster.start(coordinators: 2, edges: 0, waits: false)
    defer { cluster.stop() }
    try add("\(server.origin)/events", to: cluster)
    // Two processes with all roles: each is an edge, a coordinator and a gateway.
    for name in ["n1", "n2"] { try cluster.startEdge(name, role: "all") }
    for name in ["n1", "n2"] { try await cluster.waitUntilReady(name) }
    let alice = try await TestDevice(cluster, user: "alice", "a1", edges: ["n1"])
    let bob = try await TestDevice(cluster, user: "bob", "b1", edges: ["n1"])
    defer { for device in [alice, bob] { device.stop() } }

    let answered = CallID.random()
    try await alice.device.place(PlaceRequest(call: answered), to: "bob")
    try await bob.waitForInvite(answered)
    #expect(try await bob.device.answer(answered))
    try await alice.waitForAnswer(answered)
    try await alice.device.hangUp(answered)
    try await eventually("the answered call") {
      receiver.events(answered) == ["call.placed", "call.answered", "call.ended"]
    }

    receiver.goAway(true)
    let others = (0..<20).map { _ in CallID.random() }
    // Together: the longer the app's server is away, the longer is the pause before it is tried again.
    for (number, call) in others.enumerated() {
      try await alice.device.place(PlaceRequest(call: call), to: "nobody-\(number)")
    }
    for call in others { try await alice.waitForStop(call, .unreachable) }
    try await eventually("an attempt that fails") { receiver.failed > 0 }
    // Whichever gateway delivers, it dies; the other one goes on with what is open.
    cluster.kill("n2")
    receiver.goAway(false)
    try cluster.startEdge("n2", role: "all")
    func found() -> String {
      others.map { "\($0): \(receiver.events($0))" }.joined(separator: "; ")
    }
    // A dead gateway's jobs are handed out again after 30 s, and the app's server is tried again ever more seldom.
    try await eventually("each call is told in order", seconds: 240, found: found) {
      others.allSatisfy {
        receiver.events($0) == ["call.placed", "call.ended", "call.missed"]
      }
    }
    #expect(receiver.calls() == Set(([answered] + others).map(\.description)), "none invented")
    #expect(receiver.unsigned == 0)

    let output = try await cluster.callctl("webhooks", "--json")
    #expect(output.status == 0, "\(output.text)")
    #expect(output.text.contains("\"app\" : \"demo\""), "\(output.text)")
    #expect(output.text.contains("\"host\" : \"localhost\""), "\(output.text)")
    let letters = try await cluster.callctl("webhooks", "--app", "demo", "--dead-letters")
    #expect(letters.status == 0 && letters.text.contains("No event was given up."))
    await server.stop()
  }

  @Test func anAppLearnsThatATokenIsGone() async throws {
    let receiver = Receiver()
    let server = try await SimulatedHTTPServer.start(authority: nil) { receiver.take($0) }
    try await PushCluster.run { stage in
      try add("\(server.origin)/events", to: stage.cluster)
      try stage.startGateway("p2", ["--keys-file", stage.cluster.folder + "/keys.json"])
      try await stage.waitUntilServing("p2")
      let alice = try await stage.attached("alice", "a1")
      defer { alice.stop() }
      var number = 0
      try await eventually("the edge reads the file") {
        let call = CallID.random()
        number += 1
        try await alice.device.place(PlaceRequest(call: call), to: "nobody-\(number)")
        try await Task.sleep(for: .milliseconds(500))
        return !receiver.events(call).isEmpty
      }
      let token = stage.voipToken()
      try await stage.register("bob", "phone", voip: token)
      let inAnHour = Int64(Date().timeIntervalSince1970 * 1e6) + 3_600_000_000
      stage.apns.unregister(token.token, at: Timestamp(microseconds: inAnHour))
      let call = CallID.random()
      try await alice.device.place(PlaceRequest(call: call), to: "bob")
      try await alice.waitForStop(call, .unreachable)
      try await eventually("the app learns it") {
        receiver.gone() == [["bob", "phone", "apns", "voip"]]
      }
      #expect(receiver.unsigned == 0)
    }
    await server.stop()
  }
}
