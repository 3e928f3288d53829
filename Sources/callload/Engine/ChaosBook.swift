import CallCore
package import Histogram

/// What faults did to devices and shards, as seen from outside. Times in microseconds.
package struct ChaosResult: Sendable {
  /// One fault that took shards away: until every one of them answered again.
  package struct TakeOver: Sendable, Equatable {
    package var kind: ChaosKind
    package var node: String
    package var atSeconds: Double
    package var shards: Int
    /// Nothing where not all of them ever answered.
    package var microseconds: UInt64?
  }

  /// What became of a call that was placed while a fault was on.
  package enum Fate: String, CaseIterable, Sendable {
    case asPlanned = "as_planned"
    /// With "try again" or the like.
    case refused
    /// It ended in another way, as the fault explains: late, so for example rung out.
    case changed
    /// A rule was broken, or nothing explains its end.
    case wrong
  }

  package var injected: [ChaosKind: Int] = [:]
  package var placedDuring: [ChaosKind: [Fate: Int]] = [:]
  package var takeOvers: [TakeOver] = []
  /// What was waited for at length, and how it stood: sentences.
  package var slow: [String] = []
  /// Of each shard, by kind of fault.
  package var shardSilence: [ChaosKind: Histogram<UInt32>] = [:]
  /// Of each shard in planned changes: the longest that a question waited.
  package var handOver = LatencyBook.histogram()
  /// From a command's first sending to its reply.
  package var commandWait = LatencyBook.histogram()
  /// From a broken connection to the next one that is attached.
  package var reconnect = LatencyBook.histogram()
  package var commandsRetried = 0
  package var reconnects = 0
  /// Calls that a fault made end otherwise than planned: outcome and fault → count.
  package var changed: [String: Int] = [:]

  package var changedCount: Int { changed.values.reduce(0, +) }
  package var longestSilence: UInt64 { max(commandWait.max, reconnect.max) }
  /// Shards that never answered again: nothing excuses that.
  package var neverAnswered: Int { takeOvers.count { $0.microseconds == nil } }

  static func record(_ span: Span, in histogram: inout Histogram<UInt32>) {
    _ = histogram.record(min(LatencyBook.highest, UInt64(max(1, span.microseconds))))
  }
}
