import CallTelemetry
import Testing
import callctl

@Suite struct DrainViewTests {
  private func refusal(_ statuses: [NodeStatus], _ node: String, force: Bool = false)
    -> DrainView.Refusal?
  {
    DrainView.refusal(statuses, node: node, force: force)
  }

  @Test func aNodeWithoutSuccessorIsNotDrained() {
    #expect(refusal(Sample.healthy, "c1") == nil)
    #expect(refusal(Sample.healthy, "e1") == .last(what: "edge"))
    #expect(refusal(Sample.healthy, "e1", force: true) == nil)
    var one = Sample.healthy
    one[1].state = "leaving"
    #expect(refusal(one, "c1") == .last(what: "coordinator"))
    #expect(refusal(one, "c2") == nil, "it leaves already")
  }

  @Test func unknownAndAmbiguousNames() {
    #expect(refusal(Sample.healthy, "e9") == .unknownNode(known: ["c1", "c2", "e1"]))
    let twins = Sample.healthy + [Sample.edge("e1", process: 99)]
    #expect(refusal(twins, "e1", force: true) == .ambiguous(2))
    var both = [Sample.coordinator("n", shards: [0], process: 7), Sample.edge("n", process: 7)]
    #expect(refusal(both, "n", force: true) == nil, "one process with both roles")
    both.append(Sample.edge("e2"))
    #expect(refusal(both, "n") == .last(what: "coordinator"))
  }

  @Test func whatIsLeft() {
    var edge = Sample.edge("e1")
    edge.state = "draining"
    var view = DrainView([edge], node: "e1")
    #expect(view.state == "draining")
    #expect(!view.isDrained)
    #expect(view.left == "2 sessions")
    edge.state = "drained"
    view = DrainView([edge], node: "e1")
    #expect(view.isDrained)
    var coordinator = Sample.coordinator("c1", shards: [3])
    coordinator.state = "leaving"
    view = DrainView([coordinator], node: "c1")
    #expect(view.state == "draining")
    #expect(view.left == "1 shard")
    coordinator.coordinator?.shards = [Sample.shard(3, state: "stopped")]
    #expect(DrainView([coordinator], node: "c1").isDrained, "what it cannot read it cannot give")
    #expect(DrainView([], node: "c1").state == "ended")
  }

  @Test func ofTwoRolesTheOneThatIsLessFarCounts() {
    var edge = Sample.edge("n")
    edge.state = "drained"
    var coordinator = Sample.coordinator("n", shards: [1, 2])
    coordinator.state = "leaving"
    #expect(DrainView([edge, coordinator], node: "n").state == "draining")
  }
}
