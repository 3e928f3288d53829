package import CallTelemetry

/// A node that is drained or resumed, from the answers of all nodes: pure, so that it can be tested.
package struct DrainView: Sendable, Equatable {
  package enum Refusal: Sendable, Equatable {
    case unknownNode(known: [String])
    /// Several processes have the name.
    case ambiguous(Int)
    /// Nobody would be left to serve: `what` is "edge" or "coordinator".
    case last(what: String)

    package func sentence(node: String) -> String {
      switch self {
      case .unknownNode(let known):
        "no node \(node) answers; there are \(known.isEmpty ? "none" : known.joined(separator: ", "))."
      case .ambiguous(let count):
        "\(count) processes call themselves \(node): stop them by signal, and give each a --node-id "
          + "of its own."
      case .last(let what):
        "\(node) is the only \(what) that serves: without it "
          + (what == "edge" ? "no device can connect." : "no call can be placed.")
          + " Start another first, or say --force."
      }
    }
  }

  /// Of one name; an edge and a coordinator where `callnode all` runs.
  package var nodes: [NodeStatus]

  /// - Parameter statuses: of all nodes.
  package init(_ statuses: [NodeStatus], node: String) {
    nodes = statuses.filter { $0.node == node }
  }

  /// Why the node should not be drained.
  package static func refusal(_ statuses: [NodeStatus], node: String, force: Bool) -> Refusal? {
    let named = statuses.filter { $0.node == node }
    guard !named.isEmpty else {
      return .unknownNode(known: Set(statuses.map(\.node)).sorted())
    }
    let processes = Set(named.map(\.processID)).count
    if processes > 1 || Set(named.map(\.role)).count < named.count {
      return .ambiguous(max(processes, named.count))
    }
    if force { return nil }
    let others = statuses.filter { $0.node != node && $0.isServing }
    for status in named where status.isServing {
      if !others.contains(where: { $0.role == status.role }) { return .last(what: status.role) }
    }
    return nil
  }

  package var sessions: Int { nodes.reduce(into: 0) { $0.add($1.edge?.sessions ?? 0) } }

  /// Shards that it still has to hand over. It does not hold those that it cannot read.
  package var shards: Int {
    nodes.reduce(0) { $0 + ($1.coordinator?.shardsHeld ?? 0) }
  }

  /// The node gave everything up; true also when it has ended.
  package var isDrained: Bool {
    nodes.allSatisfy { ShownState.of($0) == NodePhase.drained.rawValue }
  }

  package var isServing: Bool { nodes.allSatisfy { $0.isServing } }

  /// `draining`, `drained`, …; of two roles the one that is less far.
  package var state: String {
    if nodes.isEmpty { return "ended" }
    let states = nodes.map(ShownState.of)
    return states.first { $0 != NodePhase.drained.rawValue } ?? NodePhase.drained.rawValue
  }

  /// `1200 sessions, 12 shards left`.
  package var left: String {
    var parts: [String] = []
    if nodes.contains(where: { $0.edge != nil }) {
      parts.append(Figures.counted(sessions, "session"))
    }
    if nodes.contains(where: { $0.coordinator != nil }) {
      parts.append(Figures.counted(shards, "shard"))
    }
    return parts.joined(separator: ", ")
  }
}

/// A node's state in the words of operators.
package enum ShownState {
  /// A node that leaves is draining until it holds nothing any more.
  package static func of(_ status: NodeStatus) -> String {
    guard NodePhase(rawValue: status.state) == .leaving else { return status.state }
    let left = status.coordinator?.shardsHeld ?? status.edge?.sessions ?? 0
    return (left > 0 ? NodePhase.draining : .drained).rawValue
  }
}
