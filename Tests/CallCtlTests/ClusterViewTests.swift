import CallTelemetry
import Testing
import callctl

/// Nodes as they might answer.
enum Sample {
  static func edge(_ name: String, process: Int32 = 10) -> NodeStatus {
    var edge = EdgeStatus()
    edge.connections = 3
    edge.sessions = 2
    edge.commandLatency = LatencySummary(count: 10, p50: 400, p90: 900, p99: 2500, max: 150_000)
    var status = node(name, role: "edge", process: process)
    status.uptimeSeconds = 100
    status.cpuSeconds = 10
    status.memoryBytes = 120_000_000
    status.edge = edge
    return status
  }

  static func coordinator(_ name: String, shards: [Int], process: Int32 = 20) -> NodeStatus {
    var coordinator = CoordinatorStatus()
    coordinator.shards = shards.map { shard($0) }
    coordinator.appendsTotal = 100
    coordinator.journalMessages = 12
    coordinator.journalBytes = 34_567
    var status = node(name, role: "coordinator", process: process)
    status.uptimeSeconds = 7300
    status.cpuSeconds = 73
    status.memoryBytes = 35_400_000
    status.coordinator = coordinator
    return status
  }

  static func shard(_ number: Int, state: String = "serving", epoch: UInt64 = 1) -> ShardStatus {
    var status = ShardStatus()
    (status.shard, status.state, status.epoch, status.sequence) = (number, state, epoch, 9)
    (status.placed, status.ringing, status.answered, status.endedKept) = (1, 2, 3, 4)
    (status.sessions, status.registrations) = (5, 6)
    status.callsPlacedTotal = 100
    status.callsAnsweredTotal = 50
    status.callsEndedTotal = 40
    (status.deliveriesTotal, status.deliveryRepeatsTotal) = (1000, 10)
    return status
  }

  private static func node(_ name: String, role: String, process: Int32) -> NodeStatus {
    var status = NodeStatus(
      node: name, role: role, state: "serving", version: "0.1.0", shardCount: 4)
    status.processID = process
    status.bus.connected = true
    status.bus.server = "nats://127.0.0.1:4222"
    status.bus.serverVersion = "2.9.10"
    return status
  }

  static var healthy: [NodeStatus] {
    [
      coordinator("c1", shards: [0, 1]), coordinator("c2", shards: [2, 3], process: 21), edge("e1"),
    ]
  }
}

@Suite struct ClusterViewTests {
  @Test func replicasOnServersThatMayLoseThemAreNoted() {
    var nodes = Sample.healthy
    nodes[0].coordinator?.journalReplicas = 1
    #expect(ClusterView(nodes).notes == [])
    nodes[0].coordinator?.journalReplicas = 3
    let view = ClusterView(nodes)
    #expect(view.notes.count == 1 && view.notes[0].contains("2.9.10 with 3 replicas"))
    #expect(view.problems == [])
    for index in nodes.indices { nodes[index].bus.serverVersion = "2.15.1" }
    #expect(ClusterView(nodes).notes == [])
  }

  @Test func aHealthyCluster() {
    let view = ClusterView(Sample.healthy)
    #expect(view.problems == [])
    #expect(view.notes == [])
    #expect(view.owners == [["c1"], ["c1"], ["c2"], ["c2"]])
    #expect(
      [view.calls.placed, view.calls.ringing, view.calls.answered, view.calls.endedKept] == [
        4, 8, 12, 16,
      ])
    #expect([view.connections, view.sessions, view.registrations] == [3, 2, 24])
    #expect(view.nodes.map { Int($0.cpuPercent.rounded()) } == [1, 1, 10])
    #expect(view.journal.messages == 12)
  }

  @Test func ratesAreWhatGrewBetweenTwoSamples() throws {
    let before = Sample.healthy
    var now = before
    now[0].coordinator?.shards[0].callsPlacedTotal += 40
    now[0].coordinator?.shards[0].deliveriesTotal += 100
    now[1].coordinator?.appendsTotal += 10
    now[2].cpuSeconds += 1
    let view = ClusterView(now, earlier: before, seconds: 2)
    #expect(view.rates.callsPlaced == 20)
    #expect(view.rates.deliveries == 50)
    #expect(view.rates.appends == 5)
    #expect(view.nodes[2].cpuPercent == 50)
  }

  @Test func aShardThatMovedCountsFromTheNextSampleOn() {
    let before = Sample.healthy
    var now = before
    now[0].coordinator?.shards[0].epoch = 2
    now[0].coordinator?.shards[0].callsPlacedTotal = 5000
    now[1].processID = 99
    now[1].coordinator?.appendsTotal = 5000
    let view = ClusterView(now, earlier: before, seconds: 1)
    #expect(view.rates.callsPlaced == 0)
    #expect(view.rates.appends == 0)
  }

  @Test func ofOneSampleRatesAreThoseSinceStart() {
    let view = ClusterView(Sample.healthy)
    #expect(view.rates.overSeconds == nil)
    #expect(view.rates.callsPlaced == 400.0 / 7300)
  }

  @Test func shardsWithoutOwnerInRecoveryAndWithTwoOwners() {
    var nodes = [Sample.coordinator("c1", shards: [0]), Sample.coordinator("c2", shards: [0])]
    nodes[1].coordinator?.shards.append(Sample.shard(1, state: "recovering"))
    let view = ClusterView(nodes + [Sample.edge("e1")])
    #expect(view.unowned == [2, 3])
    #expect(view.recovering == [1])
    #expect(view.contested == [0])
    #expect(view.problems.count == 3)
    #expect(view.problems[0].hasPrefix("Shards 2–3 are without an owner"))
    #expect(view.problems[1].hasPrefix("Shard 1 is being read back"))
    #expect(view.problems[2].hasPrefix("Shard 0 is with two owners"))
  }

  @Test func aStoppedShardHasNoOwnerAndSaysWhatToDo() {
    var nodes = [Sample.coordinator("c1", shards: [0, 1, 3]), Sample.edge("e1")]
    nodes[0].coordinator?.shards.append(Sample.shard(2, state: "stopped"))
    nodes[0].coordinator?.stopped = [
      StoppedShard(
        shard: 2, what: "journal", sequence: 17, reason: "it is damaged", remedy: "Repair it.")
    ]
    let view = ClusterView(nodes)
    #expect(view.owners[2] == [])
    #expect(view.unowned == [], "it is one problem, not two")
    #expect(
      view.problems == [
        "Shard 2 is stopped: its journal, record 17 cannot be read (it is damaged). Its users "
          + "cannot be called. Repair it."
      ])
    let text = StatusText.render(view, cluster: "c", url: "nats://x", color: false)
    #expect(text.contains("  ! Shard 2 is stopped: its journal, record 17"))
    #expect(text.contains("3 of 4 have an owner: c1 3"))
  }

  @Test func aShardThatAnotherNodeServesIsNotStopped() {
    var nodes = [
      Sample.coordinator("c1", shards: [0, 1]), Sample.coordinator("c2", shards: [2, 3]),
      Sample.edge("e1"),
    ]
    nodes[0].coordinator?.stopped = [
      StoppedShard(shard: 2, what: "lease", sequence: nil, reason: "newer", remedy: "Upgrade.")
    ]
    #expect(ClusterView(nodes).problems == [])
  }

  @Test func noEdgeNoCoordinator() {
    let view = ClusterView([Sample.coordinator("c1", shards: [0, 1, 2, 3])])
    #expect(view.problems.count == 1)
    #expect(view.problems[0].hasPrefix("No edge serves"))
    let other = ClusterView([Sample.edge("e1")])
    #expect(other.problems.count == 1)
    #expect(other.problems[0].hasPrefix("No coordinator answers"))
  }

  @Test(
    arguments: [
      (15, nil), (14, "expires in 14 days"), (1, "expires in 1 day"),
      (0, "expires in less than a day"),
      (-1, "has expired"),
    ] as [(Int64, String?)])
  func aCertificateThatExpires(days: Int64, said: String?) {
    let now: Int64 = 1_800_000_000
    var node = Sample.edge("e1")
    node.edge?.certificateExpires = now + days * 86_400 + (days < 0 ? 0 : 3600)
    if days == 14 { node.edge?.certificateExpires = now + 14 * 86_400 }
    let problems = ClusterView([node], wallSeconds: now).problems.filter {
      $0.contains("certificate")
    }
    guard let said else { return #expect(problems == []) }
    #expect(problems.count == 1 && problems[0].contains("e1 \(said)"), "\(problems)")
  }

  @Test("a webhook that answers 410 is a problem, with what to do") func webhooksGone() {
    let view = ClusterView(Sample.healthy, webhooksGone: ["demo at app.example"])
    #expect(!view.isHealthy && view.problems.count == 1)
    #expect(view.problems[0].hasPrefix("The webhook of app demo at app.example answers 410"))
    #expect(view.problems[0].contains("callctl webhooks"))
  }

  @Test func hooksThatDoNotAnswer() {
    var nodes = [Sample.edge("e2"), Sample.edge("e1"), Sample.edge("e3")]
    #expect(!ClusterView(nodes).problems.contains { $0.contains("hook") })
    nodes[0].edge?.hooksAway = ["shop", "demo"]
    nodes[1].edge?.hooksAway = ["demo"]
    let problems = ClusterView(nodes).problems.filter { $0.contains("hook") }
    #expect(problems.count == 2)
    #expect(problems[0].hasPrefix("The hook of app demo does not answer e1, e2: "))
    #expect(problems[1].hasPrefix("The hook of app shop does not answer e2: "))
  }

  @Test func nodesThatDisagree() {
    var nodes = Sample.healthy
    nodes[2].shardCount = 8
    nodes[1].node = "c1"
    nodes[0].version = "0.2.0"
    nodes[0].state = "leaving"
    let view = ClusterView(nodes)
    #expect(
      view.problems.contains { $0.hasPrefix("Nodes disagree on the number of shards (4, 8)") })
    #expect(view.problems.contains { $0.hasPrefix("2 nodes call themselves c1") })
    #expect(view.notes == ["Versions differ: 0.1.0, 0.2.0.", "c1 is draining."])
  }

  @Test func whatGrowsIsAProblemWhatStandsIsNot() {
    var before = Sample.healthy
    before[0].coordinator?.appendsRefusedTotal = 3
    before[0].bus.dropped = 3
    #expect(ClusterView(before, earlier: before, seconds: 1).isHealthy)
    var now = before
    now[0].coordinator?.appendsRefusedTotal = 4
    now[0].coordinator?.appendsUnknownTotal = 1
    now[0].bus.dropped = 5
    now[2].edge?.commandsTimedOutTotal = 2
    now[1].bus.connected = false
    let problems = ClusterView(now, earlier: before, seconds: 1).problems
    #expect(problems.count == 5)
    #expect(problems.contains { $0.hasPrefix("The journal refused 1 appends of c1") })
    #expect(problems.contains { $0.hasPrefix("c1 dropped 2 messages") })
    #expect(problems.contains { $0.hasPrefix("c2 has lost NATS") })
  }

  @Test func nonsenseFromANodeDoesNoHarm() {
    var node = Sample.coordinator("c1", shards: [0, 1, 2, 3, 99, -1])
    node.uptimeSeconds = 0
    node.cpuSeconds = -1
    #expect(ClusterView([node]).nodes[0].cpuPercent == 0)
    node.shardCount = -5
    #expect(ClusterView([node]).owners == [])
    #expect(ClusterView([]).problems.count == 2)
  }

  @Test func ranges() {
    #expect(ClusterView.ranges([3]) == "3")
    #expect(ClusterView.ranges([3, 7, 8, 9]) == "3, 7–9")
    #expect(
      ClusterView.ranges(Array(stride(from: 0, to: 40, by: 2)))
        == "0, 2, 4, 6, 8, 10, 12, 14, and 12 more")
  }
}
