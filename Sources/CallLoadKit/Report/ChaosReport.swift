struct ChaosReport {
  let chaos: ChaosResult

  /// Waits of devices, with their JSON names and the titles of their rows.
  private var deviceWaits: [(name: String, title: String, found: Percentiles?)] {
    [
      ("command_wait_us", "wait for a reply", Percentiles(chaos.commandWait)),
      ("reconnect_us", "without a session", Percentiles(chaos.reconnect)),
    ]
  }

  /// The time until all shards answered again after a kind of fault.
  private func takeOver(_ kind: ChaosKind) -> Percentiles? {
    Percentiles(
      chaos.takeOvers.filter { $0.kind == kind && $0.shards > 0 }.compactMap(\.microseconds))
  }

  func lines(_ style: TextStyle, asked: String) -> [String] {
    var lines = ["", style.bold("Chaos") + "  \(asked)"]
    lines += injected
    lines += ["  take-over: from the fault until shards answer again, asked every 25 ms"]
    lines += takeOvers
    lines += silences
    lines += disconnections
    lines += placedDuring
    if !chaos.changed.isEmpty {
      lines.append("  calls that ended otherwise than planned, as a fault explains")
      lines += TextTable(chaos.changed, indent: 4).lines()
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

  private var injected: [String] {
    var table = TextTable()
    for kind in ChaosKind.allCases {
      guard let count = chaos.injected[kind], count > 0 else { continue }
      table.add(kind.rawValue, Units.count(count))
    }
    return table.rows.isEmpty ? ["  no fault was injected"] : table.lines()
  }

  private var takeOvers: [String] {
    var table = TextTable(["", "count", "p50", "p99", "max"], indent: 4)
    for kind in ChaosKind.allCases {
      guard let all = takeOver(kind) else { continue }
      table.addSummary(kind.rawValue, all)
      table.addSummary("  each shard", Percentiles(chaos.shardSilence[kind]))
    }
    table.addSummary("hand-over pause, each shard", Percentiles(chaos.handOver))
    return table.rows.count == 1 ? ["  nothing was taken over"] : table.lines()
  }

  private var silences: [String] {
    var table = TextTable(["devices", "count", "p50", "p99", "max"])
    for wait in deviceWaits { table.addSummary(wait.title, wait.found) }
    return table.lines() + [
      "  longest silence seen by a device: \(Units.time(microseconds: chaos.longestSilence)); "
        + "\(Units.count(chaos.commandsRetried)) commands retried, "
        + "\(Units.count(chaos.reconnects)) reconnects, "
        + "\(Units.count(chaos.changedCount)) calls changed by faults"
    ]
  }

  /// Faults by which devices lost their sessions.
  private var costly: [ChaosResult.Course] { chaos.courses.filter { $0.disconnected > 0 } }

  /// The costliest ones.
  private var disconnections: [String] {
    var table = TextTable(["devices disconnected by", "at", "devices", "all back after", "never"])
    let found = costly.sorted { $1.disconnected < $0.disconnected }.prefix(Self.coursesMax)
    for course in found.sorted(by: { $0.fault < $1.fault }) {
      table.rows.append([
        course.kind.rawValue, "\(Units.fixed(course.atSeconds, 1)) s",
        Units.count(course.disconnected), Units.time(microseconds: course.allBackMicroseconds),
        Units.count(course.neverBack),
      ])
    }
    return found.isEmpty ? [] : table.lines()
  }

  private static let coursesMax = 10

  private var placedDuring: [String] {
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

  var json: JSONObject {
    var json: JSONObject = [
      "injected": JSONObject(chaos.injected.map { ($0.key.rawValue, $0.value) }),
      "take_over_us": byKind { takeOver($0)?.summaryJSON },
      "shard_silence_us": byKind { Percentiles(chaos.shardSilence[$0])?.summaryJSON },
      "take_overs": chaos.takeOvers.map { one -> JSONObject in
        [
          "kind": one.kind.rawValue, "node": one.node, "at_seconds": one.atSeconds.toThousandth,
          "shards": one.shards, "us": one.microseconds,
        ]
      },
      "hand_over_pause_us": Percentiles(chaos.handOver)?.summaryJSON,
      "longest_silence_us": chaos.longestSilence,
      "commands_retried": chaos.commandsRetried,
      "reconnects": chaos.reconnects,
      "calls_changed": chaos.changed,
      "calls_placed_during": byKind { kind in
        chaos.placedDuring[kind].map { fates in
          JSONObject(ChaosResult.Fate.allCases.map { ($0.rawValue, fates[$0] ?? 0) })
        }
      },
      "never_answered": chaos.neverAnswered,
      "never_back": chaos.neverBack,
      "faults": chaos.courses.map { one -> JSONObject in
        [
          "kind": one.kind.rawValue, "node": one.node, "at_seconds": one.atSeconds.toThousandth,
          "lifted_seconds": one.liftedSeconds?.toThousandth,
          "devices_disconnected": one.disconnected, "devices_never_back": one.neverBack,
          "all_back_us": one.disconnected > 0 ? one.allBackMicroseconds : nil,
        ]
      },
      "slow": chaos.slow,
    ]
    for wait in deviceWaits { json[wait.name] = wait.found?.summaryJSON }
    return json
  }

  private func byKind(_ value: (ChaosKind) -> JSONObject?) -> JSONObject {
    JSONObject(ChaosKind.allCases.compactMap { kind in value(kind).map { (kind.rawValue, $0) } })
  }
}
