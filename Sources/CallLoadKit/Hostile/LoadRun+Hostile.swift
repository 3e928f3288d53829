import CallAuth
import FoundationEssentials

/// The load once alone and once beside each attack, each time on a cluster of its own for its memory.
extension LoadRun {
  func hostile(_ hostile: HostilePlan, _ folder: TemporaryFolder) async throws -> Outcome {
    let quiet = HostilePlan.Round(name: HostileRow.quiet, attacks: [])
    var (report, row) = try await play(quiet, hostile, folder)
    let aim = HostileAim(quiet: row)
    row.recoveredSeconds = recovery(report, from: hostile.attackSeconds, hostile, aim)
    report.hostile.append(row)
    for round in hostile.rounds where control.isWanted {
      var row = HostileRow(name: round.name)
      do {
        row = try await play(round, hostile, folder, aim: aim).row
      } catch {
        // The other rounds are still reported.
        row.failures = ["\(error)": 1]
        await stopCluster()
      }
      guard !control.wasInterrupted else { break }
      report.hostile.append(row)
      let problems = aim.problems(row)
      console.say(
        "\(round.name): " + (problems.isEmpty ? "holds" : problems.joined(separator: ", ")))
      control.forgetIncidents()
    }
    report.result.interrupted = control.wasInterrupted
    try write(report)
    return .report(
      report.text(Terminal.standardOutput.style), exitStatus: Verdict(report).exitStatus)
  }

  private func play(
    _ round: HostilePlan.Round, _ hostile: HostilePlan, _ folder: TemporaryFolder,
    aim: HostileAim? = nil
  ) async throws -> (report: RunReport, row: HostileRow) {
    switch round.attacks.count {
    case 0: console.say("\(round.name): the load alone")
    case 1: console.say("\(round.name): \(round.attacks[0].help)")
    default: console.say("\(round.name): \(round.attacks.count) attacks at the same time")
    }
    let folder = try folder.inner(round.name)
    let servers = try await servers(folder)
    let attackers = AttackerProcess(
      round, orders: orders(round, hostile, servers, folder), folder: folder, processes: processes)
    var session = try await makeSession(servers, folder)
    session.beside = { [control] in
      do {
        try await attackers.run(beside: servers) { control.isWanted }
      } catch {
        control.fail("\(error)")
      }
    }
    session.registrationsOfOthers = round.attacks.isEmpty ? 0 : Attack.registrationsMax
    session.atEnd = { attackers.samplePeaks(servers) }
    control.attach(session.source)
    control.begin(step: "")
    let report = try await session.run()
    await stopCluster()
    let attackSeconds = attackers.endedAfterSeconds ?? hostile.attackSeconds
    let result = report.result
    var row = HostileRow(name: round.name)
    row.failures = result.failures.filter { $0.value > 0 }
    for incident in report.incidents { row.failures[incident, default: 0] += 1 }
    let missing = result.callsExpected - result.callsAccountedFor
    if row.failures.isEmpty, missing > 0 { row.failures["calls not completed"] = missing }
    row.calls = result.callsPlaced
    row.ringP50 = result.rings.percentile(0.5, before: attackSeconds)
    row.ringP99 = result.rings.percentile(0.99, before: attackSeconds)
    row.peaks = attackers.peaks
    row.accounts = attackers.accounts()
    row.recoveredSeconds = aim.flatMap { recovery(report, from: attackSeconds, hostile, $0) }
    return (report, row)
  }

  private func recovery(
    _ report: RunReport, from seconds: Double, _ hostile: HostilePlan, _ aim: HostileAim
  ) -> Double? {
    aim.recovery(
      report.result.rings, from: seconds, until: hostile.attackSeconds + hostile.recoverySeconds)
  }

  private func stopCluster() async {
    control.begin(step: "stopping the cluster")
    await processes.stop()
    processes.reset()
  }

  private func orders(
    _ round: HostilePlan.Round, _ hostile: HostilePlan, _ servers: Servers,
    _ folder: TemporaryFolder
  ) -> AttackOrders {
    AttackOrders(
      attacks: round.attacks, edges: servers.edgeURLs,
      keysPath: servers.keysPath, app: servers.app,
      otherApp: servers.keys.appNames.first { $0 != servers.app } ?? servers.app,
      seconds: hostile.attackSeconds, seed: plan.settings.seed,
      accountPath: folder.file("attack-account.json"))
  }
}
