import TestSupport
import Testing

/// Outages of NATS and of all edges, with calls placed at every moment of them. `callload` judges what every device was
/// notified of. A fault excuses lateness and "try again", never a wrong end.
@Suite("Outages", .serialized) struct OutageTests {
  @Test(
    "a call to an attached device is not unreachable, and every attached device rings",
    arguments: Proof.arguments(["kill-all-nats=30s/4s"], andInProof: ["freeze-all-edges=30s/5s"]))
  func attachedDevicesAreReached(chaos: String) async throws {
    try await holds([
      "--rate", "12", "--duration", "14s", "--unregistered", "50%", "--chaos", chaos,
    ])
  }

  @Test(
    "candidates arrive once and in order through a kill of NATS",
    .enabled(if: Proof.isOn, "only make prove runs it"))
  func candidatesKeepTheirOrder() async throws {
    try await holds([
      "--rate", "5", "--duration", "12s", "--signals", "25", "--scenario", "answered", "--chaos",
      "kill-nats=30s/1500ms",
    ])
  }

  private func holds(_ words: [String]) async throws {
    let output = try await TestCluster.runAlone(
      "callload", ["--devices", "150", "--shards", "16", "--seed", "5"] + words)
    output.expectCorrect()
  }
}
