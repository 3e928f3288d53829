import CallProcesses

/// Runs the load on servers, and measures the usage of their processes.
package struct LoadSession: Sendable {
  let plan: RunPlan
  let servers: Servers
  let engine: LoadEngine
  let control: RunControl
  var say: @Sendable (String) -> Void = { _ in }
  /// Prints a summary at intervals.
  var summarise: @Sendable (String) -> Void = { _ in }
  /// Runs beside the load; the stage is not over before it is.
  var beside: @Sendable () async -> Void = {}
  /// Called when the load is over and settled, while all processes still run.
  var atEnd: @Sendable () -> Void = {}
  /// Upper limit of devices that others may leave registered.
  var registrationsOfOthers = 0
  private let growth = GrowthWatch()

  func run() async throws -> RunReport {
    let standing = try await connect()
    let report = try await stage(
      rate: plan.settings.callsPerSecond, seconds: plan.settings.durationSeconds, standing)
    try await meet(.over)
    await engine.disconnect()
    return report
  }

  /// - Returns: the search's stages, and the report of the best one, or of the first where none held.
  func search(_ search: RunPlan.Search, say: (String) -> Void) async throws
    -> (SearchReport, best: RunReport?)
  {
    let standing = try await connect()
    var rates = RateSearch(start: plan.settings.callsPerSecond)
    var found = SearchReport(stages: [], ringP99Max: search.ringP99Max)
    var best: RunReport?
    while control.isWanted, let rate = rates.next {
      var holds = false
      // Another process of the machine may have disturbed a stage, so a failed one is repeated once.
      for _ in 0..<2 where !holds && control.isWanted {
        let report = try await stage(rate: rate, seconds: search.stageSeconds, standing)
        guard control.isWanted else { break }
        let stage = SearchStage(
          rate: rate, result: report.result, cpuPerCall: report.cpuPerCall(),
          ringP99Max: search.ringP99Max)
        holds = stage.holds
        found.stages.append(stage)
        if best == nil || (holds && found.best == stage) { best = report }
        say(
          "\(Units.trimmed(rate, 1)) calls/s "
            + (holds ? "hold" : "do not hold: " + stage.reasons.joined(separator: ", ")))
      }
      rates.record(rate, holds: holds)
    }
    await engine.disconnect()
    return (found, best)
  }

  /// Waits for the other slices.
  private func meet(_ point: Meeting.Point) async throws {
    guard let meeting = plan.meeting else { return }
    control.begin(step: "waiting for the other slices")
    try await meeting.wait(at: point) { control.isWanted }
    control.begin(step: "")
  }

  private var usageNow: Usage { Usage(servers) }

  /// The cost of connected devices that do nothing.
  private struct Standing {
    /// The memory that the edges gained for each device, in a local cluster.
    var bytesPerDevice: UInt64?
    var idle: IdleUsage?
  }

  private func connect() async throws -> Standing {
    let before = servers.edgeMemoryBytes()
    try await meet(.begun)
    try await engine.connect()
    try await meet(.connected)
    // The other slices' devices are connected as well, or their reports say which are not.
    let connected =
      plan.slice.count > 1 ? plan.settings.devices : engine.progress.snapshot.devicesConnected
    var standing = Standing()
    // Allocators take memory in pieces, which would dominate the figure with few devices.
    if connected >= 500, let before, let after = servers.edgeMemoryBytes(), after > before {
      standing.bytesPerDevice = (after - before) / UInt64(connected)
    }
    if let seconds = plan.command.load.idle?.seconds, control.isWanted {
      standing.idle = await idle(seconds, devices: connected)
    }
    return standing
  }

  /// nil where the run was ended meanwhile.
  private func idle(_ seconds: Double, devices: Int) async -> IdleUsage? {
    control.begin(step: "measuring idle devices")
    defer { control.begin(step: "") }
    let before = usageNow
    let end = before.at + .seconds(seconds)
    while control.isWanted, ContinuousClock.now < end {
      try? await Task.sleep(until: min(end, .now + .milliseconds(200)))
    }
    guard control.isWanted else { return nil }
    let after = usageNow
    return IdleUsage(
      seconds: before.at.duration(to: after.at) / .seconds(1), devices: devices,
      processes: after.processes(since: before),
      ownCPUMicroseconds: after.own.cpuMicroseconds(since: before.own))
  }

  private func stage(rate: Double, seconds: Double, _ standing: Standing) async throws -> RunReport
  {
    let journal = journalJudge
    let before = usageNow
    // CPU is counted until nearly all calls are over: a few may ring for half a minute of an idle cluster.
    var (result, after) = try await withThrowingTaskGroup(of: Usage?.self) { group in
      group.addTask { await usageWhenNearlyOver() }
      let besides: [@Sendable () async -> Void] = [
        { await disturb(seconds) }, watchGrowth, beside, { await journal?.follow() },
      ]
      for work in besides {
        group.addTask {
          await work()
          return nil
        }
      }
      let result = try await engine.load(rate: rate, duration: seconds)
      group.cancelAll()
      var usage: Usage?
      for try await found in group { usage = usage ?? found }
      return (result, usage ?? usageNow)
    }
    atEnd()
    result.registrationsOfUnknownFate += registrationsOfOthers
    // The other slices' registrations are not known here.
    if control.isWanted, plan.slice.count == 1 { await auditRegistrations(&result) }
    if let journal, control.isWanted {
      control.begin(step: "reading the journal")
      result.journal = await journal.finish()
      control.begin(step: "")
    }
    servers.pushProvider?.report(into: &result)
    servers.hook?.report(into: &result)
    await judgeWebhooks(&result)

    var settings = plan.settings
    settings.callsPerSecond = rate
    settings.durationSeconds = seconds
    var machine = ProcessFiles.machine()
    machine.natsVersion = servers.local?.natsVersion ?? ""
    var report = RunReport(settings: settings, machine: machine, result: result)
    // A server that ended ends the run early as well, but as a failure.
    report.result.interrupted = control.wasInterrupted
    report.incidents = control.incidents
    report.edgeBytesPerDevice = standing.bytesPerDevice
    report.idle = standing.idle
    if plan.command.output.checkGrowth { report.growth = growth.findings(files: journalFiles) }
    report.processes = after.processes(since: before)
    report.ownCPUMicroseconds = after.own.cpuMicroseconds(since: before.own)
    report.ownMemoryBytes = after.own.residentBytes
    return report
  }

  private var journalJudge: JournalJudge? {
    guard let journal = servers.journal, let local = servers.local else { return nil }
    var roster = plan.roster
    roster.hasStrictApp = plan.command.hasStrictApp(plan.scenario)
    return JournalJudge(
      journal, shards: local.shards, servers.events,
      RunJudge(
        app: servers.app, roster: roster, shardCount: local.shards,
        keepsHistory: plan.settings.history, hasHook: plan.settings.hook))
  }

  private func disturb(_ seconds: Double) async {
    guard let chaos = plan.chaos, let local = servers.local else { return }
    let director = ChaosDirector(
      plan: chaos, cluster: local, engine: engine, seed: plan.settings.seed, say: say)
    await withTaskGroup(of: Void.self) { group in
      group.addTask {
        await director.run(seconds: ChaosDirector.lastFaultSeconds(chaos, duration: seconds))
      }
      // Polls, since only the engine is notified when the run ends early.
      group.addTask {
        while control.isWanted, !Task.isCancelled {
          try? await Task.sleep(for: .milliseconds(200))
        }
      }
      await group.next()
      group.cancelAll()
    }
  }

  /// nats-server keeps of each journal the file that it writes in memory. The file grows to 8 MB
  /// before it is replaced by the next one: `defaultLargeBlockSize` in nats-server's filestore.go.
  private var journalFiles: [String: UInt64] {
    guard let local = servers.local else { return [:] }
    let bytes = UInt64(local.shards) * (8 << 20)
    return Dictionary(local.nats.map { ($0.process.name, bytes) }, uniquingKeysWith: { $1 })
  }

  /// Samples memory and store until the task is cancelled, and prints summaries.
  private func watchGrowth() async {
    let summaryInterval = plan.command.output.summary?.seconds
    guard plan.command.output.checkGrowth || summaryInterval != nil, let local = servers.local
    else {
      return
    }
    // At least twenty samples of the shortest run.
    let step = max(1, min(10, plan.settings.durationSeconds / 40))
    var nextSummary = ContinuousClock.now + .seconds(summaryInterval ?? .infinity)
    while !Task.isCancelled {
      try? await Task.sleep(for: .seconds(step))
      var values = Dictionary(
        servers.sample().map { ($0.name, $0.sample.residentBytes) }, uniquingKeysWith: { $1 })
      var store: UInt64?
      for server in local.nats {
        store = max(store ?? 0, await server.monitor.jetStream()?.storage ?? 0)
      }
      // A server that is away has no figure.
      if let store, store > 0 { values["store"] = store }
      if engine.progress.snapshot.phase == .calling { growth.add(values) }
      guard summaryInterval != nil, nextSummary <= .now else { continue }
      nextSummary = .now + .seconds(summaryInterval ?? .infinity)
      summarise(summary(store: store ?? 0))
    }
  }

  private func summary(store: UInt64) -> String {
    let now = engine.progress.snapshot
    let memory = ProcessRole.allCases.compactMap { role in
      let bytes = servers.sample().filter { $0.role == role }.map(\.sample.residentBytes)
      return bytes.isEmpty ? nil : "\(role.rawValue) \(Units.bytes(bytes.reduce(0, +)))"
    }
    return "\(Units.count(now.callsPlaced)) calls, \(Units.count(now.faults)) faults, "
      + "\(Units.count(now.errors)) errors, \(Units.count(now.violations)) wrong; store "
      + "\(Units.bytes(store)), memory \(memory.joined(separator: ", "))"
  }

  /// Events are delivered behind the calls, and retried where a fault or the server itself refused them.
  private func judgeWebhooks(_ result: inout RunResult) async {
    guard let webhooks = servers.webhooks else { return }
    control.begin(step: "waiting for webhooks")
    await webhooks.judge(
      &result, within: plan.chaos == nil ? .seconds(60) : .seconds(180),
      isWanted: { control.isWanted })
    control.begin(step: "")
  }

  private func auditRegistrations(_ result: inout RunResult) async {
    guard let callctl = servers.local?.callctl else { return }
    var found: Int?
    // A shard may be in a hand-over.
    for _ in 0..<10 {
      found = await callctl.status(window: 1)?.registrations
      if let found, result.registrationsDue.contains(found) { return }
      await Pause.milliseconds(500)
    }
    result.lost(registrations: found)
  }

  /// Waits until all calls are placed and at most 2 % of them live; nil where the task is cancelled.
  private func usageWhenNearlyOver() async -> Usage? {
    // The snapshot is of the former stage until this one begins.
    var hasBegun = false
    while !Task.isCancelled {
      let now = engine.progress.snapshot
      hasBegun = hasBegun || now.phase == .calling
      if hasBegun, now.phase == .settling, now.callsLive * 50 <= now.callsPlaced {
        return usageNow
      }
      try? await Task.sleep(for: .milliseconds(20))
    }
    return nil
  }
}
