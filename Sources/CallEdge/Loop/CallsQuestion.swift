package import CallCore

/// A device's question for its live calls: it is scattered to all shards, and this gathers their answers.
package struct CallsQuestion {
  /// Who asked, and under which request id.
  package let asker: UInt64
  package let request: UInt64
  /// How many shards have not answered.
  private var open: Int
  private var live = LiveCalls()

  package init(asker: UInt64, request: UInt64, shardCount: Int) {
    self.asker = asker
    self.request = request
    open = shardCount
  }

  package enum Progress: Equatable {
    case waiting
    /// Every shard has answered.
    case complete(LiveCalls)
    /// A shard has no answer: the list would be incomplete.
    case failed
  }

  /// Adds one shard's answer. To be called once for each shard, and not after the end.
  package mutating func take(_ reply: Reply) -> Progress {
    guard case .calls(let part) = reply else { return .failed }
    live.placed += part.placed.prefix(LiveCalls.countMaximum - live.placed.count)
    live.received += part.received.prefix(LiveCalls.countMaximum - live.received.count)
    open -= 1
    return open > 0 ? .waiting : .complete(live)
  }
}
