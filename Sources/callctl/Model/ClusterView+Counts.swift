internal import CallTelemetry

extension ClusterView {
  /// Adds what a node counted since the earlier sample, or since its start where there is none. A shard that
  /// changed its owner counts from the next sample on.
  /// - Parameter time: in seconds.
  mutating func addRates(_ status: NodeStatus, _ past: NodeStatus?, over time: Double) {
    func add(_ rate: WritableKeyPath<Rates, Double>, _ now: UInt64?, _ before: UInt64?) {
      rates[keyPath: rate] += Self.grown(now, before) / time
    }
    let (own, former) = (status.coordinator, past?.coordinator)
    add(\.commands, own?.commandsTotal, former?.commandsTotal)
    add(\.appends, own?.appendsTotal, former?.appendsTotal)
    for shard in own?.shards ?? [] {
      let before = former?.shards.first { $0.shard == shard.shard && $0.epoch == shard.epoch }
      if past != nil, before == nil { continue }
      add(\.callsPlaced, shard.callsPlacedTotal, before?.callsPlacedTotal)
      add(\.callsAnswered, shard.callsAnsweredTotal, before?.callsAnsweredTotal)
      add(\.callsEnded, shard.callsEndedTotal, before?.callsEndedTotal)
      add(\.deliveries, shard.deliveriesTotal, before?.deliveriesTotal)
      add(\.deliveryRepeats, shard.deliveryRepeatsTotal, before?.deliveryRepeatsTotal)
    }
  }

  static func grown(_ now: UInt64?, _ before: UInt64?) -> Double {
    let (now, before) = (now ?? 0, before ?? 0)
    return now > before ? Double(now - before) : 0
  }
}

/// Push gateways, and the queue that they share.
extension ClusterView {
  package static let pushLanes = ["apns-production", "apns-sandbox", "fcm", "web-push"]
  /// In the order in which they are shown.
  package static let pushOutcomeNames = ["accepted", "tokenGone", "rejected", "failed", "expired"]

  /// - Parameter time: in seconds; nil where the node counts from the next sample on.
  mutating func addPushes(_ status: NodeStatus, _ past: NodeStatus?, over time: Double?) {
    guard let gateway = status.push else { return }
    for pool in gateway.pools {
      let pastPool = past?.push?.pools.first { $0.name == pool.name }
      for (outcome, count) in pool.outcomes {
        push.outcomes[outcome, default: 0].add(count)
        guard let time else { continue }
        let grown = Self.grown(count, pastPool?.outcomes[outcome])
        push.outcomesPerSecond[outcome, default: 0] += grown / time
      }
    }
  }

  /// The depths of the queue as gateways report them; nil where there are none.
  static func reportedQueue(_ now: [NodeStatus]) -> [String: Int]? {
    let lanes = now.flatMap { $0.push?.lanes ?? [] }
    let depths = lanes.compactMap { lane in lane.depth.map { (lane.lane, $0) } }
    return depths.isEmpty ? nil : Dictionary(depths, uniquingKeysWith: max)
  }

  mutating func judgePushes(_ now: [NodeStatus], before: [Identity: NodeStatus]) {
    let served = Set(now.filter(\.isServing).flatMap { $0.push?.lanes ?? [] }.map(\.lane))
    for lane in Self.pushLanes {
      let depth = push.queue?[lane] ?? 0
      guard depth > 0, !served.contains(lane) else { continue }
      problems.append(
        "\(depth) push \(depth == 1 ? "job waits" : "jobs wait") in \(lane), which no gateway "
          + "serves: sleeping devices are not woken. Start one with: callnode push, with a provider "
          + "for it. It drops what is too late for its call; without one, jobs go after an hour.")
    }
    judgeTopics(now)
    for status in now { judgePools(status, before[Identity(status)]) }
  }

  /// How long a topic without a sender is a problem after the newest job that was given up for it.
  package static let unservedShownSeconds = 600.0
  /// Topics with a problem of their own. Further ones are counted in one line.
  private static let unservedShownMax = 5

  private mutating func judgeTopics(_ now: [NodeStatus]) {
    struct Topic: Hashable { var provider, environment, topic: String }
    var jobs: [Topic: UInt64] = [:]
    for unserved in now.flatMap({ $0.push?.unserved ?? [] })
    where unserved.secondsAgo < Self.unservedShownSeconds {
      let topic = Topic(
        provider: unserved.provider, environment: unserved.environment, topic: unserved.topic)
      jobs[topic, default: 0].add(unserved.jobsTotal)
    }
    let sorted = jobs.sorted { ($1.value, $0.key.topic) < ($0.value, $1.key.topic) }
    for (topic, count) in sorted.prefix(Self.unservedShownMax) {
      let environment = topic.environment.isEmpty ? "" : " (\(topic.environment))"
      problems.append(
        "\(count) push \(count == 1 ? "job was" : "jobs were") given up: no gateway has an entry for the "
          + "\(topic.provider) topic \(topic.topic)\(environment), so its devices are not woken. Add the "
          + "topic to the gateways' file of providers and restart them, or have the app register no such "
          + "token.")
    }
    let more = sorted.count - Self.unservedShownMax
    if more > 0 { problems.append("\(more) more push topics have no entry at any gateway.") }
  }

  private mutating func judgePools(_ now: NodeStatus, _ before: NodeStatus?) {
    guard let gateway = now.push, let past = before?.push else { return }
    for pool in gateway.pools {
      let former = past.pools.first { $0.name == pool.name }
      let bad = ["rejected", "failed"].reduce(0) {
        $0 + Self.grown(pool.outcomes[$1], former?.outcomes[$1])
      }
      let good = Self.grown(pool.outcomes["accepted"], former?.outcomes["accepted"])
      guard bad > 0, bad > good else { continue }
      problems.append(
        "\(Figures.whole(bad)) of \(Figures.whole(bad + good)) pushes of \(pool.name) at \(now.node) were not sent just "
          + "now" + (pool.lastError.map { ": \($0)" } ?? "") + ". See its log.")
    }
    let turned = Self.grown(gateway.counts["turnedAway"], past.counts["turnedAway"])
    if turned > 0 {
      notes.append(
        "\(now.node) turned \(Figures.whole(turned)) push jobs away for a moment: a provider is slow, or one "
          + "gateway more is needed.")
    }
    let lost = Self.grown(gateway.counts["reportsGivenUp"], past.counts["reportsGivenUp"])
    if lost > 0 {
      notes.append(
        "\(Figures.whole(lost)) reports of \(now.node) were not answered by any coordinator: a token that is "
          + "gone may be tried once more.")
    }
  }
}
