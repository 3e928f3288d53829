import Histogram

/// The report's part on faults.
extension RunReport {
  func chaosLines(_ style: TextStyle) -> [String] {
    guard let chaos = result.chaos else { return [] }
    var lines = ["", style.bold("Chaos") + "  \(settings.chaos)"]
    lines += injected(chaos)
    lines += ["  take-over: from the fault until shards answer again, asked every 25 ms"]
    lines += takeOvers(chaos).map { "  " + $0 }
    lines += silences(chaos)
    lines += placedDuring(chaos)
    if !chaos.changed.isEmpty {
      lines.append("  calls that ended otherwise than planned, as a fault explains")
      var table = TextTable()
      table.indent = 4
      for (what, count) in chaos.changed.sorted(by: { ($1.value, $0.key) < ($0.value, $1.key) }) {
        table.add(what, Units.count(count))
      }
      lines += table.lines()
    }
    if !chaos.slow.isEmpty {
      lines.append("  no answer for long")
      lines += chaos.slow.map { "    " + $0 }
    }
    if chaos.neverAnswered > 0 {
      lines.append(style.bad("  shards that never answered again after a fault: see below"))
    }
    return lines
  }

  private func injected(_ chaos: ChaosResult) -> [String] {
    var table = TextTable()
    for kind in ChaosKind.allCases {
      guard let count = chaos.injected[kind], count > 0 else { continue }
      table.add(kind.rawValue, Units.count(count))
    }
    return table.rows.isEmpty ? ["  no fault was injected"] : table.lines()
  }

  private func placedDuring(_ chaos: ChaosResult) -> [String] {
    var table = TextTable([
      "calls placed during", "count", "as planned", "refused", "changed", "wrong",
    ])
    for kind in ChaosKind.allCases {
      guard let fates = chaos.placedDuring[kind] else { continue }
      let counts = ChaosResult.Fate.allCases.map { Units.count(fates[$0] ?? 0) }
      table.rows.append([kind.rawValue, Units.count(fates.values.reduce(0, +))] + counts)
    }
    return table.rows.count == 1 ? [] : table.lines()
  }

  private func takeOvers(_ chaos: ChaosResult) -> [String] {
    var table = TextTable(["", "count", "p50", "p99", "max"])
    for kind in ChaosKind.allCases {
      let found = chaos.takeOvers.filter { $0.kind == kind && $0.shards > 0 }
      guard let all = TakeOverSummary(found.compactMap(\.microseconds)) else { continue }
      table.rows.append(
        [kind.rawValue, Units.count(all.count)]
          + [all.p50, all.p99, all.max].map { Units.time(microseconds: $0) })
      if let each = Percentiles(chaos.shardSilence[kind]) {
        table.rows.append(
          ["  each shard", Units.count(each.count)]
            + [each.p50, each.p99, each.max].map { Units.time(microseconds: $0) })
      }
    }
    if let pause = Percentiles(chaos.handOver) {
      table.rows.append(
        ["hand-over pause, each shard", Units.count(pause.count)]
          + [pause.p50, pause.p99, pause.max].map { Units.time(microseconds: $0) })
    }
    return table.rows.count == 1 ? ["nothing was taken over"] : table.lines()
  }

  private func silences(_ chaos: ChaosResult) -> [String] {
    var table = TextTable(["devices", "count", "p50", "p99", "max"])
    let rows = [
      ("wait for a reply", chaos.commandWait), ("without a session", chaos.reconnect),
    ]
    for (name, histogram) in rows {
      guard let found = Percentiles(histogram) else { continue }
      table.rows.append(
        [name, Units.count(found.count)]
          + [found.p50, found.p99, found.max].map { Units.time(microseconds: $0) })
    }
    return table.lines() + [
      "  longest silence seen by a device: \(Units.time(microseconds: chaos.longestSilence)); "
        + "\(Units.count(chaos.commandsRetried)) commands retried, "
        + "\(Units.count(chaos.reconnects)) reconnects, "
        + "\(Units.count(chaos.changedCount)) calls changed by faults"
    ]
  }
}

/// Percentiles of a few values, each the value itself.
package struct TakeOverSummary: Sendable, Equatable {
  package var count: Int
  package var p50: UInt64
  package var p99: UInt64
  package var max: UInt64

  package init?(_ values: [UInt64]) {
    let sorted = values.sorted()
    guard let last = sorted.last else { return nil }
    func at(_ share: Double) -> UInt64 {
      sorted[min(sorted.count - 1, Int((Double(sorted.count) * share).rounded(.up)) - 1)]
    }
    count = sorted.count
    p50 = at(0.5)
    p99 = at(0.99)
    max = last
  }
}
