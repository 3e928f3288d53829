internal import CallTelemetry

/// The part of the status screen about pushes; nothing where there are none.
enum PushText {
  static func lines(_ view: ClusterView) -> [String] {
    let gateways = view.nodes.filter { $0.status.push != nil }
    let waits = view.push.queue?.values.contains { $0 > 0 } ?? false
    guard !gateways.isEmpty || waits else { return [] }
    let lines = ["", "Push queue  " + queue(view), "Pushes      " + outcomes(view)]
    var rows = [
      [
        "POOL", "GATEWAY", "LANE", "IN FLIGHT", "WAIT", "CONNECTED", "ACCEPTED", "GONE", "REJECTED",
        "FAILED", "EXPIRED", "p50", "p99",
      ]
    ]
    var troubles: [String] = []
    for node in gateways {
      for pool in node.status.push?.pools ?? [] {
        let counts = [pool.inFlight, pool.waiting, pool.connected].map(String.init)
        let outcomes = ClusterView.pushOutcomeNames.map { "\(pool.outcomes[$0] ?? 0)" }
        let latencies = [pool.p50, pool.p99].map {
          $0 == 0 ? "-" : Figures.latency(microseconds: $0)
        }
        rows.append([pool.name, node.status.node, pool.lane] + counts + outcomes + latencies)
        if let error = pool.lastError {
          troubles.append("  \(Figures.safe(pool.name)), newest trouble: \(Figures.safe(error))")
        }
      }
    }
    guard rows.count > 1 else { return lines }
    return lines + Columns.render(rows, right: 3...12) + troubles
  }

  private static func queue(_ view: ClusterView) -> String {
    guard let queue = view.push.queue else { return "not known" }
    let parts = ClusterView.pushLanes.compactMap { lane in queue[lane].map { "\(lane) \($0)" } }
    return parts.isEmpty ? "empty" : parts.joined(separator: ", ")
  }

  private static func outcomes(_ view: ClusterView) -> String {
    let parts = ClusterView.pushOutcomeNames.compactMap { name -> String? in
      guard let total = view.push.outcomes[name], total > 0 || name == "accepted" else {
        return nil
      }
      return "\(total) \(name) (\(Figures.rate(view.push.outcomesPerSecond[name] ?? 0))/s)"
    }
    return parts.isEmpty ? "none yet" : parts.joined(separator: ", ")
  }
}
