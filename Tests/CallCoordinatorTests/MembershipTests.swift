import CallCoordinator
import CallCore
import CallWire
import Testing

@Suite struct MembershipTests {
  static let timeout = Span.seconds(3)
  func at(_ milliseconds: Int64) -> Timestamp { Timestamp(microseconds: milliseconds * 1000) }

  func heartbeat(
    _ node: String, _ incarnation: UInt64, _ state: NodeState = .serving,
    role: NodeRole = .coordinator
  ) -> Heartbeat {
    Heartbeat(
      node: node, role: role, incarnation: incarnation, state: state, version: "1",
      shardCount: 8)
  }

  func edge(_ node: String, _ number: UInt64, _ state: NodeState = .serving) -> Heartbeat {
    heartbeat(node, number, state, role: .edge)
  }

  /// Time passes in steps, as it does where heartbeats are sent.
  func pass(
    _ membership: inout Membership, from: Int64, to: Int64,
    _ beat: (Int64) -> Heartbeat? = { _ in nil }
  ) -> [Membership.Event] {
    var events: [Membership.Event] = []
    for time in stride(from: from, through: to, by: 500) {
      if let heartbeat = beat(time) { events += membership.heard(heartbeat, now: at(time)) }
      events += membership.tick(now: at(time))
    }
    return events
  }

  @Test func aSilentCoordinatorIsDeadAfterTheTimeout() {
    var membership = Membership(timeout: Self.timeout, now: at(0))
    #expect(membership.heard(heartbeat("a", 1), now: at(0)) == [.coordinatorsChanged])
    #expect(pass(&membership, from: 500, to: 2500) == [])
    #expect(membership.isLiving(owner: "a", incarnation: 1, now: at(2500)))
    #expect(pass(&membership, from: 3000, to: 3000) == [.coordinatorsChanged])
    #expect(!membership.isLiving(owner: "a", incarnation: 1, now: at(3000)))
    #expect(membership.coordinators.isEmpty)
  }

  @Test func whatEveryCoordinatorReads() {
    var membership = Membership(timeout: Self.timeout, now: at(0))
    #expect(membership.allRead(2), "this node reads it")
    var former = heartbeat("a", 1)
    former.reads = 1
    _ = membership.heard(former, now: at(0))
    _ = membership.heard(heartbeat("b", 2), now: at(0))
    #expect(membership.allRead(1))
    #expect(!membership.allRead(2))
    var gateway = heartbeat("p", 3, role: .push)
    gateway.reads = 1
    _ = membership.heard(gateway, now: at(0))
    // Upgraded: a new incarnation under the same name.
    _ = membership.heard(heartbeat("a", 4), now: at(500))
    #expect(membership.allRead(2), "nobody but coordinators reads the journal")
  }

  @Test func oneThatSpeaksLives() {
    var membership = Membership(timeout: Self.timeout, now: at(0))
    let events = pass(&membership, from: 0, to: 20_000) { _ in heartbeat("a", 1) }
    #expect(events == [.coordinatorsChanged])
  }

  @Test func leavingAndGoneCountAtOnce() {
    var membership = Membership(timeout: Self.timeout, now: at(0))
    _ = membership.heard(heartbeat("a", 1), now: at(0))
    #expect(membership.heard(heartbeat("a", 1, .leaving), now: at(1)) == [.coordinatorsChanged])
    #expect(membership.coordinators["a"]?.state == .leaving)
    #expect(membership.heard(heartbeat("a", 1, .gone), now: at(2)) == [.coordinatorsChanged])
    #expect(membership.coordinators["a"] == nil)
    // A late word of an earlier incarnation takes nobody away.
    _ = membership.heard(heartbeat("a", 2), now: at(3))
    #expect(membership.heard(heartbeat("a", 1, .gone), now: at(4)) == [])
    #expect(membership.coordinators["a"]?.incarnation == 2)
  }

  @Test func anotherIncarnationIsAnotherNode() {
    var membership = Membership(timeout: Self.timeout, now: at(0))
    _ = membership.heard(heartbeat("a", 1), now: at(0))
    #expect(membership.heard(heartbeat("a", 2), now: at(100)) == [.coordinatorsChanged])
    #expect(!membership.isLiving(owner: "a", incarnation: 1, now: at(100)))
    #expect(membership.isLiving(owner: "a", incarnation: 2, now: at(100)))
  }

  @Test func anOwnerThatWasNeverHeardCountsAsLivingAtFirst() {
    let membership = Membership(timeout: Self.timeout, now: at(0))
    #expect(membership.isLiving(owner: "x", incarnation: 9, now: at(2999)))
    #expect(!membership.isLiving(owner: "x", incarnation: 9, now: at(3000)))
  }

  @Test func anEdgeThatFallsSilentIsLostAndOneThatSpeaksAgainReturns() {
    var membership = Membership(timeout: Self.timeout, now: at(0))
    #expect(membership.heard(edge("e", 7), now: at(0)) == [.edgeJoined(7)])
    #expect(pass(&membership, from: 500, to: 3000) == [.edgeLost(7)])
    #expect(membership.livingEdges == [])
    #expect(membership.heard(edge("e", 7), now: at(3100)) == [.edgeReturned(7)])
    #expect(membership.livingEdges == [7])
  }

  @Test func anEdgeThatStartsAnewLosesItsFormerSessionsAtOnce() {
    var membership = Membership(timeout: Self.timeout, now: at(0))
    _ = membership.heard(edge("e", 7), now: at(0))
    #expect(
      membership.heard(edge("e", 8, .starting), now: at(10)) == [.edgeJoined(8), .edgeLost(7)])
    #expect(membership.livingEdges == [8])
  }

  @Test func twoLivingEdgesOfOneNameDoNotTakeTurns() {
    var membership = Membership(timeout: Self.timeout, now: at(0))
    _ = membership.heard(edge("e", 7), now: at(0))
    _ = membership.heard(edge("e", 8), now: at(10))
    #expect(
      membership.heard(edge("e", 7), now: at(20)) == [.edgeReturned(7), .edgeNameShared("e")])
    #expect(membership.heard(edge("e", 8), now: at(30)) == [])
    #expect(membership.heard(edge("e", 7), now: at(40)) == [])
    #expect(membership.livingEdges == [7, 8])
  }

  @Test func anEdgeOfWhichOnlyCommandsWereHeardIsMissedToo() {
    var membership = Membership(timeout: Self.timeout, now: at(0))
    #expect(membership.heardFromEdge(7, now: at(0)) == [.edgeJoined(7)])
    #expect(membership.heardFromEdge(7, now: at(500)) == [])
    #expect(pass(&membership, from: 500, to: 3500) == [.edgeLost(7)])
  }

  @Test func aGoneEdgeIsLostOnce() {
    var membership = Membership(timeout: Self.timeout, now: at(0))
    _ = membership.heard(edge("e", 7), now: at(0))
    #expect(membership.heard(edge("e", 7, .gone), now: at(10)) == [.edgeLost(7)])
    #expect(membership.heard(edge("e", 7, .gone), now: at(20)) == [])
  }

  @Test func afterAPauseOfThisProcessNobodyIsDeclaredDead() {
    var membership = Membership(timeout: Self.timeout, now: at(0))
    _ = membership.heard(heartbeat("a", 1), now: at(0))
    _ = membership.heard(edge("e", 7), now: at(0))
    #expect(membership.tick(now: at(60_000)) == [])
    #expect(membership.isLiving(owner: "a", incarnation: 1, now: at(60_000)))
    #expect(
      Set(pass(&membership, from: 60_500, to: 63_000).map { "\($0)" })
        == ["coordinatorsChanged", "edgeLost(7)"])
  }
}
