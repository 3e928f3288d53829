import CallTelemetry
import Testing
import callctl

@Suite struct KickViewTests {
  private func node(_ name: String, role: String = "edge", clock: Int64? = nil) -> NodeStatus {
    var status = NodeStatus(node: name, role: role, state: "serving", version: "1", shardCount: 8)
    if role == "edge" { status.edge = EdgeStatus() }
    status.edge?.clockSeconds = clock
    return status
  }

  private let request = KickRequest(app: "demo", user: "ann")

  @Test func whoDidNotAnswerIsNamed() {
    let view = KickView(
      request, [KickAnswer(node: "e1", sessions: 1)],
      known: [node("e2"), node("e1"), node("c1", role: "coordinator")])
    #expect(view.sessionsEnded == 1 && view.edges == ["e1"] && view.silentEdges == ["e2"])
    #expect(
      view.text == """
        1 session of ann ended on 1 edge.
        Not answered: e2. Run it again, or restart what does not answer.

        """)
  }

  @Test func aRevocationSaysWhatHolds() {
    var request = request
    request.revokedAtSeconds = 5
    let view = KickView(request, [], known: [node("e1")])
    #expect(
      view.text == """
        No token of ann counts any more that was issued until now.
        0 sessions of ann ended on 0 edges.
        Not answered: e1. They end the sessions as soon as they hear of it.

        """)
  }

  /// Tokens are judged by the edges' clocks, not by the operator's.
  @Test func theTimeIsThatOfTheEdges() {
    let nodes = [node("e1", clock: 100), node("e2", clock: 102), node("e3")]
    #expect(KickView.now(nodes, own: 500) == 102)
    #expect(KickView.now([node("e3")], own: 500) == 500)
    #expect(KickView.now([], own: 500) == 500)
  }
}
