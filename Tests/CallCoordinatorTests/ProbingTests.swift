import CallCoordinator
import CallCore
import CallWire
import Testing

/// Who is silent is looked into. All of this is a guess; what matters is when it must not be made.
@Suite struct ProbingTests {
  private static let probing = Membership.Probing(
    edgeSilence: .milliseconds(600), coordinatorSilence: .milliseconds(600),
    interval: .milliseconds(100), pause: .milliseconds(100), span: .milliseconds(300), strikes: 3,
    connected: .seconds(2))

  /// Probes coordinators between their heartbeats.
  private static let eager: Membership.Probing = {
    var probing = Self.probing
    probing.coordinatorSilence = .milliseconds(200)
    probing.pause = .milliseconds(300)
    return probing
  }()

  private var membership = Membership(
    timeout: .seconds(3), probing: Self.probing, now: Timestamp(microseconds: 0))

  private func at(_ milliseconds: Int64) -> Timestamp {
    Timestamp(microseconds: milliseconds * 1000)
  }

  /// Nodes send their first heartbeats at 0.
  private mutating func hear(_ coordinators: [UInt64], edges: [UInt64] = [], eager: Bool = false) {
    if eager {
      membership = Membership(timeout: .seconds(3), probing: Self.eager, now: at(0))
    }
    for number in coordinators { beat(number, .coordinator, at: 0) }
    for number in edges { beat(number, .edge, at: 0) }
  }

  private func heartbeat(_ number: UInt64, _ role: NodeRole, name: UInt64? = nil) -> Heartbeat {
    Heartbeat("\(role)-\(name ?? number)", number, role: role)
  }

  @discardableResult
  private mutating func beat(_ number: UInt64, _ role: NodeRole, at time: Int64)
    -> [Membership.Event]
  {
    membership.received(heartbeat(number, role), now: at(time))
  }

  private mutating func answer(
    _ probe: Membership.Probe, listens: Bool, connectedSince: Int64? = -10_000, at time: Int64
  ) -> [Membership.Event] {
    membership.probed(
      probe, listens: listens, connectedSince: connectedSince.map(at), now: at(time))
  }

  /// Looks into whoever is silent, every 100 ms; only those that `listens` names answer.
  private mutating func look(
    _ from: Int64, to: Int64, connectedSince: Int64? = -10_000, step: Int64 = 100,
    listens: (UInt64) -> Bool = { _ in false }
  ) -> [Membership.Event] {
    var events: [Membership.Event] = []
    for time in stride(from: from, through: to, by: Int64.Stride(step)) {
      for probe in membership.probes(now: at(time)) {
        events += answer(
          probe, listens: listens(probe.incarnation), connectedSince: connectedSince, at: time)
      }
    }
    return events
  }

  @Test mutating func whoseConnectionIsGoneIsDeadBeforeTheTimeout() {
    hear([1, 2], edges: [7])
    beat(2, .coordinator, at: 500)
    beat(7, .edge, at: 500)
    #expect(membership.nextProbe == at(600))
    #expect(membership.probes(now: at(599)).count == 0)
    #expect(look(600, to: 800, listens: { $0 != 1 }) == [])
    #expect(look(900, to: 900, listens: { $0 != 1 }) == [.coordinatorsChanged])
    #expect(Array(membership.coordinators.keys) == ["coordinator-2"])
    #expect(membership.lastSeen(ofLost: "coordinator-1", incarnation: 1) == at(0))
  }

  @Test mutating func anEdgeAsWell() {
    hear([1], edges: [7])
    beat(1, .coordinator, at: 500)
    #expect(look(600, to: 900, listens: { $0 != 7 }) == [.edgeLost(7, .unreachable)])
    // It lives after all.
    #expect(beat(7, .edge, at: 1000) == [.edgeReturned(7)])
  }

  /// An edge that was given up for a namesake speaks again: to wait for a moment that is over would
  /// keep the node busy with nothing.
  @Test mutating func whoSpeaksAgainIsNotWaitedForInThePast() {
    hear([1], edges: [7])
    _ = look(600, to: 700, listens: { _ in true })
    let namesake = heartbeat(8, .edge, name: 7)
    _ = membership.received(namesake, now: at(750))
    beat(1, .coordinator, at: 2000)
    _ = membership.received(namesake, now: at(2000))
    _ = membership.edgeSeen(7, now: at(2000))
    #expect(membership.probes(now: at(2000)).count == 0)
    #expect(membership.nextProbe == at(2600))
  }

  @Test mutating func whoListensOnlySpeaksLate() {
    hear([1])
    #expect(look(600, to: 2900, listens: { _ in true }) == [])
    for time: Int64 in [1400, 2800, 2900] {
      #expect(membership.receivedOwnHeartbeat(now: at(time)) == [])
    }
    #expect(membership.receivedOwnHeartbeat(now: at(3000)) == [.coordinatorsChanged])
  }

  /// A server restarts, and others connect later than this node does.
  @Test mutating func nothingIsBelievedSoonAfterAConnect() {
    hear([1])
    #expect(look(600, to: 2400, connectedSince: 500) == [])
    // Strikes before that do not count either.
    #expect(look(2500, to: 2700, connectedSince: 500) == [])
    #expect(look(2800, to: 2800, connectedSince: 500) == [.coordinatorsChanged])
  }

  @Test mutating func nothingIsBelievedWithoutAConnection() {
    hear([1])
    #expect(look(600, to: 2900, connectedSince: nil) == [])
  }

  /// A route between servers broke: half of the cluster seems gone at once.
  @Test mutating func halfOfTheClusterIsNotDeadAtOnce() {
    hear([1, 2], edges: [7])
    beat(7, .edge, at: 500)
    #expect(look(600, to: 1000) == [])
    #expect(membership.coordinators.count == 2)
    // Silence alone says so in the end.
    _ = membership.receivedOwnHeartbeat(now: at(1500))
    #expect(membership.receivedOwnHeartbeat(now: at(3000)) == [.coordinatorsChanged])
  }

  @Test mutating func oneAnswerOrOneWordClearsIt() {
    hear([1])
    #expect(look(600, to: 800) == [])
    #expect(look(900, to: 900, listens: { _ in true }) == [])
    #expect(look(1000, to: 1200) == [])
    beat(1, .coordinator, at: 1250)
    #expect(look(1300, to: 1800) == [])
    #expect(membership.coordinators.count == 1)
  }

  /// An answer that comes when its node was counted lost, or has spoken, says nothing.
  @Test mutating func lateAnswersAreNotMinded() {
    hear([1])
    for incarnation: UInt64 in [1, 99] {
      let probe = Membership.Probe(incarnation: incarnation, isEdge: false, at: at(0))
      #expect(answer(probe, listens: false, connectedSince: -5000, at: 100) == [])
    }
  }

  // MARK: Between heartbeats

  @Test mutating func aLivingCoordinatorIsProbedOnceABeatAndAnEdgeNever() {
    hear([1], edges: [7], eager: true)
    var sent: [Int64] = []
    for time: Int64 in stride(from: 0, through: 2000, by: 10) {
      if time % 500 == 0 {
        beat(1, .coordinator, at: time)
        beat(7, .edge, at: time)
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
  @Test mutating func theTimeoutOfAnEarlierProbeDoesNotClearIt() throws {
    hear([1, 2], eager: true)
    let probes = membership.probes(now: at(200))
    let early = try #require(probes.first { $0.incarnation == 1 })
    beat(2, .coordinator, at: 490)
    var events: [Membership.Event] = []
    var sent: [Int64] = []
    for time: Int64 in stride(from: 500, through: 1000, by: 10) where events.isEmpty {
      if time == 700 { events += answer(early, listens: true, at: time) }
      for probe in membership.probes(now: at(time)) where probe.incarnation == 1 {
        sent.append(time)
        events += answer(probe, listens: false, at: time)
      }
    }
    #expect(sent == [500, 600, 700, 800])
    #expect(events == [.coordinatorsChanged])
  }

  /// A route between servers broke right after a heartbeat of some. The first node that is found missing has all
  /// others probed, so that it shows how many are.
  @Test mutating func halfOfTheClusterIsNotDeadAtOnceThoughItsHeartbeatsWereNotDueYet() {
    hear([1, 2], edges: [7, 8], eager: true)
    beat(1, .coordinator, at: 700)
    for edge: UInt64 in [7, 8] { beat(edge, .edge, at: 900) }
    beat(2, .coordinator, at: 990)
    #expect(look(1000, to: 2000, step: 10) == [])
  }

  /// Without that, the manager would wake for a moment that is over, again and again.
  @Test mutating func whoIsProbedBecauseAnotherIsMissingIsNotDueAgainAtOnce() throws {
    hear([1, 2], edges: [7], eager: true)
    beat(2, .coordinator, at: 190)
    let probes = membership.probes(now: at(200))
    #expect(probes.first?.incarnation == 1)
    _ = answer(try #require(probes.first), listens: false, at: 201)
    #expect(membership.probes(now: at(201)).map(\.incarnation) == [2, 7])
    #expect(membership.nextProbe == at(300))
    // A namesake takes the place of the missing one: nobody is missing any more.
    _ = membership.received(heartbeat(9, .coordinator, name: 1), now: at(250))
    #expect(membership.nextProbe == at(450))
  }

  /// A probe that is answered after the first strike, and was sent after it, shows that the node is back.
  @Test mutating func theTimeoutOfALaterProbeDoesClearIt() throws {
    hear([1], eager: true)
    for time: Int64 in [200, 300] {
      let probes = membership.probes(now: at(time))
      let probe = try #require(probes.first)
      #expect(answer(probe, listens: time == 300, at: time) == [])
    }
    // Nobody seems gone now, so the next probe is sent after the pause, at 600.
    #expect(look(400, to: 800) == [])
    #expect(look(900, to: 900) == [.coordinatorsChanged])
  }

  /// This process stood still: the others were not silent, it was deaf.
  @Test mutating func aPauseOfOnesOwnClearsIt() {
    hear([1])
    #expect(look(600, to: 800) == [])
    #expect(membership.receivedOwnHeartbeat(now: at(5000)) == [])
    #expect(membership.probes(now: at(5000)).count == 0)
    #expect(membership.coordinators.count == 1)
  }
}
