import CallClient
import CallCore
import CallWire
import Foundation
import Testing

/// The statements of docs/operations.md on metrics and on topics that no gateway serves, on real processes.
@Suite("Metrics and what operators are told", .serialized, .timeLimit(.minutes(5)))
struct MetricsTests {
  private func metrics(_ stage: PushCluster, _ node: String) async throws -> String {
    try await stage.cluster.ask(node, "/metrics").body
  }

  /// The names in a page that stand for one metric. `…` and `*` stand for several.
  private func documented() throws -> Set<String> {
    let page = try String(
      contentsOfFile: DocumentBlock.repository + "/docs/operations.md", encoding: .utf8)
    let names = page.matches(of: /(?:callmesh|process)_[a-z_]*[a-z](?![a-z_*])/).map {
      String($0.output)
    }
    // A name with `_bucket` is that of a histogram's series.
    return Set(names.map { $0.replacing(/_bucket$/, with: "") })
  }

  @Test("every metric that the docs name is there on nodes that have just begun")
  func documentedMetricsExist() async throws {
    try await PushCluster.run { stage in
      var there: Set<String> = []
      for node in ["c1", "e1", "p1"] {
        let text = try await metrics(stage, node)
        for line in text.split(separator: "\n") {
          if line.hasPrefix("# TYPE ") { there.insert(String(line.split(separator: " ")[2])) }
        }
        for name in ["callmesh_build_info{version=\"", "process_start_time_seconds "] {
          #expect(text.contains("\n" + name), "\(name) of \(node)")
        }
      }
      let named = try documented()
      #expect(named.count > 30 && named.contains("callmesh_ring_seconds"))
      // Those of hooks and webhooks are there once an app has one; `HookTests` reads the former.
      let missing = named.subtracting(there).filter {
        !$0.hasPrefix("callmesh_hook_") && !$0.hasPrefix("callmesh_webhook_")
      }
      #expect(missing.sorted() == [])
      let calls = try await metrics(stage, "c1")
      for reason in EndReason.allCases {
        #expect(calls.contains("\ncallmesh_calls_ended_total{reason=\"\(reason.name)\"} 0\n"))
      }
      for state in ["placed", "ringing", "answered"] {
        #expect(calls.contains("\ncallmesh_calls_live{state=\"\(state)\"} 0\n"))
      }
      for line in calls.split(separator: "\n") where !line.hasPrefix("#") {
        #expect(Double(line.split(separator: " ").last ?? "") != nil, "\(line)")
      }
    }
  }

  @Test("topics and lanes that no gateway serves are warned of, and shown by callctl status")
  func unserved() async throws {
    try await PushCluster.run(options: ["--log-level", "trace"]) { stage in
      var (topic, lane) = (stage.voipToken(), stage.voipToken())
      topic.topic = "org.example.other"
      lane.environment = "sandbox"
      try await stage.register("bob", "phone", voip: topic)
      try await stage.register("carol", "phone", voip: lane)
      let ann = try await stage.attached("ann", "a1")
      let call = try await ann.place(to: "bob")
      try await ann.waitForStop(call, .unreachable)
      let lines = stage.cluster.log("p1").split(separator: "\n")
      #expect(
        lines.count { $0.contains("No gateway has a sender") && $0.contains("org.example.other") }
          == 1)
      for node in ["c1", "e1", "p1"] {
        #expect(stage.cluster.log(node).contains(call.description), "\(node)")
        #expect(!stage.cluster.log(node).contains(topic.token), "\(node)")
      }

      _ = try await ann.place(to: "carol")
      try await eventually("the job is seen") {
        await stage.metric("c1", #"callmesh_push_queue_depth{lane="apns-sandbox"}"#) > 0
      }
      let status = try await stage.cluster.callctl("status", "--once")
      #expect(status.status == 1)
      for words in [
        "no gateway has an entry for the apns topic org.example.other",
        "in apns-sandbox, which no gateway serves",
      ] {
        #expect(status.text.contains(words), "\(status.text)")
      }
    }
  }
}
