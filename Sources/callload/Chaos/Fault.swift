/// One fault, as the judge has to know it.
package struct Fault: Sendable, Equatable {
  package var id: Int
  package var kind: ChaosKind
  package var node: String
  package var role: ProcessRole
  /// Of edges, their places among the edges' URLs.
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

  /// Whether messages between cluster and devices get lost or wait, so that they are retransmitted.
  package var losesMessages: Bool { kind.isOfNATS || kind.keepsDevicesWaiting }

  /// How long after its end something may still be late: a shard retransmits after up to 4 s, an edge after 1 s.
  package var afterglowMicroseconds: Int64 { losesMessages ? 4_500_000 : 1_500_000 }
}

/// How far a fault is.
package enum FaultStep: Sendable {
  /// It happens at this very moment. What it disturbs is excused from now on.
  case begins(Fault)
  /// It has happened: from now on the shards concerned are asked.
  case happened(Fault)
  /// It concerns these shards, too, or again, since not long ago.
  case widened(Fault, by: [Int])
  /// The process runs again, the network is whole again.
  case lifted(Fault)
  /// Something that no fault explains.
  case incident(String)
}
