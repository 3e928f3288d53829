import Histogram

extension JSONReport {
  /// Only with `--chaos`.
  package struct Chaos: Codable {
    package struct TakeOver: Codable {
      package var kind: String
      package var node: String
      package var atSeconds: Double
      package var shards: Int
      package var microseconds: UInt64?
      enum CodingKeys: String, CodingKey {
        case kind, node, shards
        case atSeconds = "at_seconds"
        case microseconds = "us"
      }
    }
    package struct Summary: Codable {
      package var count: Int
      package var p50: UInt64
      package var p99: UInt64
      package var max: UInt64
    }
    package var injected: [String: Int]
    package var takeOver: [String: Summary]
    package var shardSilence: [String: Summary]
    package var takeOvers: [TakeOver]
    package var handOverPause: Summary?
    package var commandWait: Summary?
    package var reconnect: Summary?
    package var longestSilence: UInt64
    package var commandsRetried: Int
    package var reconnects: Int
    package var callsChanged: [String: Int]
    /// By kind of fault and ``ChaosResult/Fate``.
    package var callsPlacedDuring: [String: [String: Int]]
    package var neverAnswered: Int
    package var slow: [String]
    enum CodingKeys: String, CodingKey {
      case injected, reconnects, slow
      case takeOver = "take_over_us"
      case shardSilence = "shard_silence_us"
      case takeOvers = "take_overs"
      case handOverPause = "hand_over_pause_us"
      case commandWait = "command_wait_us"
      case reconnect = "reconnect_us"
      case longestSilence = "longest_silence_us"
      case commandsRetried = "commands_retried"
      case callsChanged = "calls_changed"
      case callsPlacedDuring = "calls_placed_during"
      case neverAnswered = "never_answered"
    }
  }
}

extension JSONReport.Chaos {
  package init(_ chaos: ChaosResult) {
    injected = Dictionary(
      uniqueKeysWithValues: chaos.injected.map { ($0.key.rawValue, $0.value) })
    takeOver = [:]
    shardSilence = [:]
    for kind in ChaosKind.allCases {
      let found = chaos.takeOvers.filter { $0.kind == kind && $0.shards > 0 }
      takeOver[kind.rawValue] = TakeOverSummary(found.compactMap(\.microseconds)).map {
        Summary(count: $0.count, p50: $0.p50, p99: $0.p99, max: $0.max)
      }
      shardSilence[kind.rawValue] = Self.summary(chaos.shardSilence[kind])
    }
    takeOvers = chaos.takeOvers.map {
      TakeOver(
        kind: $0.kind.rawValue, node: $0.node, atSeconds: ($0.atSeconds * 1000).rounded() / 1000,
        shards: $0.shards, microseconds: $0.microseconds)
    }
    handOverPause = Self.summary(chaos.handOver)
    commandWait = Self.summary(chaos.commandWait)
    reconnect = Self.summary(chaos.reconnect)
    longestSilence = chaos.longestSilence
    commandsRetried = chaos.commandsRetried
    reconnects = chaos.reconnects
    callsChanged = chaos.changed
    callsPlacedDuring = [:]
    for (kind, fates) in chaos.placedDuring {
      let counts = ChaosResult.Fate.allCases.map { ($0.rawValue, fates[$0] ?? 0) }
      callsPlacedDuring[kind.rawValue] = Dictionary(uniqueKeysWithValues: counts)
    }
    neverAnswered = chaos.neverAnswered
    slow = chaos.slow
  }

  private static func summary(_ histogram: Histogram<UInt32>?) -> Summary? {
    Percentiles(histogram).map {
      Summary(count: Int($0.count), p50: $0.p50, p99: $0.p99, max: $0.max)
    }
  }
}
