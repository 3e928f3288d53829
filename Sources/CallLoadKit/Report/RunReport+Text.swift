import CallProcesses

extension RunReport {
  package func text(_ style: TextStyle) -> [String] {
    var lines = heading(style)
    lines += ["", style.bold("Expected and actual")] + expectation()
    lines += ["", style.bold("Failures by cause")] + failures(style)
    lines += ["", style.bold("Latency")] + latencies()
    if !processes.isEmpty { lines += ["", style.bold("Servers")] + servers() }
    lines += idle?.lines(style) ?? []
    if let chaos = result.chaos {
      lines += ChaosReport(chaos: chaos).lines(style, asked: settings.chaos)
    }
    if let pushes = result.pushes {
      lines += PushRunReport(pushes: pushes, callsPlaced: result.callsPlaced).lines(style)
    }
    lines += AppRunReport(result).lines(style)
    lines += result.journal.map { JournalReport(findings: $0).lines(style) } ?? []
    lines += HostileReport(hostile)?.lines(style) ?? []
    if !growth.isEmpty {
      lines += ["", style.bold("Growth") + "  medians of the second quarter and of the last"]
      var table = TextTable()
      for one in growth {
        let files = one.files > 0 ? "its files may yet grow by \(Units.bytes(one.files))" : ""
        table.add(one.name, Units.bytes(one.before), Units.bytes(one.after), files)
      }
      lines += table.lines()
    }
    lines += ["", style.bold("Correctness") + " (every count must be 0)"] + correctness(style)
    let verdict = Verdict(self)
    let last = verdict.line(result)
    lines += ["", verdict.isOK ? style.good(last) : style.bad(last)]
    return lines
  }

  private func heading(_ style: TextStyle) -> [String] {
    let users =
      settings.devicesPerUser > 0
      ? (settings.devices + settings.devicesPerUser - 1) / settings.devicesPerUser : 0
    let load =
      "\(Units.count(settings.devices)) devices of \(Units.count(users)) users, "
      + "\(Units.trimmed(settings.callsPerSecond, 1)) calls/s for "
      + "\(Units.duration(seconds: settings.durationSeconds)), scenario \(settings.scenario), "
      + "\(settings.protocolName), seed \(settings.seed)"
      + (settings.processes > 1 ? ", " + sliceText : "")
    let box =
      "\(counted(machine.cpus, "CPU"))" + (machine.cpuModel.isEmpty ? "" : " (\(machine.cpuModel))")
      + ", \(Units.bytes(machine.memoryBytes)) memory, \(machine.kernel)"
    let other = settings.otherCallnode.map { "restarts  every second life of a node runs \($0)" }
    return [style.bold("callload") + "  " + load, "cluster   " + clusterText]
      + (other.map { [$0] } ?? []) + ["machine   " + box]
  }

  private var sliceText: String {
    settings.slice.map { "slice \($0) of \(settings.processes)" }
      ?? "in \(settings.processes) slices"
  }

  private var clusterText: String {
    guard settings.edgeURLs.isEmpty else { return settings.edgeURLs.joined(separator: " ") }
    var parts = ["\(counted(settings.natsServers, "nats-server")) \(machine.natsVersion)"]
    if settings.nodes > 0 {
      parts.append("\(counted(settings.nodes, "node")) with both roles")
    } else {
      parts.append(counted(settings.coordinators, "coordinator"))
      parts.append(counted(settings.edges, "edge"))
    }
    if settings.pushGateways > 0 { parts.append(counted(settings.pushGateways, "push gateway")) }
    if settings.tls { parts.append("devices over TLS") }
    return (parts + ["on this machine"]).joined(separator: ", ")
  }

  private func expectation() -> [String] {
    var table = TextTable()
    func add(_ name: String, _ actual: Int, _ expected: Int, _ note: String = "") {
      table.add(name, "\(actual)/\(expected)", note)
    }
    add("devices connected", result.devicesConnected, result.devicesExpected, rampNote())
    add("devices registered", result.devicesRegistered, result.devicesExpected)
    if settings.nearer { table.add("moves to nearer edges", Units.count(result.nearerMoves)) }
    let rate = result.callsPlaced > 0 ? result.callsPerSecond : nil
    add(
      "calls placed", result.callsPlaced, result.callsExpected,
      rate.map { "\(Units.fixed($0, 1))/s" } ?? "")
    let changed = result.chaos?.changedCount ?? 0
    add(
      "calls completed", result.callsCompleted, result.callsExpected,
      changed > 0 ? "and \(Units.count(changed)) changed by faults" : "")
    return table.lines() + TextTable(result.callsByPart, indent: 4).lines()
  }

  private func rampNote() -> String {
    guard result.rampSeconds > 0, result.devicesConnected > 0 else { return "" }
    let rate = Double(result.devicesConnected) / result.rampSeconds
    return "\(Units.fixed(rate, 0))/s"
  }

  private func failures(_ style: TextStyle) -> [String] {
    let found = result.failures.filter { $0.value > 0 }
    guard !found.isEmpty else { return ["  none"] }
    return zip(found.greatestFirst, TextTable(found).lines()).flatMap { failure, line in
      [style.bad(line)] + (result.failureExamples[failure.key].map(indented) ?? [])
    }
  }

  private func latencies() -> [String] {
    var table = TextTable(distributions: "phase")
    for phase in LatencyPhase.allCases {
      table.add(phase.rawValue, Percentiles(result.latency[phase]))
    }
    return table.lines()
  }

  private func servers() -> [String] {
    var table = TextTable(["process", "CPU µs/call", "CPU s", "memory"])
    let calls = Double(max(result.callsPlaced, 1))
    func row(_ name: String, _ cpu: UInt64, _ memory: UInt64) {
      table.add(
        name, Units.fixed(Double(cpu) / calls, 1), Units.fixed(Double(cpu) / 1e6, 2),
        Units.bytes(memory))
    }
    for role in ProcessRole.allCases {
      for process in processes where process.role == role {
        row(process.name, process.cpuMicroseconds, process.memoryBytes)
      }
    }
    row(
      "sum of servers", processes.reduce(0) { $0 + $1.cpuMicroseconds },
      processes.reduce(0) { $0 + $1.memoryBytes })
    row("callload itself", ownCPUMicroseconds, ownMemoryBytes)
    var lines = table.lines()
    if let edgeBytesPerDevice {
      lines.append("  edge memory per connected device: \(Units.bytes(edgeBytesPerDevice))")
    }
    return lines
  }

  private func correctness(_ style: TextStyle) -> [String] {
    let rules = CorrectnessRule.allCases.filter(result.hasJudged)
    var table = TextTable()
    for rule in rules {
      table.add(rule.title, Units.count(result.correctness[rule] ?? 0))
    }
    var lines: [String] = []
    for (rule, line) in zip(rules, table.lines()) {
      let isBroken = (result.correctness[rule] ?? 0) > 0
      lines.append(isBroken ? style.bad(line) : line)
      lines += (result.examples[rule] ?? []).flatMap(indented)
    }
    return lines
  }

  /// The lines of an example, below its rule or cause.
  private func indented(_ example: String) -> [String] {
    example.split(separator: "\n", omittingEmptySubsequences: false).map { "      " + $0 }
  }

  private func counted(_ count: Int, _ word: String) -> String {
    "\(count) \(word)\(count == 1 ? "" : "s")"
  }

  /// The percentiles of each phase, in milliseconds, in the format of HdrHistogram's plotter.
  package func percentileDistributions() -> String {
    var text = ""
    for phase in LatencyPhase.allCases {
      guard let histogram = result.latency[phase], histogram.totalCount > 0 else { continue }
      text += "# phase \(phase.rawValue), milliseconds\n"
      histogram.outputPercentileDistribution(to: &text)
      text += "\n"
    }
    return text
  }
}

extension IdleUsage {
  fileprivate func lines(_ style: TextStyle) -> [String] {
    var table = TextTable(["process", "CPU ms/s", "CPU µs/s per device"])
    func row(_ name: String, _ cpu: Double) {
      table.add(name, Units.fixed(cpu / 1_000, 1), Units.fixed(perDevice(cpu), 2))
    }
    for role in ProcessRole.allCases {
      if let cpu = cpuPerSecond(role) { row(role.rawValue, cpu) }
    }
    if let cpu = cpuPerSecond() { row("sum of servers", cpu) }
    row("callload itself", ownCPUPerSecond)
    let title = "\(Units.count(devices)) devices for \(Units.trimmed(seconds, 1)) s, no calls"
    return ["", style.bold("Idle") + "  " + title] + table.lines()
  }
}
