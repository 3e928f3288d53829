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
    func add(_ rate: WritableKeyPath<Rates, Double>, _ now: UInt64?, _ before: UInt64?) {
      rates[keyPath: rate] += Self.grown(now, before) / time
    }
    for status in now {
      let past = before[Identity(status)]
      if !isOneSample, past == nil { continue }
      let (own, former) = (status.coordinator, past?.coordinator)
      add(\.commands, own?.commandsTotal, former?.commandsTotal)
      add(\.appends, own?.appendsTotal, former?.appendsTotal)
      for shard in own?.shards ?? [] {
        let past = former?.shards.first { $0.shard == shard.shard && $0.epoch == shard.epoch }
        if !isOneSample, past == nil { continue }
        add(\.callsPlaced, shard.callsPlacedTotal, past?.callsPlacedTotal)
        add(\.callsAnswered, shard.callsAnsweredTotal, past?.callsAnsweredTotal)
        add(\.callsEnded, shard.callsEndedTotal, past?.callsEndedTotal)
        add(\.deliveries, shard.deliveriesTotal, past?.deliveriesTotal)
        add(\.deliveryRepeats, shard.deliveryRepeatsTotal, past?.deliveryRepeatsTotal)
      }
    }
  }

  static func grown(_ now: UInt64?, _ before: UInt64?) -> Double {
    let (now, before) = (now ?? 0, before ?? 0)
    return now > before ? Double(now - before) : 0
  }
}
