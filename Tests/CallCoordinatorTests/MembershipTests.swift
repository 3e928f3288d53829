import CallCoordinator
import CallCore
import CallWire
import Testing

extension Heartbeat {
  init(
    _ node: String, _ incarnation: UInt64, _ state: NodeState = .serving,
    role: NodeRole = .coordinator, silent: [SilentEdge] = []
  ) {
    self.init(
      node: node, role: role, incarnation: incarnation, state: state, version: "1", shardCount: 8)
    silentEdges = silent
  }
}

@Suite struct MembershipTests {
  private var membership = Membership(timeout: .seconds(3), now: Timestamp(microseconds: 0))

  private func at(_ milliseconds: Int64) -> Timestamp {
    Timestamp(microseconds: milliseconds * 1000)
  }

  @discardableResult
  private mutating func received(
    _ node: String, _ incarnation: UInt64, _ state: NodeState = .serving, at time: Int64 = 0,
    silent: [SilentEdge] = []
  ) -> [Membership.Event] {
    membership.received(Heartbeat(node, incarnation, state, silent: silent), now: at(time))
  }

  /// A heartbeat of an edge.
  @discardableResult
  private mutating func edge(
    _ node: String, _ number: UInt64, _ state: NodeState = .serving, at time: Int64 = 0
  ) -> [Membership.Event] {
    membership.received(Heartbeat(node, number, state, role: .edge), now: at(time))
  }

  /// Time passes in steps, as it does where heartbeats are sent.
  @discardableResult
  private mutating func pass(
    _ from: Int64, to: Int64, heartbeats: [Heartbeat] = []
  ) -> [Membership.Event] {
    var events: [Membership.Event] = []
    for time in stride(from: from, through: to, by: 500) {
      for heartbeat in heartbeats { events += membership.received(heartbeat, now: at(time)) }
      events += membership.receivedOwnHeartbeat(now: at(time))
    }
    return events
  }

  private func isLiving(_ owner: String, _ incarnation: UInt64) -> Bool {
    membership.isLiving(owner: owner, incarnation: incarnation)
  }

  private func silentEdges(at time: Int64, silence: Span = .seconds(90)) -> [SilentEdge] {
    func awaits(_ why: Membership.EdgeLoss) -> Span {
      switch why {
      case .gone: .seconds(0)
      case .unreachable: .seconds(5)
      case .silent: .seconds(75)
      }
    }
    return membership.silentEdges(awaits: awaits, silence: silence, now: at(time))
  }

  @Test mutating func aSilentCoordinatorIsDeadAfterTheTimeout() {
    #expect(received("a", 1) == [.coordinatorsChanged])
    #expect(pass(500, to: 2500) == [])
    #expect(isLiving("a", 1))
    #expect(pass(3000, to: 3000) == [.coordinatorsChanged])
    #expect(!isLiving("a", 1) && membership.coordinators.isEmpty)
  }

  @Test mutating func whatEveryCoordinatorReads() {
    #expect(membership.formatOfAll == ClusterCodec.format, "this node's own")
    var former = Heartbeat("a", 1)
    former.reads = 1
    _ = membership.received(former, now: at(0))
    received("b", 2)
    #expect(membership.formatOfAll == 1)
    var gateway = Heartbeat("p", 3, role: .push)
    gateway.reads = 1
    _ = membership.received(gateway, now: at(0))
    // Upgraded: a new incarnation under the same name.
    received("a", 4, at: 500)
    #expect(
      membership.formatOfAll == ClusterCodec.format, "nobody but coordinators reads the journal")
  }

  @Test mutating func oneThatSpeaksLives() {
    #expect(pass(0, to: 20_000, heartbeats: [Heartbeat("a", 1)]) == [.coordinatorsChanged])
  }

  @Test mutating func leavingAndGoneCountAtOnce() {
    received("a", 1)
    #expect(received("a", 1, .leaving, at: 1) == [.coordinatorsChanged])
    #expect(membership.coordinators["a"]?.state == .leaving)
    #expect(received("a", 1, .gone, at: 2) == [.coordinatorsChanged])
    #expect(membership.coordinators["a"] == nil)
    // A late word of an earlier incarnation takes nobody away.
    received("a", 2, at: 3)
    #expect(received("a", 1, .gone, at: 4) == [])
    #expect(membership.coordinators["a"]?.incarnation == 2)
  }

  @Test mutating func anotherIncarnationIsAnotherNode() {
    received("a", 1)
    #expect(received("a", 2, at: 100) == [.coordinatorsChanged])
    #expect(!isLiving("a", 1) && isLiving("a", 2))
  }

  @Test mutating func anOwnerThatWasNeverHeardCountsAsLivingAtFirst() {
    pass(500, to: 2500)
    #expect(isLiving("x", 9))
    pass(3000, to: 3000)
    #expect(!isLiving("x", 9))
    // After an outage it is looked for anew: it had no time to be heard.
    pass(10_000, to: 12_500)
    #expect(isLiving("x", 9))
    pass(13_000, to: 13_000)
    #expect(!isLiving("x", 9))
  }

  @Test mutating func anEdgeThatFallsSilentIsLostAndOneThatSpeaksAgainReturns() {
    #expect(edge("e", 7) == [.edgeJoined(7)])
    #expect(pass(500, to: 3000) == [.edgeLost(7, .silent)])
    #expect(membership.livingEdges == [])
    #expect(edge("e", 7, at: 3100) == [.edgeReturned(7)])
    #expect(membership.livingEdges == [7])
  }

  @Test mutating func anEdgeThatStartsAnewLosesItsFormerSessionsAtOnce() {
    edge("e", 7)
    #expect(edge("e", 8, .starting, at: 10) == [.edgeJoined(8), .edgeLost(7, .gone)])
    #expect(membership.livingEdges == [8])
  }

  @Test mutating func twoLivingEdgesOfOneNameDoNotTakeTurns() {
    edge("e", 7)
    edge("e", 8, at: 10)
    #expect(edge("e", 7, at: 20) == [.edgeReturned(7), .edgeNameShared("e")])
    #expect(edge("e", 8, at: 30) + edge("e", 7, at: 40) == [])
    #expect(membership.livingEdges == [7, 8])
  }

  @Test mutating func anEdgeOfWhichOnlyCommandsWereHeardIsMissedToo() {
    #expect(
      membership.edgeSeen(7, now: at(0)) + membership.edgeSeen(7, now: at(500)) == [.edgeJoined(7)])
    #expect(pass(500, to: 3500) == [.edgeLost(7, .silent)])
  }

  @Test mutating func aGoneEdgeIsLostOnce() {
    edge("e", 7)
    #expect(edge("e", 7, .gone, at: 10) == [.edgeLost(7, .gone)])
    #expect(edge("e", 7, .gone, at: 20) == [])
  }

  @Test mutating func afterAPauseOfThisProcessNobodyIsDeclaredDead() {
    received("a", 1)
    edge("e", 7)
    #expect(membership.receivedOwnHeartbeat(now: at(60_000)) == [])
    #expect(isLiving("a", 1))
    #expect(pass(60_500, to: 63_000) == [.coordinatorsChanged, .edgeLost(7, .silent)])
  }

  /// NATS is away, or this process stands still: no heartbeat arrives, its own neither.
  @Test mutating func whoHearsNobodyJudgesNobodysSilence() {
    received("a", 1)
    edge("e", 7)
    #expect(membership.receivedOwnHeartbeat(now: at(500)) == [])
    #expect(membership.receivesOwnHeartbeats(now: at(2000)))
    #expect(!membership.receivesOwnHeartbeats(now: at(2001)))
    // The outage ends after 15 s. Its own heartbeat comes back first, the others' only later.
    #expect(pass(15_500, to: 18_000) == [])
    #expect(isLiving("a", 1))
    #expect(membership.livingEdges == [7])
    #expect(membership.receivesSince == at(15_500))
    edge("e", 7, at: 18_100)
    #expect(
      pass(18_500, to: 18_500) == [.coordinatorsChanged],
      "who is still silent when that time is over is lost")
    #expect(membership.livingEdges == [7])
  }

  /// Its own heartbeats come late, but they come: the silence of others goes on.
  @Test mutating func aShortGapChangesNothing() {
    edge("e", 7)
    for time: Int64 in [1400, 2800] {
      #expect(membership.receivedOwnHeartbeat(now: at(time)) == [])
    }
    #expect(membership.receivedOwnHeartbeat(now: at(3000)) == [.edgeLost(7, .silent)])
  }

  /// A new owner learns which edges may return with sessions.
  @Test mutating func edgesThatMayReturnAreKnown() {
    for number: UInt64 in [7, 8, 9] { edge("e\(number)", number) }
    edge("e7", 7, .gone, at: 100)
    #expect(pass(500, to: 3000) == [.edgeLost(8, .silent), .edgeLost(9, .silent)])
    #expect(membership.missingEdges.map(\.edge) == [8, 9])
    #expect(membership.missingEdges.map(\.at) == [at(3000), at(3000)])
    // One lives, the other says late that it goes.
    _ = membership.edgeSeen(8, now: at(3100))
    #expect(edge("e9", 9, .gone, at: 3200) == [])
    #expect(membership.missingEdges.isEmpty)
  }

  /// One that was cut off shortly before this node began, and whose connection is closed, may have living sockets. A call
  /// that the former owner keeps for its devices would end at once (R11).
  @Test mutating func anUnreachableEdgeIsKnownFromOthersWhileItMayReturn() {
    #expect(
      received(
        "b", 2, at: 500, silent: [SilentEdge(edge: 7, since: .seconds(1), isUnreachable: true)])
        == [.coordinatorsChanged, .edgeLost(7, .unreachable)])
    #expect(membership.missingEdges.map(\.at) == [at(-500)])
    #expect(
      silentEdges(at: 4499)
        == [SilentEdge(edge: 7, since: .milliseconds(4999), isUnreachable: true)])
    #expect(silentEdges(at: 4500).isEmpty)
    edge("e7", 7, .gone, at: 1000)
    #expect(silentEdges(at: 1000).isEmpty, "its process ended after all")
  }

  /// An edge that has been frozen since before this node began is known to the others only.
  @Test mutating func aSilentEdgeIsKnownFromOthers() {
    edge("e8", 8)
    let silent = [7, 8].map { SilentEdge(edge: $0, since: .seconds(10)) }
    #expect(
      received("b", 2, at: 500, silent: silent) == [.coordinatorsChanged, .edgeLost(7, .silent)])
    #expect(
      received("b", 2, at: 1000, silent: silent) == [], "it is known now; the other one lives")
    #expect(membership.missingEdges.map(\.edge) == [7])
    #expect(membership.missingEdges.map(\.at) == [at(-9500)])
    #expect(
      silentEdges(at: 2000, silence: .seconds(1)) == [
        SilentEdge(edge: 7, since: .milliseconds(11_500)),
        SilentEdge(edge: 8, since: .seconds(2), isLost: false),
      ])
    #expect(silentEdges(at: 65_500).isEmpty)
    #expect(edge("e7", 7, at: 3000) == [.edgeReturned(7)])
  }

  /// No node is left that could say which edges are missing, so any edge may be.
  @Test mutating func withoutAnybodyWhoCouldTellAnyEdgeMayBeMissing() {
    #expect(membership.beginsWithoutKnowing(now: at(1000)) == [.edgeLost(0, .silent)])
    #expect(membership.missingEdges.map(\.edge) == [0])
    #expect(
      silentEdges(at: 1000, silence: .seconds(1)).map(\.edge) == [0], "and the others are told so")
  }

  /// The node that reported the silence may crash before it counts the edge as lost.
  @Test mutating func anEdgeThatIsSilentAndNotLostYetIsKnownFromOthers() {
    #expect(
      received(
        "b", 2, at: 500, silent: [SilentEdge(edge: 7, since: .seconds(1), isLost: false)]) == [
          .coordinatorsChanged, .edgeJoined(7),
        ])
    #expect(pass(500, to: 2500) == [])
    #expect(pass(3000, to: 3000) == [.edgeLost(7, .silent)])
  }
}
