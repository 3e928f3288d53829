import CallProcesses
import CallTelemetry

/// Queries and orders to a cluster through callctl, the operators' tool.
package struct CallctlRunner: Sendable {
  let callctlPath: String
  let natsURL: String
  let cluster: String

  /// The members of `callctl status --json` that are used.
  package struct Status: Decodable, Sendable {
    struct Shard: Decodable, Sendable {
      var shard: Int
      var state: String
    }
    struct Coordinator: Decodable, Sendable { var shards: [Shard] }
    struct NodeStatus: Decodable, Sendable {
      var node: String
      var coordinator: Coordinator?
    }
    struct Node: Decodable, Sendable {
      var status: NodeStatus
      var served: [Int] {
        (status.coordinator?.shards ?? []).filter { $0.state == "serving" }.map(\.shard)
      }
    }
    var registrations: Int
    var nodes: [Node]

    /// The shards that a coordinator has, takes or gives away; nil where it did not answer.
    package func shards(of node: String) -> [Int]? {
      let status = nodes.first { $0.status.node == node }?.status
      return status?.coordinator?.shards.filter { $0.state != "stopped" }.map(\.shard)
    }

    /// The shards, of `count`, that none of these coordinators serves; nil where one of them did not answer.
    package func unserved(by coordinators: [String], of count: Int) -> Set<Int>? {
      var unserved = Set(0..<count)
      for name in coordinators {
        guard let node = nodes.first(where: { $0.status.node == name }),
          node.status.coordinator != nil
        else { return nil }
        unserved.subtract(node.served)
      }
      return unserved
    }

    package var servedCount: Int { Set(nodes.flatMap(\.served)).count }
  }

  /// - Parameter window: the time in seconds in which nodes may answer.
  /// - Returns: nil without an answer within `timeout`.
  package func status(window: Double = 0.2, timeout: Duration = .seconds(40)) async -> Status? {
    let words = ["status", "--json", "--once", "--timeout", "\(window)"]
    let output = await run(words, timeout: timeout)?.text
    return output.flatMap { try? BoundedJSON.read(Status.self, Array($0.utf8)) }
  }

  /// The shards that a coordinator has; nil where it does not answer for seconds.
  package func shards(of node: String) async -> [Int]? {
    for window in [0.2, 0.6, 1.5] {
      if let found = await status(window: window)?.shards(of: node) { return found }
    }
    return nil
  }

  private static let orderSeconds: Int64 = 30

  /// - Returns: whether callctl succeeded.
  package func drain(_ node: String) async -> Bool {
    await order { left in ["drain", node, "--wait", "--wait-timeout", "\(left)"] }
  }

  package func resume(_ node: String) async -> Bool { await order { _ in ["resume", node] } }

  /// Retries, since nats-server or the node may be away.
  private func order(_ words: (_ secondsLeft: Int64) -> [String]) async -> Bool {
    let end = ContinuousClock.now + .seconds(Self.orderSeconds)
    while case let left = (end - .now).components.seconds, left > 0 {
      let outcome = await run(words(left), timeout: .seconds(left + 10))
      if outcome?.end == .exited(0) { return true }
      await Pause.milliseconds(500)
    }
    return false
  }

  /// nil where it does not start.
  private func run(
    _ words: [String], timeout: Duration = .seconds(40)
  ) async -> CommandOutput? {
    try? await CommandOutput.of(
      ChildCommand(
        name: "callctl", executable: callctlPath,
        arguments: words + ["--nats-url", natsURL, "--cluster", cluster]), timeout: timeout)
  }
}
