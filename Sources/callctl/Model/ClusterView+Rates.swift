internal import CallTelemetry

extension ClusterView {
  /// From two samples: what each shard and node counted between them. A shard that changed its
  /// owner, or a node that is new, counts from the next sample on. From one sample: what they
  /// counted since they began, over the longest time that a node has been up.
  mutating func addRates(
    _ now: [NodeStatus], before: [Identity: NodeStatus], seconds: Double
  ) {
    let isOneSample = rates.overSeconds == nil
    let time = isOneSample ? now.map(\.uptimeSeconds).max() ?? 0 : seconds
    guard time > 0.001 else { return }
    var sums = Rates()
    for status in now {
      let past = before[Identity(status)]
      if !isOneSample, past == nil { continue }
      sums.commands += Self.grown(
        status.coordinator?.commandsTotal, past?.coordinator?.commandsTotal)
      sums.appends += Self.grown(status.coordinator?.appendsTotal, past?.coordinator?.appendsTotal)
      let pastShards = Dictionary(
        (past?.coordinator?.shards ?? []).map { ($0.shard, $0) },
        uniquingKeysWith: { first, _ in first })
      for shard in status.coordinator?.shards ?? [] {
        let pastShard = pastShards[shard.shard].flatMap { $0.epoch == shard.epoch ? $0 : nil }
        if !isOneSample, pastShard == nil { continue }
        sums.callsPlaced += Self.grown(shard.callsPlacedTotal, pastShard?.callsPlacedTotal)
        sums.callsAnswered += Self.grown(shard.callsAnsweredTotal, pastShard?.callsAnsweredTotal)
        sums.callsEnded += Self.grown(shard.callsEndedTotal, pastShard?.callsEndedTotal)
        sums.deliveries += Self.grown(shard.deliveriesTotal, pastShard?.deliveriesTotal)
        sums.deliveryRepeats += Self.grown(
          shard.deliveryRepeatsTotal, pastShard?.deliveryRepeatsTotal)
      }
    }
    rates = Rates(
      callsPlaced: sums.callsPlaced / time, callsAnswered: sums.callsAnswered / time,
      callsEnded: sums.callsEnded / time, commands: sums.commands / time,
      deliveries: sums.deliveries / time, deliveryRepeats: sums.deliveryRepeats / time,
      appends: sums.appends / time, overSeconds: rates.overSeconds)
  }

  static func grown(_ now: UInt64?, _ before: UInt64?) -> Double {
    let (now, before) = (now ?? 0, before ?? 0)
    return now > before ? Double(now - before) : 0
  }
}
