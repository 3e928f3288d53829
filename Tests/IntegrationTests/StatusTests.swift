import Testing

/// The message of `callctl status` to a script is its exit status.
@Suite(.serialized) struct StatusTests {
  @Test func aClusterThatLacksARoleIsDegraded() async throws {
    let cluster = try await TestCluster.start(coordinators: 1, edges: 1)
    defer { cluster.stop() }
    try await waitUntilHealthy(cluster)
    _ = try await cluster.told("users")

    cluster.kill("e1")
    let withoutEdge = try await cluster.callctl("status", "--once")
    #expect(withoutEdge.status == 1, "\(withoutEdge.text)")
    #expect(withoutEdge.text.contains("No edge serves"), "\(withoutEdge.text)")
    try cluster.startEdge("e1")
    try await cluster.waitUntilReady("e1")
    try await waitUntilHealthy(cluster)

    cluster.kill("c1")
    let withoutCoordinator = try await cluster.callctl("status", "--json", "--once")
    #expect(withoutCoordinator.status == 1, "\(withoutCoordinator.text)")
    #expect(withoutCoordinator.text.contains(#""healthy" : false"#))
    #expect(withoutCoordinator.text.contains("No coordinator answers"))
    #expect(withoutCoordinator.text.contains(#""served" : 0"#), "no shard has an owner")
  }

  private func waitUntilHealthy(_ cluster: TestCluster) async throws {
    let deadline = ContinuousClock.now + .seconds(60)
    var last = ""
    while ContinuousClock.now < deadline {
      let output = try await cluster.callctl("status", "--once")
      if output.status == 0 { return }
      last = output.text
    }
    throw TestCluster.Failure(description: "the cluster is not healthy: \(last)")
  }
}
