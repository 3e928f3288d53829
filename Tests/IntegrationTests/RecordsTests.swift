import CallClient
import CallCore
import Foundation
import Testing

/// Records of calls in a cluster of real processes: they outlive their coordinators, and answer when nobody else
/// remembers the call.
@Suite(.timeLimit(.minutes(4)), .serialized)
struct RecordsTests {
  private struct Line: Decodable {
    var call: String
    var phase: String
    var reason: String?
  }

  private func lines(_ cluster: TestCluster, _ arguments: String...) async throws -> [Line] {
    let output = try await cluster.callctl(["calls", "--json", "--limit", "1000"] + arguments)
    #expect(output.status == 0, "\(output.text)")
    return try output.text.split(separator: "\n").map {
      try JSONDecoder().decode(Line.self, from: Data($0.utf8))
    }
  }

  @Test func aRecordOfEachCallWhateverDies() async throws {
    let cluster = try await TestCluster.start(
      coordinators: 2, edges: 1, options: ["--ended-call-kept", "1s"])
    defer { cluster.stop() }
    let alice = try await TestDevice(cluster, user: "alice", "a1", edges: ["e1"])
    let bob = try await TestDevice(cluster, user: "bob", "b1", edges: ["e1"])
    defer { for device in [alice, bob] { device.stop() } }
    let answered = CallID.random()
    try await alice.device.place(PlaceRequest(call: answered), to: "bob")
    try await bob.waitForInvite(answered)
    #expect(try await lines(cluster, "--live").map(\.call) == ["\(answered)"])
    #expect(try await bob.device.answer(answered))
    try await alice.waitForAnswer(answered)
    try await alice.device.hangUp(answered)
    let others = (0..<20).map { _ in CallID.random() }
    for (number, call) in others.enumerated() {
      try await alice.device.place(PlaceRequest(call: call), to: "nobody-\(number)")
      try await alice.waitForStop(call, .unreachable)
    }
    // Some of the records are not stored yet: whoever takes over stores them.
    for name in ["c1", "c2"] { cluster.kill(name) }
    for name in ["c1", "c2"] { try cluster.startCoordinator(name) }
    try await cluster.waitForLog("c1", "Shard serves.")
    try await cluster.waitForLog("c2", "Shard serves.")

    let all = Set(([answered] + others).map(\.description))
    try await eventually("every call has a record") {
      Set(try await lines(cluster, "--ended").map(\.call)) == all
    }
    let found = try await lines(cluster, "--ended")
    #expect(found.count == all.count, "each once")
    #expect(found.first { $0.call == "\(answered)" }?.reason == "hungUp")
    #expect(try await lines(cluster, "--reason", "unreachable").count == others.count)
    #expect(try await lines(cluster, "--user", "bob").map(\.call) == ["\(answered)"])
    #expect(try await lines(cluster, "--since", "1h", "--app", "demo").count == all.count)
    #expect(try await lines(cluster, "--since", "2100-01-01").isEmpty)
    #expect(try await lines(cluster, "--live").isEmpty)
    let csv = try await cluster.callctl("calls", "--csv", "--ended")
    #expect(csv.text.split(separator: "\r\n").count == 1 + all.count)

    // The shard forgets the call, and its record goes on answering.
    var text = ""
    try await eventually("the record answers") {
      let output = try await cluster.callctl("call", "\(answered)")
      #expect(output.status == 0, "\(output.text)")
      text = output.text
      return text.contains("its record, written when it had ended")
    }
    #expect(text.contains("ended, hungUp by alice"), "\(text)")
    #expect(text.contains("b1"), "\(text)")
    let unknown = try await cluster.callctl("call", "\(CallID.random())")
    #expect(unknown.status == 1)
  }

  @Test func aClusterWithoutRecords() async throws {
    // A file serves all roles; edges do not take a coordinator's flag.
    let file = NSTemporaryDirectory() + "/callmesh-records-\(UUID().uuidString).json"
    try Data("{\"callRecordsKept\": \"0s\"}".utf8).write(to: URL(fileURLWithPath: file))
    let cluster = try await TestCluster.start(
      coordinators: 1, edges: 1, options: ["--config", file])
    defer {
      cluster.stop()
      try? FileManager.default.removeItem(atPath: file)
    }
    let alice = try await TestDevice(cluster, user: "alice", "a1", edges: ["e1"])
    defer { alice.stop() }
    let call = CallID.random()
    try await alice.device.place(PlaceRequest(call: call), to: "nobody")
    try await alice.waitForStop(call, .unreachable)
    // What the shards remember.
    #expect(try await lines(cluster).map(\.call) == ["\(call)"])
    #expect(try await lines(cluster, "--ended").map(\.reason) == ["unreachable"])
    #expect(try await cluster.callctl("calls", "--follow").status == 1)
    #expect(try await cluster.callctl("call", "\(call)").status == 0)
  }
}
