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
      if let heartbeat = beat(time) { events += membership.received(heartbeat, now: at(time)) }
      events += membership.receivedOwnHeartbeat(now: at(time))
    }
    return events
  }

  @Test func aSilentCoordinatorIsDeadAfterTheTimeout() {
    var membership = Membership(timeout: Self.timeout, now: at(0))
    #expect(membership.received(heartbeat("a", 1), now: at(0)) == [.coordinatorsChanged])
    #expect(pass(&membership, from: 500, to: 2500) == [])
    #expect(membership.isLiving(owner: "a", incarnation: 1))
    #expect(pass(&membership, from: 3000, to: 3000) == [.coordinatorsChanged])
    #expect(!membership.isLiving(owner: "a", incarnation: 1))
    #expect(membership.coordinators.isEmpty)
  }

  @Test func whatEveryCoordinatorReads() {
    var membership = Membership(timeout: Self.timeout, now: at(0))
    #expect(membership.formatOfAll == ClusterCodec.format, "this node's own")
    var former = heartbeat("a", 1)
    former.reads = 1
    _ = membership.received(former, now: at(0))
    _ = membership.received(heartbeat("b", 2), now: at(0))
    #expect(membership.formatOfAll == 1)
    var gateway = heartbeat("p", 3, role: .push)
    gateway.reads = 1
    _ = membership.received(gateway, now: at(0))
    // Upgraded: a new incarnation under the same name.
    _ = membership.received(heartbeat("a", 4), now: at(500))
    #expect(
      membership.formatOfAll == ClusterCodec.format, "nobody but coordinators reads the journal")
  }

  @Test func oneThatSpeaksLives() {
    var membership = Membership(timeout: Self.timeout, now: at(0))
    let events = pass(&membership, from: 0, to: 20_000) { _ in heartbeat("a", 1) }
    #expect(events == [.coordinatorsChanged])
  }

  @Test func leavingAndGoneCountAtOnce() {
    var membership = Membership(timeout: Self.timeout, now: at(0))
    _ = membership.received(heartbeat("a", 1), now: at(0))
    #expect(membership.received(heartbeat("a", 1, .leaving), now: at(1)) == [.coordinatorsChanged])
    #expect(membership.coordinators["a"]?.state == .leaving)
    #expect(membership.received(heartbeat("a", 1, .gone), now: at(2)) == [.coordinatorsChanged])
    #expect(membership.coordinators["a"] == nil)
    // A late word of an earlier incarnation takes nobody away.
    _ = membership.received(heartbeat("a", 2), now: at(3))
    #expect(membership.received(heartbeat("a", 1, .gone), now: at(4)) == [])
    #expect(membership.coordinators["a"]?.incarnation == 2)
  }

  @Test func anotherIncarnationIsAnotherNode() {
    var membership = Membership(timeout: Self.timeout, now: at(0))
    _ = membership.received(heartbeat("a", 1), now: at(0))
    #expect(membership.received(heartbeat("a", 2), now: at(100)) == [.coordinatorsChanged])
    #expect(!membership.isLiving(owner: "a", incarnation: 1))
    #expect(membership.isLiving(owner: "a", incarnation: 2))
  }

  @Test func anOwnerThatWasNeverHeardCountsAsLivingAtFirst() {
    var membership = Membership(timeout: Self.timeout, now: at(0))
    _ = pass(&membership, from: 500, to: 2500)
    #expect(membership.isLiving(owner: "x", incarnation: 9))
    _ = pass(&membership, from: 3000, to: 3000)
    #expect(!membership.isLiving(owner: "x", incarnation: 9))
  }

  @Test func anEdgeThatFallsSilentIsLostAndOneThatSpeaksAgainReturns() {
    var membership = Membership(timeout: Self.timeout, now: at(0))
    #expect(membership.received(edge("e", 7), now: at(0)) == [.edgeJoined(7)])
    #expect(pass(&membership, from: 500, to: 3000) == [.edgeLost(7, .silent)])
    #expect(membership.livingEdges == [])
    #expect(membership.received(edge("e", 7), now: at(3100)) == [.edgeReturned(7)])
    #expect(membership.livingEdges == [7])
  }

  @Test func anEdgeThatStartsAnewLosesItsFormerSessionsAtOnce() {
    var membership = Membership(timeout: Self.timeout, now: at(0))
    _ = membership.received(edge("e", 7), now: at(0))
    #expect(
      membership.received(edge("e", 8, .starting), now: at(10)) == [
        .edgeJoined(8), .edgeLost(7, .gone),
      ])
    #expect(membership.livingEdges == [8])
  }

  @Test func twoLivingEdgesOfOneNameDoNotTakeTurns() {
    var membership = Membership(timeout: Self.timeout, now: at(0))
    _ = membership.received(edge("e", 7), now: at(0))
    _ = membership.received(edge("e", 8), now: at(10))
    #expect(
      membership.received(edge("e", 7), now: at(20)) == [.edgeReturned(7), .edgeNameShared("e")])
    #expect(membership.received(edge("e", 8), now: at(30)) == [])
    #expect(membership.received(edge("e", 7), now: at(40)) == [])
    #expect(membership.livingEdges == [7, 8])
  }

  @Test func anEdgeOfWhichOnlyCommandsWereHeardIsMissedToo() {
    var membership = Membership(timeout: Self.timeout, now: at(0))
    #expect(membership.edgeSeen(7, now: at(0)) == [.edgeJoined(7)])
    #expect(membership.edgeSeen(7, now: at(500)) == [])
    #expect(pass(&membership, from: 500, to: 3500) == [.edgeLost(7, .silent)])
  }

  @Test func aGoneEdgeIsLostOnce() {
    var membership = Membership(timeout: Self.timeout, now: at(0))
    _ = membership.received(edge("e", 7), now: at(0))
    #expect(membership.received(edge("e", 7, .gone), now: at(10)) == [.edgeLost(7, .gone)])
    #expect(membership.received(edge("e", 7, .gone), now: at(20)) == [])
  }

  @Test func afterAPauseOfThisProcessNobodyIsDeclaredDead() {
    var membership = Membership(timeout: Self.timeout, now: at(0))
    _ = membership.received(heartbeat("a", 1), now: at(0))
    _ = membership.received(edge("e", 7), now: at(0))
    #expect(membership.receivedOwnHeartbeat(now: at(60_000)) == [])
    #expect(membership.isLiving(owner: "a", incarnation: 1))
    #expect(
      pass(&membership, from: 60_500, to: 63_000)
        == [.coordinatorsChanged, .edgeLost(7, .silent)])
  }

  /// NATS is away, or this process stands still: no heartbeat arrives, its own neither.
  @Test func whoHearsNobodyJudgesNobodysSilence() {
    var membership = Membership(timeout: Self.timeout, now: at(0))
    _ = membership.received(heartbeat("a", 1), now: at(0))
    _ = membership.received(edge("e", 7), now: at(0))
    #expect(membership.receivedOwnHeartbeat(now: at(500)) == [])
    #expect(membership.receivesOwnHeartbeats(now: at(2000)))
    #expect(!membership.receivesOwnHeartbeats(now: at(2001)))
    // The outage ends after 15 s. Its own heartbeat comes back first, the others' only later.
    #expect(pass(&membership, from: 15_500, to: 18_000) == [])
    #expect(membership.isLiving(owner: "a", incarnation: 1))
    #expect(membership.livingEdges == [7])
    #expect(membership.receivesSince == at(15_500))
    _ = membership.received(edge("e", 7), now: at(18_100))
    #expect(
      pass(&membership, from: 18_500, to: 18_500) == [.coordinatorsChanged],
      "who is still silent when that time is over is lost")
    #expect(membership.livingEdges == [7])
  }

  /// Its own heartbeats come late, but they come: the silence of others goes on.
  @Test func aShortGapChangesNothing() {
    var membership = Membership(timeout: Self.timeout, now: at(0))
    _ = membership.received(edge("e", 7), now: at(0))
    for time: Int64 in [1400, 2800] {
      #expect(membership.receivedOwnHeartbeat(now: at(time)) == [])
    }
    #expect(membership.receivedOwnHeartbeat(now: at(3000)) == [.edgeLost(7, .silent)])
  }

  @Test func anOwnerThatIsNotKnownIsLookedForAnewAfterAnOutage() {
    var membership = Membership(timeout: Self.timeout, now: at(0))
    _ = pass(&membership, from: 500, to: 3000)
    #expect(!membership.isLiving(owner: "x", incarnation: 9))
    _ = pass(&membership, from: 10_000, to: 12_500)
    #expect(membership.isLiving(owner: "x", incarnation: 9), "it had no time to be heard")
    _ = pass(&membership, from: 13_000, to: 13_000)
    #expect(!membership.isLiving(owner: "x", incarnation: 9))
  }

  /// A new owner learns which edges may return with sessions.
  @Test func edgesThatMayReturnAreKnown() {
    var membership = Membership(timeout: Self.timeout, now: at(0))
    for number: UInt64 in [7, 8, 9] {
      _ = membership.received(edge("e\(number)", number), now: at(0))
    }
    _ = membership.received(edge("e7", 7, .gone), now: at(100))
    #expect(
      pass(&membership, from: 500, to: 3000) == [.edgeLost(8, .silent), .edgeLost(9, .silent)])
    #expect(membership.missingEdges.map(\.edge) == [8, 9])
    #expect(membership.missingEdges.map(\.at) == [at(3000), at(3000)])
    // One lives, the other says late that it goes.
    _ = membership.edgeSeen(8, now: at(3100))
    #expect(membership.received(edge("e9", 9, .gone), now: at(3200)) == [])
    #expect(membership.missingEdges.isEmpty)
  }

  private static func awaits(_ why: Membership.EdgeLoss) -> Span {
    switch why {
    case .gone: .seconds(0)
    case .unreachable: .seconds(5)
    case .silent: .seconds(75)
    }
  }

  /// One that was cut off shortly before this node began, and whose connection is closed, may have living sockets. A call
  /// that the former owner keeps for its devices would end at once (R11).
  @Test func anUnreachableEdgeIsKnownFromOthersWhileItMayReturn() {
    var membership = Membership(timeout: Self.timeout, now: at(0))
    var other = heartbeat("b", 2)
    other.silentEdges = [SilentEdge(edge: 7, since: .seconds(1), isUnreachable: true)]
    #expect(
      membership.received(other, now: at(500)) == [
        .coordinatorsChanged, .edgeLost(7, .unreachable),
      ]
    )
    #expect(membership.missingEdges.map(\.at) == [at(-500)])
    func told(at milliseconds: Int64) -> [SilentEdge] {
      membership.silentEdges(awaits: Self.awaits, silence: .seconds(90), now: at(milliseconds))
    }
    #expect(
      told(at: 4499) == [SilentEdge(edge: 7, since: .milliseconds(4999), isUnreachable: true)])
    #expect(told(at: 4500).isEmpty)
    _ = membership.received(edge("e7", 7, .gone), now: at(1000))
    #expect(told(at: 1000).isEmpty, "its process ended after all")
  }

  /// An edge that has been frozen since before this node began is known to the others only.
  @Test func aSilentEdgeIsKnownFromOthers() {
    var membership = Membership(timeout: Self.timeout, now: at(0))
    _ = membership.received(edge("e8", 8), now: at(0))
    var other = heartbeat("b", 2)
    other.silentEdges = [
      SilentEdge(edge: 7, since: .seconds(10)), SilentEdge(edge: 8, since: .seconds(10)),
    ]
    #expect(
      membership.received(other, now: at(500)) == [.coordinatorsChanged, .edgeLost(7, .silent)])
    #expect(membership.received(other, now: at(1000)) == [], "it is known now; the other one lives")
    #expect(membership.missingEdges.map(\.edge) == [7])
    #expect(membership.missingEdges.map(\.at) == [at(-9500)])
    let told = membership.silentEdges(awaits: Self.awaits, silence: .seconds(1), now: at(2000))
    #expect(
      told == [
        SilentEdge(edge: 7, since: .milliseconds(11_500)),
        SilentEdge(edge: 8, since: .seconds(2), isLost: false),
      ])
    let later = membership.silentEdges(awaits: Self.awaits, silence: .seconds(90), now: at(65_500))
    #expect(later.isEmpty)
    #expect(membership.received(edge("e7", 7), now: at(3000)) == [.edgeReturned(7)])
  }

  /// No node is left that could say which edges are missing, so any edge may be.
  @Test func withoutAnybodyWhoCouldTellAnyEdgeMayBeMissing() {
    var membership = Membership(timeout: Self.timeout, now: at(0))
    #expect(membership.beginsWithoutKnowing(now: at(1000)) == [.edgeLost(0, .silent)])
    #expect(membership.missingEdges.map(\.edge) == [0])
    #expect(
      membership.silentEdges(awaits: Self.awaits, silence: .seconds(1), now: at(1000)).map(\.edge)
        == [0],
      "and the others are told so")
  }

  /// The node that reported the silence may crash before it counts the edge as lost.
  @Test func anEdgeThatIsSilentAndNotLostYetIsKnownFromOthers() {
    var membership = Membership(timeout: Self.timeout, now: at(0))
    var other = heartbeat("b", 2)
    other.silentEdges = [SilentEdge(edge: 7, since: .seconds(1), isLost: false)]
    #expect(membership.received(other, now: at(500)) == [.coordinatorsChanged, .edgeJoined(7)])
    #expect(pass(&membership, from: 500, to: 2000) == [])
    #expect(pass(&membership, from: 2500, to: 2500) == [])
    #expect(pass(&membership, from: 3000, to: 3000) == [.edgeLost(7, .silent)])
  }
}
