internal import CallCore
internal import CallJudge
internal import CallProcesses
internal import CallSimulation
internal import Glibc

struct SimPlan {
  var options: SimOptions
  var sabotage: Sabotage?
  var first: UInt64
  /// Seeds that a file names; nil: those from `first` on.
  var listed: [UInt64]?
  /// nil: as many as there is time for.
  var count: Int?
  var minutes: Double?
  var stopsAtFirst: Bool
  /// This process is one of so many that share the seeds.
  var jobs = 1
  /// Its number among them.
  var share = 0
  /// For a test: the process dies when it reaches this seed.
  var diesAt: UInt64?

  private func seed(_ index: Int) -> UInt64 { listed?[index] ?? first + UInt64(index) }

  /// Runs the seeds one after the other.
  /// - Parameter onResult: called with each result.
  func run(quiet: Bool, onResult: (SimResult) -> Void = { _ in }) -> SimSummary {
    var summary = SimSummary(intensity: options.intensity)
    let start = ContinuousClock.now
    let isTerminal = isatty(STDERR_FILENO) == 1
    var index = share
    while !isOver(index, since: start) {
      let seed = seed(index)
      if seed == diesAt { raise(SIGKILL) }
      let result = Simulation(seed: seed, options: options, sabotage: sabotage).run()
      summary.add(result)
      onResult(result)
      if stopsAtFirst, let failure = result.failure, isMeant(failure) { break }
      if !quiet, isTerminal { progress(summary) }
      index += jobs
    }
    summary.asked = asked(summary)
    summary.elapsed = ContinuousClock.now - start
    return summary
  }

  /// Whether the rule is broken that has to find the sabotage. Without such a rule any will do.
  private func isMeant(_ failure: SimFailure) -> Bool {
    sabotage?.facts.rule.map { failure.reason.hasPrefix($0.rawValue) } ?? true
  }

  /// The number of seeds that must have run; nil if the time, or a failure, ends the run.
  private func asked(_ summary: SimSummary) -> Int? {
    minutes != nil || (stopsAtFirst && summary.failures.contains(where: isMeant)) ? nil : count
  }

  private func isOver(_ index: Int, since start: ContinuousClock.Instant) -> Bool {
    isBeyond(index) || minutes.map { ContinuousClock.now - start >= .seconds($0 * 60) } ?? false
  }

  private func isBeyond(_ index: Int) -> Bool { count.map { index >= $0 } ?? false }

  private func progress(_ summary: SimSummary) {
    let line = Array("\r\(summary.seeds) seeds, \(summary.failures.count) failed ".utf8)
    _ = write(STDERR_FILENO, line, line.count)
  }

  /// Runs the seeds in several processes, which write each result as a line.
  /// - Parameter arguments: the command line of a child.
  func runJobs(_ jobs: Int, arguments: (_ job: Int) -> [String]) -> SimSummary {
    let start = ContinuousClock.now
    var children: [(job: Int, process: ChildProcess, output: Int32)] = []
    for job in 0..<jobs {
      guard let child = Self.spawn(arguments(job)) else { continue }
      children.append((job, child.process, child.output))
    }
    var summary = SimSummary(intensity: options.intensity)
    summary.broken = jobs - children.count
    let results = summary.read(from: children.map(\.output))
    for (child, results) in zip(children, results) {
      close(child.output)
      // It has closed its output, so it ends.
      if child.process.endNow(within: .seconds(60)) == .exited(0) { continue }
      summary.broken += 1
      let index = child.job + results * jobs
      if !isBeyond(index) { summary.brokenAt.append(seed(index)) }
    }
    summary.asked = asked(summary)
    summary.elapsed = ContinuousClock.now - start
    return summary
  }

  /// Starts this program again, with its output in a pipe.
  private static func spawn(_ arguments: [String]) -> (process: ChildProcess, output: Int32)? {
    var ends: [Int32] = [0, 0]
    guard pipe(&ends) == 0 else { return nil }
    defer { close(ends[1]) }
    // Also where a build has replaced its file.
    var command = ChildCommand(
      name: "callsim", executable: "/proc/\(getpid())/exe", arguments: arguments)
    command.standardOutput = ends[1]
    command.standardError = STDERR_FILENO
    command.inherits = .all
    guard let process = try? ChildLauncher.startNow(command) else {
      close(ends[0])
      return nil
    }
    return (process, ends[0])
  }
}
