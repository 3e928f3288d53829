import Testing

/// Devices without a session on a cluster of real processes, woken by what a push gateway sends to a
/// strict APNs. `callload` judges pushes and calls. Each run prints its seed.
@Suite("Sleeping devices", .serialized) struct SleepingTests {
  /// Also by a provider that answers one push in five with an error, knows some tokens in its other environment, and for
  /// a while does not know tokens that it has accepted.
  @Test func theyAreWokenRingAndSleepAgain() async throws {
    let output = try await TestCluster.runAlone(
      "callload",
      [
        "--devices", "200", "--rate", "5", "--duration", "10s", "--shards", "16", "--sleeping",
        "40%", "--provider-trouble",
      ])
    output.expectCorrect()
    // A run without pushes would have nothing that could be wrong.
    #expect(output.text.contains("woken device rang for an ended call"))
    #expect(output.text.firstMatch(of: /push at the provider +[1-9]/) != nil)
    #expect(output.text.firstMatch(of: /good tokens refused +[1-9]/) != nil)
  }
}
