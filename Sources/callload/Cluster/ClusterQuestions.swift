import FoundationEssentials
import Synchronization

/// What operators ask a cluster, asked with their tool.
package struct ClusterQuestions: Sendable {
  let callctlPath: String
  let natsURL: String
  let cluster: String
  let folder: TemporaryFolder
  private static let number = Atomic(0)

  /// The part of `callctl status --json` that is looked at.
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
    struct Node: Decodable, Sendable { var status: NodeStatus }
    var registrations: Int
    var nodes: [Node]

    /// The shards that a coordinator has, also those that it has just taken or is about to give away:
    /// whatever befalls it befalls them. Nothing where it did not answer.
    package func shards(of node: String) -> [Int]? {
      let status = nodes.first { $0.status.node == node }?.status
      return status?.coordinator?.shards.filter { $0.state != "stopped" }.map(\.shard)
    }

    /// The shards that no coordinator but `node` serves, of so many.
    package func unserved(without node: String, of count: Int) -> Set<Int> {
      let others = nodes.lazy.filter { $0.status.node != node }
      let served = others.flatMap { $0.status.coordinator?.shards ?? [] }
        .filter { $0.state == "serving" }
      return Set(0..<count).subtracting(served.map(\.shard))
    }
  }

  /// - Parameter window: how long nodes may take to answer.
  /// - Returns: nothing where nobody answers.
  package func status(window: Double = 0.2) async -> Status? {
    let output = await ask(["status", "--json", "--once", "--timeout", "\(window)"])
    return output.flatMap { try? JSONDecoder().decode(Status.self, from: $0) }
  }

  /// The shards that a coordinator has; nothing where it does not answer for seconds.
  package func shards(of node: String) async -> [Int]? {
    for window in [0.2, 0.6, 1.5] {
      if let found = await status(window: window)?.shards(of: node) { return found }
    }
    return nil
  }

  /// - Returns: whether callctl was content.
  package func drain(_ node: String) async -> Bool {
    await run(["drain", node, "--wait", "--timeout", "30"])?.end == .exited(0)
  }

  package func resume(_ node: String) async -> Bool {
    await run(["resume", node])?.end == .exited(0)
  }

  private func ask(_ words: [String]) async -> Data? { await run(words)?.output }

  private func run(_ words: [String]) async -> (end: ProcessEnd, output: Data)? {
    let path = folder.file("callctl-\(Self.number.add(1, ordering: .relaxed).newValue).out")
    let command = ChildCommand(
      name: "callctl", executable: callctlPath,
      arguments: words + ["--nats-url", natsURL, "--cluster", cluster], logPath: path)
    guard let child = try? await ChildLauncher.start(command) else { return nil }
    let deadline = ContinuousClock.now + .seconds(40)
    while child.poll() == nil, ContinuousClock.now < deadline { await Pause.milliseconds(5) }
    child.send(9)
    while child.poll() == nil { await Pause.milliseconds(2) }
    defer { try? FileManager.default.removeItem(atPath: path) }
    guard let end = child.poll(), let output = FileManager.default.contents(atPath: path) else {
      return nil
    }
    return (end, output)
  }
}
