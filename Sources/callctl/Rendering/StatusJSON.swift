internal import CallTelemetry
internal import FoundationEssentials

/// `callctl status --json`: names are stable.
package struct StatusJSON: Encodable {
  struct Shards: Encodable {
    var count: Int
    var served: Int
    var withoutOwner: [Int]
    var recovering: [Int]
    var withTwoOwners: [Int]
    var stopped: [Int]
    var byOwner: [String: Int]
  }
  struct Calls: Encodable {
    var placed: Int
    var ringing: Int
    var answered: Int
    var endedKept: Int
  }
  struct Rates: Encodable {
    var callsPlaced: Double
    var callsAnswered: Double
    var callsEnded: Double
    var commands: Double
    var deliveries: Double
    var deliveryRepeats: Double
    var appends: Double
    /// Between two samples; else since start.
    var overSeconds: Double?
  }
  struct Latency: Encodable {
    var command: LatencySummary?
    var append: LatencySummary?
    var ring: LatencySummary?
    var handover: LatencySummary?
    var takeover: LatencySummary?
  }
  struct Journal: Encodable {
    var messages: UInt64
    var bytes: UInt64
    var appendsTotal: UInt64
    var appendsRefusedTotal: UInt64
    var appendsUnknownTotal: UInt64
  }
  struct Push: Encodable {
    /// Jobs in the work queue, by lane.
    var queue: [String: Int]?
    var outcomes: [String: UInt64]
    var outcomesPerSecond: [String: Double]
  }
  struct Node: Encodable {
    var cpuPercent: Double
    var status: NodeStatus
  }

  var cluster: String
  var healthy: Bool
  var problems: [String]
  var notes: [String]
  var shards: Shards
  var calls: Calls
  var connections: Int
  var sessions: Int
  var registrations: Int
  var perSecond: Rates
  var latencyMicroseconds: Latency
  var journal: Journal
  var push: Push
  var nodes: [Node]

  package init(_ view: ClusterView, cluster: String) {
    self.cluster = cluster
    healthy = view.isHealthy
    problems = view.problems
    notes = view.notes
    var byOwner: [String: Int] = [:]
    for owner in view.owners.joined() { byOwner[owner, default: 0] += 1 }
    shards = Shards(
      count: view.shardCount, served: view.owners.count { !$0.isEmpty },
      withoutOwner: view.unowned, recovering: view.recovering.sorted(),
      withTwoOwners: view.contested, stopped: view.stopped.keys.sorted(), byOwner: byOwner)
    calls = Calls(
      placed: view.placed, ringing: view.ringing, answered: view.answered,
      endedKept: view.endedKept)
    connections = view.connections
    sessions = view.sessions
    registrations = view.registrations
    perSecond = Rates(
      callsPlaced: view.rates.callsPlaced, callsAnswered: view.rates.callsAnswered,
      callsEnded: view.rates.callsEnded, commands: view.rates.commands,
      deliveries: view.rates.deliveries, deliveryRepeats: view.rates.deliveryRepeats,
      appends: view.rates.appends, overSeconds: view.seconds)
    latencyMicroseconds = Latency(
      command: view.commandLatency, append: view.appendLatency, ring: view.ringLatency,
      handover: view.handoverPause, takeover: view.takeoverPause)
    journal = Journal(
      messages: view.journalMessages, bytes: view.journalBytes, appendsTotal: view.appendsTotal,
      appendsRefusedTotal: view.appendsRefusedTotal, appendsUnknownTotal: view.appendsUnknownTotal)
    push = Push(
      queue: view.pushQueue, outcomes: view.pushOutcomes, outcomesPerSecond: view.pushRates)
    nodes = view.nodes.map { Node(cpuPercent: $0.cpuPercent, status: $0.status) }
  }
}

/// JSON for scripts: sorted keys, so that two outputs can be compared.
package enum JSONOutput {
  package static func text(_ value: some Encodable, onOneLine: Bool = false) throws -> String {
    let encoder = JSONEncoder()
    encoder.outputFormatting =
      onOneLine
      ? [.sortedKeys, .withoutEscapingSlashes]
      : [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes]
    return String(decoding: try encoder.encode(value), as: UTF8.self)
  }
}
