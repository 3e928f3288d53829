import CallCoordinator
import CallCore
import CallWire
import Testing

/// Who is silent is looked into. All of this is a guess; what matters is when it must not be made.
@Suite struct ProbingTests {
  static let probing = Membership.Probing(
    edgeSilence: .milliseconds(600), coordinatorSilence: .milliseconds(600),
    interval: .milliseconds(100), pause: .milliseconds(100), span: .milliseconds(300), strikes: 3,
    connected: .seconds(2))

  func at(_ milliseconds: Int64) -> Timestamp { Timestamp(microseconds: milliseconds * 1000) }

  func membership(_ coordinators: [UInt64], edges: [UInt64] = []) -> Membership {
    var membership = Membership(timeout: .seconds(3), probing: Self.probing, now: at(0))
    for number in coordinators { _ = membership.received(beat(number, .coordinator), now: at(0)) }
    for number in edges { _ = membership.received(beat(number, .edge), now: at(0)) }
    return membership
  }

  func beat(_ number: UInt64, _ role: NodeRole) -> Heartbeat {
    Heartbeat(
      node: "\(role)-\(number)", role: role, incarnation: number, state: .serving, version: "1",
      shardCount: 8)
  }

  /// Looks into whoever is silent, every 100 ms; `listens` answers.
  func look(
    _ membership: inout Membership, from: Int64, to: Int64, connectedSince: Int64? = -10_000,
    listens: (UInt64) -> Bool
  ) -> [Membership.Event] {
    var events: [Membership.Event] = []
    for time in stride(from: from, through: to, by: 100) {
      for probe in membership.probes(now: at(time)) {
        events += membership.probed(
          probe, listens: listens(probe.incarnation), connectedSince: connectedSince.map(at),
          now: at(time))
      }
    }
    return events
  }

  @Test func whoseConnectionIsGoneIsDeadBeforeTheTimeout() {
    var membership = membership([1, 2], edges: [7])
    _ = membership.received(beat(2, .coordinator), now: at(500))
    _ = membership.received(beat(7, .edge), now: at(500))
    #expect(membership.nextProbe == at(600))
    #expect(membership.probes(now: at(599)).isEmpty)
    #expect(look(&membership, from: 600, to: 800, listens: { $0 != 1 }) == [])
    #expect(look(&membership, from: 900, to: 900, listens: { $0 != 1 }) == [.coordinatorsChanged])
    #expect(Array(membership.coordinators.keys) == ["coordinator-2"])
    #expect(membership.lastSeen(ofLost: "coordinator-1", incarnation: 1) == at(0))
  }

  @Test func anEdgeAsWell() {
    var membership = membership([1], edges: [7])
    _ = membership.received(beat(1, .coordinator), now: at(500))
    #expect(
      look(&membership, from: 600, to: 900, listens: { $0 != 7 }) == [.edgeLost(7, .unreachable)])
    // It lives after all.
    #expect(membership.received(beat(7, .edge), now: at(1000)) == [.edgeReturned(7)])
  }

  /// An edge that was given up for a namesake speaks again: to wait for a moment that is over would
  /// keep the node busy with nothing.
  @Test func whoSpeaksAgainIsNotWaitedForInThePast() {
    var membership = membership([1], edges: [7])
    _ = look(&membership, from: 600, to: 700, listens: { _ in true })
    var namesake = beat(8, .edge)
    namesake.node = "edge-7"
    _ = membership.received(namesake, now: at(750))
    _ = membership.received(beat(1, .coordinator), now: at(2000))
    _ = membership.received(namesake, now: at(2000))
    _ = membership.edgeSeen(7, now: at(2000))
    #expect(membership.probes(now: at(2000)).isEmpty)
    #expect(membership.nextProbe == at(2600))
  }

  @Test func whoListensOnlySpeaksLate() {
    var membership = membership([1])
    #expect(look(&membership, from: 600, to: 2900, listens: { _ in true }) == [])
    for time: Int64 in [1400, 2800, 2900] {
      #expect(membership.receivedOwnHeartbeat(now: at(time)).isEmpty)
    }
    #expect(membership.receivedOwnHeartbeat(now: at(3000)) == [.coordinatorsChanged])
  }

  /// A server restarts, and others connect later than this node does.
  @Test func nothingIsBelievedSoonAfterAConnect() {
    var membership = membership([1])
    let events = look(
      &membership, from: 600, to: 2400, connectedSince: 500, listens: { _ in false })
    #expect(events == [])
    // Strikes before that do not count either.
    #expect(
      look(&membership, from: 2500, to: 2700, connectedSince: 500, listens: { _ in false }) == [])
    let later = look(
      &membership, from: 2800, to: 2800, connectedSince: 500, listens: { _ in false })
    #expect(later == [.coordinatorsChanged])
  }

  @Test func nothingIsBelievedWithoutAConnection() {
    var membership = membership([1])
    let events = look(
      &membership, from: 600, to: 2900, connectedSince: nil, listens: { _ in false })
    #expect(events == [])
  }

  /// A route between servers broke: half of the cluster seems gone at once.
  @Test func halfOfTheClusterIsNotDeadAtOnce() {
    var membership = membership([1, 2], edges: [7])
    _ = membership.received(beat(7, .edge), now: at(500))
    #expect(look(&membership, from: 600, to: 1000, listens: { _ in false }) == [])
    #expect(membership.coordinators.count == 2)
    // Silence alone says so in the end.
    _ = membership.receivedOwnHeartbeat(now: at(1500))
    #expect(membership.receivedOwnHeartbeat(now: at(3000)) == [.coordinatorsChanged])
  }

  @Test func oneAnswerOrOneWordClearsIt() {
    var membership = membership([1])
    #expect(look(&membership, from: 600, to: 800, listens: { _ in false }) == [])
    #expect(look(&membership, from: 900, to: 900, listens: { _ in true }) == [])
    #expect(look(&membership, from: 1000, to: 1200, listens: { _ in false }) == [])
    _ = membership.received(beat(1, .coordinator), now: at(1250))
    #expect(look(&membership, from: 1300, to: 1800, listens: { _ in false }) == [])
    #expect(membership.coordinators.count == 1)
  }

  /// An answer that comes when its node was counted lost, or has spoken, says nothing.
  @Test func lateAnswersAreNotMinded() {
    var membership = membership([1])
    for incarnation: UInt64 in [1, 99] {
      let probe = Membership.Probe(incarnation: incarnation, isEdge: false, at: at(0))
      #expect(
        membership.probed(probe, listens: false, connectedSince: at(-5000), now: at(100)) == [])
    }
  }

  // MARK: Between heartbeats

  static let eager: Membership.Probing = {
    var probing = Self.probing
    probing.coordinatorSilence = .milliseconds(200)
    probing.pause = .milliseconds(300)
    return probing
  }()

  func eagerMembership(_ coordinators: [UInt64], edges: [UInt64] = []) -> Membership {
    var membership = Membership(timeout: .seconds(3), probing: Self.eager, now: at(0))
    for number in coordinators { _ = membership.received(beat(number, .coordinator), now: at(0)) }
    for number in edges { _ = membership.received(beat(number, .edge), now: at(0)) }
    return membership
  }

  @Test func aLivingCoordinatorIsProbedOnceABeatAndAnEdgeNever() {
    var membership = eagerMembership([1], edges: [7])
    var sent: [Int64] = []
    for time: Int64 in stride(from: 0, through: 2000, by: 10) {
      if time % 500 == 0 {
        _ = membership.received(beat(1, .coordinator), now: at(time))
        _ = membership.received(beat(7, .edge), now: at(time))
      }
      for probe in membership.probes(now: at(time)) {
        #expect(!probe.isEdge && probe.at == at(time))
        sent.append(time)
      }
    }
    #expect(sent == [200, 700, 1200, 1700])
  }

  /// It dies right after a probe reached it. The next probes find no process. In the midst of them the prober learns
  /// that the former one was never answered, which says nothing of now.
  @Test func theTimeoutOfAnEarlierProbeDoesNotClearIt() throws {
    var membership = eagerMembership([1, 2])
    let early = try #require(membership.probes(now: at(200)).first { $0.incarnation == 1 })
    _ = membership.received(beat(2, .coordinator), now: at(490))
    var events: [Membership.Event] = []
    var sent: [Int64] = []
    for time: Int64 in stride(from: 500, through: 1000, by: 10) where events.isEmpty {
      if time == 700 {
        events += membership.probed(
          early, listens: true, connectedSince: at(-10_000), now: at(time))
      }
      for probe in membership.probes(now: at(time)) where probe.incarnation == 1 {
        sent.append(time)
        events += membership.probed(
          probe, listens: false, connectedSince: at(-10_000), now: at(time))
      }
    }
    #expect(sent == [500, 600, 700, 800])
    #expect(events == [.coordinatorsChanged])
  }

  /// A route between servers broke right after a heartbeat of some. The first node that is found missing has all
  /// others probed, so that it shows how many are.
  @Test func halfOfTheClusterIsNotDeadAtOnceThoughItsHeartbeatsWereNotDueYet() {
    var membership = eagerMembership([1, 2], edges: [7, 8])
    for (number, role, time): (UInt64, NodeRole, Int64) in [
      (1, .coordinator, 700), (7, .edge, 900), (8, .edge, 900), (2, .coordinator, 990),
    ] {
      _ = membership.received(beat(number, role), now: at(time))
    }
    var events: [Membership.Event] = []
    for time: Int64 in stride(from: 1000, through: 2000, by: 10) {
      for probe in membership.probes(now: at(time)) {
        events += membership.probed(
          probe, listens: false, connectedSince: at(-10_000), now: at(time))
      }
    }
    #expect(events == [])
  }

  /// Without that, the manager would wake for a moment that is over, again and again.
  @Test func whoIsProbedBecauseAnotherIsMissingIsNotDueAgainAtOnce() throws {
    var membership = eagerMembership([1, 2], edges: [7])
    _ = membership.received(beat(2, .coordinator), now: at(190))
    let probe = try #require(membership.probes(now: at(200)).first)
    #expect(probe.incarnation == 1)
    _ = membership.probed(probe, listens: false, connectedSince: at(-10_000), now: at(201))
    #expect(membership.probes(now: at(201)).map(\.incarnation) == [2, 7])
    #expect(membership.nextProbe == at(300))
    // A namesake takes the place of the missing one: nobody is missing any more.
    var again = beat(9, .coordinator)
    again.node = "coordinator-1"
    _ = membership.received(again, now: at(250))
    #expect(membership.nextProbe == at(450))
  }

  /// A probe that is answered after the first strike, and was sent after it, shows that the node is back.
  @Test func theTimeoutOfALaterProbeDoesClearIt() throws {
    var membership = eagerMembership([1])
    for time: Int64 in [200, 300] {
      let probe = try #require(membership.probes(now: at(time)).first)
      let events = membership.probed(
        probe, listens: time == 300, connectedSince: at(-10_000), now: at(time))
      #expect(events == [])
    }
    // Nobody seems gone now, so the next probe is sent after the pause, at 600.
    #expect(look(&membership, from: 400, to: 800, listens: { _ in false }) == [])
    #expect(
      look(&membership, from: 900, to: 900, listens: { _ in false }) == [.coordinatorsChanged])
  }

  /// This process stood still: the others were not silent, it was deaf.
  @Test func aPauseOfOnesOwnClearsIt() {
    var membership = membership([1])
    #expect(look(&membership, from: 600, to: 800, listens: { _ in false }) == [])
    #expect(membership.receivedOwnHeartbeat(now: at(5000)) == [])
    #expect(membership.probes(now: at(5000)).isEmpty)
    #expect(membership.coordinators.count == 1)
  }
}
