package import CallTelemetry

/// A node that is drained or resumed, from the answers of all nodes. Does no I/O, so that it can be tested.
package struct DrainView: Encodable {
  package enum Refusal: Sendable, Equatable {
    case unknownNode(known: [String])
    /// Several processes have the name.
    case ambiguous(Int)
    /// No other node of its role serves: `what` is "edge" or "coordinator".
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

  package var node: String
  /// `draining`, `drained`, …; of two roles the one that is less far.
  package var state = "ended"
  /// Whether the node has done what was ordered.
  var done = false
  private var sessionsLeft = 0
  /// Shards that it still has to hand over. It does not hold those that it cannot read.
  private var shardsLeft = 0
  /// The time since the order.
  var seconds = 0.0
  /// The node's answers: one for each role.
  var statuses: [NodeStatus]

  private enum CodingKeys: CodingKey { case node, state, done, sessionsLeft, shardsLeft, seconds }

  /// - Parameter all: the answers of all nodes.
  package init(_ all: [NodeStatus], node: String) {
    self.node = node
    statuses = all.filter { $0.node == node }
    for status in statuses {
      sessionsLeft.add(status.edge?.sessions ?? 0)
      shardsLeft.add(status.coordinator?.shardsHeld ?? 0)
    }
    let states = statuses.map(ShownState.of)
    if let least = states.first(where: { $0 != NodePhase.drained.rawValue }) ?? states.first {
      state = least
    }
  }

  /// Returns why the node should not be drained; nil where it may be.
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
    let last = named.first { status in
      status.isServing && !others.contains { $0.role == status.role }
    }
    return last.map { .last(what: $0.role) }
  }

  /// Whether the node gave everything up; true also when it has ended.
  package var isDrained: Bool { statuses.isEmpty || state == NodePhase.drained.rawValue }

  var isServing: Bool { statuses.allSatisfy { $0.isServing } }

  /// `1200 sessions, 12 shards`.
  package var left: String {
    var parts: [String] = []
    if statuses.contains(where: { $0.edge != nil }) {
      parts.append(Figures.counted(sessionsLeft, "session"))
    }
    if statuses.contains(where: { $0.coordinator != nil }) {
      parts.append(Figures.counted(shardsLeft, "shard"))
    }
    return parts.joined(separator: ", ")
  }

  /// - Parameter hasWaited: whether the operator waited for the node.
  func text(hasWaited: Bool) -> String {
    if statuses.isEmpty { return "\(node) has ended.\n" }
    let left = done ? "" : ": \(left) left"
    let time = hasWaited ? " after \(Figures.decimal(seconds)) s" : ""
    return "\(node) is \(state)\(left)\(time).\n"
  }
}

/// A node's state in the words of operators.
package enum ShownState {
  /// A node that leaves is draining until it holds nothing.
  package static func of(_ status: NodeStatus) -> String {
    guard NodePhase(rawValue: status.state) == .leaving else { return status.state }
    let left = status.coordinator?.shardsHeld ?? status.edge?.sessions ?? 0
    return (left > 0 ? NodePhase.draining : .drained).rawValue
  }
}
