import CallAuth
import CallClient
import CallProcesses
import FoundationEssentials
import Glibc
import UnixSignals

/// One run from the cluster's start to the exit status.
package struct LoadRun: Sendable {
  let plan: RunPlan
  let console: Console
  let openJournal: OpenJournal
  let processes = ProcessSet()
  let control = RunControl()
  let progress = LoadProgress()

  enum Outcome: Sendable {
    case report([String], exitStatus: Int32)
    case failed(String, exitStatus: Int32)
  }

  package func execute() async -> Int32 {
    let folder: TemporaryFolder
    do {
      folder = try TemporaryFolder("callload")
    } catch {
      Output.write("callload: \(error)\n", to: STDERR_FILENO)
      return 2
    }
    let outcome = await withTaskGroup(of: Void.self) { group in
      group.addTask { await watchSignals(folder) }
      group.addTask { await watchProcesses() }
      group.addTask { await console.run { status() } }
      let outcome = await work(folder)
      control.begin(step: "stopping")
      await processes.stop()
      group.cancelAll()
      return outcome
    }
    console.close()
    leave(folder)
    switch outcome {
    case .report(let lines, let status):
      Output.write(lines.joined(separator: "\n") + "\n", to: STDOUT_FILENO)
      return status
    case .failed(let message, let status):
      Output.write("callload: \(message)\n", to: STDERR_FILENO)
      return status
    }
  }

  private func work(_ folder: TemporaryFolder) async -> Outcome {
    do {
      if let hostile = plan.hostile { return try await self.hostile(hostile, folder) }
      let servers = try await servers(folder)
      let session = makeSession(servers)
      control.attach(session.engine)
      control.begin(step: "")
      if let search = plan.search { return try await found(session, search) }
      let report = try await session.run()
      await servers.pushProvider?.stop()
      await servers.webhooks?.stop()
      await servers.hook?.stop()
      try write(report)
      return .report(
        report.text(Terminal.standardOutput.style), exitStatus: Verdict(report).exitStatus)
    } catch is StartGivenUp {
      return control.wasInterrupted
        ? .failed("ended before the load began", exitStatus: 130)
        : .failed(control.incidents.joined(separator: "\n"), exitStatus: 2)
    } catch {
      return control.wasInterrupted
        ? .failed("ended before there was anything to report", exitStatus: 130)
        : .failed((["\(error)"] + control.incidents).joined(separator: "\n"), exitStatus: 2)
    }
  }

  private func found(_ session: LoadSession, _ search: RunPlan.Search) async throws -> Outcome {
    let (report, best) = try await session.search(search) { console.say($0) }
    var lines = best?.text(Terminal.standardOutput.style) ?? []
    if let best { try write(best, search: report) }
    if !lines.isEmpty { lines.append("") }
    lines += report.text(Terminal.standardOutput.style)
    let status: Int32 =
      control.wasInterrupted ? 130 : report.best != nil && control.incidents.isEmpty ? 0 : 1
    return .report(lines, exitStatus: status)
  }

  func makeSession(_ servers: Servers) -> LoadSession {
    var session = LoadSession(
      plan: plan, servers: servers, engine: makeEngine(servers), control: control)
    session.summarise = { [console, control] text in
      console.say("[\(Units.duration(seconds: control.secondsSinceStart.rounded()))] \(text)")
    }
    session.say = { [console, plan, control] text in
      guard plan.command.output.verbose else { return }
      console.say("[\(Units.fixed(control.secondsSinceStart, 1)) s] \(text)")
    }
    return session
  }

  func servers(_ folder: TemporaryFolder) async throws -> Servers {
    switch plan.target {
    case .edges(let urls, let keys, let app):
      return Servers(
        edgeURLs: urls, trust: plan.trust, keys: keys, app: app)
    case .local where plan.slice.number > 1:
      guard let meeting = plan.meeting else { throw StartGivenUp() }
      control.begin(step: "waiting for the cluster")
      let cluster = try await meeting.cluster { control.isWanted }
      return Servers(
        edgeURLs: cluster.edges,
        trust: try cluster.caFile.map { try EdgeTrust(caFile: $0) } ?? .system,
        keys: try AppKeys.load(path: cluster.keysPath), app: cluster.app)
    case .local(var options):
      let pushProvider = try await startPushProvider(options, folder)
      var webhooks: WebhookServer?
      if plan.settings.webhooks {
        webhooks = try await WebhookServer.start(apps: options.apps)
        options.webhook = webhooks?.address
      }
      var hook: HookServer?
      if plan.command.judged.hook {
        hook = try await HookServer.start(apps: options.apps)
        options.hook = hook?.address
      }
      let cluster = try await LocalCluster.start(
        options, in: folder, processes: processes,
        say: { step in
          control.begin(step: step)
          if plan.command.output.verbose { console.say(step) }
        }, isWanted: { control.isWanted })
      if plan.command.output.verbose {
        console.say("\(cluster.natsURL), edges \(cluster.edgeURLs.joined(separator: " "))")
        for child in processes.all { console.say("  \(child.name): process \(child.processID)") }
      }
      try plan.meeting?.announce(
        Meeting.Cluster(
          edges: cluster.edgeURLs, app: options.app, keysPath: folder.file("keys.json"),
          caFile: cluster.caFile))
      let journal =
        plan.readsJournal
        ? try await openJournal(cluster.natsURL, LocalCluster.name, cluster.shards) : nil
      return Servers(
        edgeURLs: cluster.edgeURLs,
        trust: try cluster.caFile.map { try EdgeTrust(caFile: $0) } ?? .system,
        keys: cluster.keys, app: options.app, local: cluster, pushProvider: pushProvider,
        webhooks: webhooks, hook: hook, journal: journal)
    }
  }

  /// nil without gateways. A gateway needs a provider, also where it only delivers to webhooks.
  private func startPushProvider(
    _ options: LocalClusterOptions, _ folder: TemporaryFolder
  ) async throws -> LocalPushProvider? {
    guard options.pushGateways > 0 else { return nil }
    control.begin(step: "starting the push provider")
    var roster = Roster(
      devices: plan.settings.devices, devicesPerUser: plan.settings.devicesPerUser)
    roster.hasStrictApp = options.hasStrictApp
    let sleep = plan.sleep ?? SleepOptions(share: 0)
    return try await LocalPushProvider.start(
      SleepPlan(sleep, roster: roster, seed: plan.settings.seed), roster, in: folder)
  }

  private func makeEngine(_ servers: Servers) -> LoadEngine {
    let engine = LoadEngine(options: LoadOptions(plan, servers), progress: progress)
    servers.pushProvider?.attach(engine)
    return engine
  }

  /// The first signal ends the run in good order, the second one at once.
  private func watchSignals(_ folder: TemporaryFolder) async {
    let signals = await UnixSignalsSequence(trapping: .sigint, .sigterm, .sighup)
    for await signal in signals {
      if control.wasInterrupted {
        processes.killNow()
        console.close()
        leave(folder)
        _exit(130)
      }
      console.say("\(signal): ending the run; once more to stop at once")
      control.interrupt()
    }
  }

  private func watchProcesses() async {
    while let (child, end) = await processes.nextDeath() {
      child.expectEnd()
      console.say("\(child.name) \(end); its last words:\n\(child.logTail())")
      control.fail("\(child.name) \(end), which nobody asked it to")
      // A process that an attack ends is a finding, and the next attack has a cluster of its own.
      guard plan.hostile != nil else { return }
    }
  }

  private func status() -> LiveStatus {
    var status = LiveStatus()
    status.step = control.step
    status.elapsedSeconds = control.secondsSinceStart
    status.load = progress.snapshot
    return status
  }

  func write(_ report: RunReport, search: SearchReport? = nil) throws {
    if let path = plan.command.output.json {
      save(try report.json(search: search).encoded(), to: path)
    }
    if let path = plan.command.output.hgrm {
      save(Data(report.percentileDistributions().utf8), to: path)
    }
  }

  private func save(_ data: Data, to path: String) {
    do {
      try data.write(to: URL(filePath: path))
    } catch {
      console.say("\(path) could not be written: \(error)")
    }
  }

  private func leave(_ folder: TemporaryFolder) {
    guard plan.command.local.keep else { return folder.remove() }
    folder.keep()
    Output.write("store and logs are in \(folder.path)\n", to: STDERR_FILENO)
  }
}

extension Terminal {
  package static var standardOutput: Terminal {
    Terminal(descriptor: STDOUT_FILENO, environment: ProcessInfo.processInfo.environment)
  }
  package static var standardError: Terminal {
    Terminal(descriptor: STDERR_FILENO, environment: ProcessInfo.processInfo.environment)
  }
}
