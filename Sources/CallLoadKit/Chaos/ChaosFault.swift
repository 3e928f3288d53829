package import CallCore
package import CallProcesses

/// One fault, as the judge has to know it.
package struct ChaosFault: Sendable, Equatable {
  package var id: Int
  package var kind: ChaosKind
  package var node: String
  package var role: ProcessRole
  /// Edges concerned, by their index among the edges' URLs.
  package var edges: [Int]
  /// The shards that the node had when it happened; of NATS, all.
  package var shards: [Int]

  package init(
    id: Int, kind: ChaosKind, node: String, role: ProcessRole, edges: [Int] = [], shards: [Int] = []
  ) {
    self.id = id
    self.kind = kind
    self.node = node
    self.role = role
    self.edges = edges
    self.shards = shards
  }

  /// Whether the process concerned has shards.
  package var isOfCoordinator: Bool { role == .coordinator || role == .node }

  /// The coordinator's name in the cluster.
  package var coordinator: String { role == .node ? Self.coordinator(of: node) : node }

  static func coordinator(of node: String) -> String { "\(node)-coordinator" }

  /// Whether messages between cluster and devices get lost or wait, so that they are retransmitted.
  package var losesMessages: Bool { kind.isOfNATS || keepsDevicesWaiting }

  /// Whether an edge keeps its devices' connections, and messages in both directions wait.
  package var keepsDevicesWaiting: Bool {
    kind == .freezeEdge || kind == .freezeAllEdges || kind == .partition
      || role == .node && kind.means == .freeze
  }

  /// Whether a former owner's messages may reach devices after those of the next owner.
  package var delaysMessages: Bool {
    switch kind.means {
    case .cut: true
    case .freeze: role != .edge
    case .kill, nil: false
    }
  }

  /// After its end something may be late by this much: a shard retransmits after up to 4 s, an edge after 1 s.
  package var afterglow: Span { .milliseconds(losesMessages ? 4_500 : 1_500) }
}

package enum FaultStep: Sendable {
  /// It happens at this very moment. What it disturbs is excused from now on.
  case begins(ChaosFault)
  /// It has happened. The shards concerned are probed from now on.
  case happened(ChaosFault)
  /// It concerns these shards too, or again, since not long ago.
  case widened(ChaosFault, by: [Int])
  /// The process runs again, or the network is whole again.
  case lifted(ChaosFault)
  /// Something that no fault explains.
  case incident(String)
}

/// The effects of faults on devices and shards, as seen from outside. Times in microseconds.
package struct ChaosResult: Sendable {
  /// One fault that took shards away, until every one of them answered again.
  package struct TakeOver: Sendable, Equatable {
    package var fault: Int
    package var kind: ChaosKind
    package var node: String
    package var atSeconds: Double
    package var shards: Int
    /// nil where some shard never answered.
    package var microseconds: UInt64?

    package init(
      fault: Int, kind: ChaosKind, node: String, atSeconds: Double, shards: Int,
      microseconds: UInt64?
    ) {
      self.fault = fault
      self.kind = kind
      self.node = node
      self.atSeconds = atSeconds
      self.shards = shards
      self.microseconds = microseconds
    }
  }

  /// One fault, and the devices that lost their sessions by it.
  package struct Course: Sendable, Equatable {
    package var fault: Int
    package var kind: ChaosKind
    package var node: String
    /// Since the load began.
    package var atSeconds: Double
    /// nil where the run ended before.
    package var liftedSeconds: Double?
    package var disconnected = 0
    /// Those of them that had no session long after the fault was lifted.
    package var neverBack = 0
    /// From the fault until the last of them that came back was attached.
    package var allBackMicroseconds: UInt64 = 0

    package init(fault: Int, kind: ChaosKind, node: String, atSeconds: Double) {
      self.fault = fault
      self.kind = kind
      self.node = node
      self.atSeconds = atSeconds
    }
  }

  /// The fate of a call that was placed during a fault.
  package enum Fate: String, CaseIterable, Sendable {
    case asPlanned = "as_planned"
    /// With "try again" or the like.
    case refused
    /// It ended in another way, which the fault explains: late, so for example rung out.
    case changed
    /// A rule was broken, or nothing explains its end.
    case wrong
  }

  package var injected: [ChaosKind: Int] = [:]
  package var placedDuring: [ChaosKind: [Fate: Int]] = [:]
  package var takeOvers: [TakeOver] = []
  package var courses: [Course] = []
  /// Sentences about probes that got no answer for long.
  package var slow: [String] = []
  package var shardSilence: [ChaosKind: LatencyHistogram] = [:]
  /// The longest wait of a probe, for each shard in planned changes.
  package var handOver = LatencyHistogram()
  /// From a command's first sending to its reply.
  package var commandWait = LatencyHistogram()
  /// From a broken connection to the next one that is attached.
  package var reconnect = LatencyHistogram()
  package var commandsRetried = 0
  package var reconnects = 0
  /// Calls that a fault made end otherwise than planned: outcome and fault → count.
  package var changed: [String: Int] = [:]

  package init() {}

  package var changedCount: Int { changed.values.reduce(0, +) }
  package var longestSilence: UInt64 { max(commandWait.max, reconnect.max) }
  /// Devices that lost their sessions and never came back. Nothing excuses that.
  package var neverBack: Int { courses.reduce(0) { $0 + $1.neverBack } }
  /// Faults after which some shard never answered again. Nothing excuses that.
  package var neverAnswered: Int { takeOvers.count { $0.microseconds == nil } }
}
