import Foundation
import TestSupport
import Testing

/// `callload --hostile`: real attackers beside a real load on real processes. What is asserted is that the
/// attackers attacked and that the load did not fail; how long anything took is not.
@Suite("Attacks beside the load", .serialized) struct HostileTests {
  static let attacks = [
    "pipelined-http", "ping-flood", "half-frames", "slow-loris", "connection-flood",
    "handshake-flood", "bad-tokens", "session-flood", "place-flood", "ring-flood",
    "huge-descriptions", "candidate-flood", "garbage", "app-flood",
  ]

  @Test(arguments: Proof.arguments(["all"], andInProof: attacks))
  func theLoadDoesNotFail(beside attack: String) async throws {
    let run = try await HostileTestRun.shared.value
    let row = try #require(run.rows[attack] as? [String: Any], "\(run.text)")
    let played = try #require(row["attacks"] as? [String: [String: Any]])
    #expect(Set(played.keys) == (attack == "all" ? Set(Self.attacks) : [attack]))
    for (name, account) in played {
      // One that the cluster did not let in, or not in time, attacked as well.
      let acts = ["attempts", "connections", "connections_failed"].compactMap {
        account[$0] as? Int
      }
      #expect(acts.reduce(0, +) > 0, "\(name) did nothing: \(account)")
    }
    let memory = try #require(row["memory_bytes"] as? [String: Int])
    for role in ["edge", "coordinator", "nats"] { #expect(memory[role] ?? 0 > 0) }
    #expect(row["calls"] as? Int ?? 0 > 0)
    let causes = try #require(row["failures_by_cause"] as? [String: Int])
    #expect(causes.keys.allSatisfy(Self.isOfSlownessAlone), "\(causes)")
  }

  /// How fast calls are beside an attack is measured, not tested: on a machine that is too small for the attackers
  /// and the cluster, calls last so long that no pair of users is free.
  private static func isOfSlownessAlone(_ cause: String) -> Bool {
    ["no free pair of users", "calls not completed", "rule broken: timeout late"].contains(cause)
  }

  @Test func theQuietRunIsReportedLikeTheOthers() async throws {
    let run = try await HostileTestRun.shared.value
    let row = try #require(run.rows["quiet"] as? [String: Any], "\(run.text)")
    #expect(row["failures"] as? Int == 0, "\(row)")
    let latency = try #require(row["latency_us"] as? [String: [String: Int]])
    #expect(latency["ring"]?["p50"] ?? 0 > 0)
    #expect(latency["ring"]?["p99"] ?? 0 > 0)
  }
}

/// One run of all attacks, for all tests of them.
private struct HostileTestRun: @unchecked Sendable {
  let text: String
  /// The values that JSONSerialization made, which no code changes.
  let rows: [String: Any]

  static let shared = Task {
    let path = NSTemporaryDirectory() + "/callmesh-hostile-\(UUID().uuidString).json"
    defer { try? FileManager.default.removeItem(atPath: path) }
    let output = try await TestCluster.runAlone(
      "callload",
      [
        "--devices", "60", "--rate", "5", "--scenario", "answered", "--shards", "16", "--duration",
        "3s", "--recovery", "1s", "--hostile", Proof.isOn ? "each,all" : "all", "--json", path,
      ])
    let json = try Data(contentsOf: URL(fileURLWithPath: path))
    let report = try JSONSerialization.jsonObject(with: json) as? [String: Any]
    return HostileTestRun(text: output.text, rows: report?["hostile"] as? [String: Any] ?? [:])
  }
}
