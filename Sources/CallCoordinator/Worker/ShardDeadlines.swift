package import CallCore

/// The next deadline of each shard. The earliest one is known, and changing one costs a few steps.
package struct ShardDeadlines {
  /// A tournament: the node at `i` has the earlier one of those at `2 * i` and `2 * i + 1`. The root is at 1; the last
  /// half are the shards'.
  private var nodes: [Timestamp]
  private let firstShard: Int

  package init(shardCount: Int) {
    var leaves = 1
    while leaves < shardCount { leaves *= 2 }
    firstShard = leaves
    nodes = Array(repeating: .distantFuture, count: 2 * leaves)
  }

  package var earliest: Timestamp { nodes[1] }

  package subscript(shard: Int) -> Timestamp {
    get { nodes[firstShard + shard] }
    set {
      var node = firstShard + shard
      nodes[node] = newValue
      while node > 1 {
        node /= 2
        let winner = min(nodes[2 * node], nodes[2 * node + 1])
        if nodes[node] == winner { return }
        nodes[node] = winner
      }
    }
  }

  /// Calls `body` with the shards that are due, in their order.
  package func forEach(until now: Timestamp, _ body: (Int) -> Void) { visit(1, until: now, body) }

  private func visit(_ node: Int, until now: Timestamp, _ body: (Int) -> Void) {
    guard nodes[node] <= now else { return }
    guard node < firstShard else { return body(node - firstShard) }
    visit(2 * node, until: now, body)
    visit(2 * node + 1, until: now, body)
  }
}
