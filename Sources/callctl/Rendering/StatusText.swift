internal import CallTelemetry

/// The screen of `callctl status`.
package enum StatusText {
  /// - Parameter size: the size of the terminal that the screen must fit; nil: nothing is cut.
  package static func render(
    _ view: ClusterView, cluster: String, url: String, color: Bool, size: TerminalSize? = nil
  ) -> String {
    var top = [heading(view, cluster: cluster, url: url, color: color)]
    for problem in view.problems {
      let lines = ScreenFit.wrapped("  ! " + Figures.safe(problem), columns: size?.columns)
      top += lines.map { paint($0, "33", color) }
    }
    for note in view.notes {
      top += ScreenFit.wrapped("  " + Figures.safe(note), columns: size?.columns)
    }
    let sections: [ScreenFit.Section] = [
      ("problems", top), ("nodes", [""] + nodes(view)), ("totals", [""] + facts(view)),
      ("latency", latencies(view)), ("pushes", PushText.lines(view)),
    ]
    let lines = size.map { ScreenFit.lines(sections, $0) } ?? sections.flatMap(\.lines)
    return lines.joined(separator: "\n") + "\n"
  }

  private static func heading(_ view: ClusterView, cluster: String, url: String, color: Bool)
    -> String
  {
    let health =
      view.isHealthy ? paint("healthy", "32", color) : paint("DEGRADED", "31;1", color)
    let servers = Set(
      view.nodes.map(\.status.bus.serverVersion).filter { !$0.isEmpty }
    ).sorted().joined(separator: ", ")
    return "Cluster \(cluster): \(health). \(Figures.counted(view.nodes.count, "node")), "
      + "\(Figures.counted(view.shardCount, "shard")), "
      + "NATS \(servers.isEmpty ? "" : Figures.safe(servers) + " ")at \(url)"
  }

  private static func nodes(_ view: ClusterView) -> [String] {
    let rows = view.nodes.map { node in
      let status = node.status
      return [
        status.node, status.role, ShownState.of(status), status.version,
        Figures.uptime(seconds: status.uptimeSeconds), "\(Figures.whole(node.cpuPercent)) %",
        Figures.bytes(status.memoryBytes), holds(status),
      ]
    }
    let heading = ["NODE", "ROLE", "STATE", "VERSION", "UPTIME", "CPU", "MEMORY", "HOLDS"]
    return Columns.render([heading] + rows, right: 4...6)
  }

  private static func holds(_ status: NodeStatus) -> String {
    var parts: [String] = []
    if let edge = status.edge {
      parts.append(Figures.counted(edge.connections, "connection"))
      parts.append(Figures.counted(edge.sessions, "session"))
    }
    if let coordinator = status.coordinator {
      parts.append(Figures.counted(coordinator.shards.count, "shard"))
    }
    if let push = status.push {
      parts.append(Figures.counted(push.pools.count, "push pool"))
      parts.append("\(push.pools.reduce(into: 0) { $0.add($1.inFlight) }) in flight")
    }
    return parts.joined(separator: ", ")
  }

  private static func facts(_ view: ClusterView) -> [String] {
    let span = view.rates.overSeconds == nil ? "since start" : "now"
    let repeats =
      view.rates.deliveries > 0 ? view.rates.deliveryRepeats / view.rates.deliveries * 100 : 0
    let connected = view.nodes.count { $0.status.bus.connected }
    return Columns.render(
      [
        ["Shards", "\(view.served) of \(view.shardCount) have an owner\(owners(view))"],
        [
          "Calls",
          "\(view.calls.placed) placed, \(view.calls.ringing) ringing, \(view.calls.answered) answered; "
            + "\(view.calls.endedKept) ended and remembered",
        ],
        [
          "Devices",
          "\(Figures.counted(view.connections, "connection")), "
            + "\(Figures.counted(view.sessions, "session")), "
            + Figures.counted(view.registrations, "registration"),
        ],
        [
          "Per second",
          "\(Figures.rate(view.rates.callsPlaced)) calls placed, "
            + "\(Figures.rate(view.rates.callsAnswered)) answered, "
            + "\(Figures.rate(view.rates.callsEnded)) ended; "
            + "\(Figures.rate(view.rates.commands)) commands, "
            + "\(Figures.rate(view.rates.deliveries)) deliveries "
            + "(\(Figures.decimal(repeats)) % retransmitted), \(span)",
        ],
        [
          "Journal",
          "\(view.journal.messages) records, \(Figures.bytes(view.journal.bytes)); "
            + "\(Figures.rate(view.rates.appends)) appends/s; "
            + "\(view.journal.appendsRefusedTotal) refused and \(view.journal.appendsUnknownTotal) without answer "
            + "since start",
        ],
        [
          "Bus",
          "\(connected) of \(Figures.counted(view.nodes.count, "node")) connected; "
            + "\(view.busReconnects) reconnects and \(view.busDropped) messages dropped since start",
        ],
      ])
  }

  private static func owners(_ view: ClusterView) -> String {
    let parts = view.byOwner.sorted { $0.key < $1.key }.map {
      "\($0.key) \($0.value)"
    }
    return parts.isEmpty ? "" : ": " + parts.joined(separator: ", ")
  }

  private static func latencies(_ view: ClusterView) -> [String] {
    let known: [(String, LatencySummary?)] = [
      ("command", view.latency.command), ("append", view.latency.append),
      ("ring", view.latency.ring), ("hand-over", view.latency.handover),
      ("take-over", view.latency.takeover),
    ]
    var rows = [["Latency", "p50", "p90", "p99", "max", "count"]]
    for case (let name, let summary?) in known where summary.count > 0 {
      let latencies = [summary.p50, summary.p90, summary.p99, summary.max]
      rows.append(
        ["  " + name] + latencies.map(Figures.latency(microseconds:)) + ["\(summary.count)"])
    }
    if rows.count == 1 { return ["Latency     nothing measured yet"] }
    return Columns.render(rows, right: 1...5)
      + ["  (of the slowest node each, since its start)"]
  }

  private static func paint(_ text: String, _ code: String, _ color: Bool) -> String {
    color ? "\u{1B}[\(code)m\(text)\u{1B}[0m" : text
  }
}

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
