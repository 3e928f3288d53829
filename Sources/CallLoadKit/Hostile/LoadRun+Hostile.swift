import CallAuth
import CallHostile
import CallProcesses
import Synchronization

/// The load once alone and once beside each attack, each time on a cluster of its own for its memory.
extension LoadRun {
  func hostile(_ hostile: HostilePlan, _ folder: TemporaryFolder) async throws -> Outcome {
    let connections = Attack.allCases.reduce(0) { $0 + $1.facts.connections }
    _ = FileLimit.raise(toward: FileLimit.needed(devices: plan.settings.devices + connections))
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
    let run = AttackRun(servers)
    let target = AttackTarget(
      edges: servers.edgeURLs, keys: servers.keys, app: servers.app,
      otherApp: servers.keys.appNames.first { $0 != servers.app } ?? servers.app)
    var session = makeSession(servers)
    session.beside = { [control, plan] in
      do {
        try await run.play(
          round.attacks, on: target, seconds: hostile.attackSeconds, seed: plan.settings.seed
        ) { control.isWanted }
      } catch {
        control.fail("\(error)")
      }
    }
    session.registrationsOfOthers = round.attacks.isEmpty ? 0 : Attack.registrationsMax
    session.atEnd = { run.samplePeaks() }
    control.attach(session.engine)
    control.begin(step: "")
    let report = try await session.run()
    await stopCluster()
    let attack = run.outcome
    let attackSeconds = attack.seconds ?? hostile.attackSeconds
    let result = report.result
    var row = HostileRow(name: round.name)
    row.failures = result.failures.filter { $0.value > 0 }
    for incident in report.incidents { row.failures[incident, default: 0] += 1 }
    let missing = result.callsExpected - result.callsAccountedFor
    if row.failures.isEmpty, missing > 0 { row.failures["calls not completed"] = missing }
    row.calls = result.callsPlaced
    row.ringP50 = result.rings.percentile(0.5, before: attackSeconds)
    row.ringP99 = result.rings.percentile(0.99, before: attackSeconds)
    row.peaks = Array(attack.peaks.values)
    row.accounts = attack.accounts
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
}

/// The attackers beside one run of the load, and each node's peak memory.
private final class AttackRun: Sendable {
  struct Outcome {
    /// From the beginning of the load until the end of the attackers; nil without attackers.
    var seconds: Double?
    var accounts: [Attack: AttackAccount] = [:]
    var peaks: [String: NodePeak] = [:]
  }

  private let servers: Servers
  private let state = Mutex(Outcome())

  init(_ servers: Servers) { self.servers = servers }

  var outcome: Outcome { state.withLock { $0 } }

  /// At their low priority, attackers may get no processor for this long on a busy machine, and an attack that has not
  /// begun says nothing about the cluster.
  private static let startSecondsMax: Double = 20

  /// - Parameter isWanted: polled; the attackers are ended once it returns false.
  func play(
    _ attacks: [Attack], on target: AttackTarget, seconds: Double, seed: UInt64,
    isWanted: @Sendable () -> Bool
  ) async throws {
    guard !attacks.isEmpty else { return }
    let began = ContinuousClock.now
    var passed: Double { began.duration(to: .now) / .seconds(1) }
    let attackers = try await Attackers(attacks, on: target, seed: seed)
    while isWanted() {
      samplePeaks()
      if passed >= seconds + Self.startSecondsMax { break }
      if passed >= seconds, try await attackers.haveAllActed { break }
      await Pause.milliseconds(50)
    }
    let accounts = try await attackers.stop()
    state.withLock { ($0.seconds, $0.accounts) = (passed, accounts) }
  }

  /// Samples each node's peak memory until now, which the kernel counts.
  func samplePeaks() {
    for (role, name, sample) in servers.sample() where sample.residentPeakBytes > 0 {
      let peak = NodePeak(role: role, name: name, bytes: sample.residentPeakBytes)
      state.withLock { state in
        state.peaks.merge([name: peak]) { $0.bytes > $1.bytes ? $0 : $1 }
      }
    }
  }
}
