internal import CallCore
internal import CallSimulation
internal import Glibc

struct SimPlan {
  var options: SimOptions
  var sabotage: Sabotage?
  var first: UInt64
  /// nil: as many as there is time for.
  var count: Int?
  var minutes: Double?
  var stopsAtFirst: Bool
  /// The distance between two seeds of this process: several processes share the seeds.
  var stride: UInt64 = 1
  /// For a test: the process dies when it reaches this seed.
  var diesAt: UInt64?

  /// Runs the seeds one after the other.
  /// - Parameter onResult: called with each result.
  func run(quiet: Bool, onResult: (SimResult) -> Void = { _ in }) -> SimSummary {
    var summary = SimSummary(intensity: options.intensity)
    let start = ContinuousClock.now
    let isTerminal = isatty(STDERR_FILENO) == 1
    var seed = first
    while !isOver(seed, since: start) {
      if seed == diesAt { raise(SIGKILL) }
      let result = Simulation(seed: seed, options: options, sabotage: sabotage).run()
      summary.add(result)
      onResult(result)
      if stopsAtFirst, result.failure != nil { break }
      if !quiet, isTerminal { progress(summary) }
      seed += stride
    }
    summary.asked = asked(summary)
    summary.elapsed = ContinuousClock.now - start
    return summary
  }

  /// The number of seeds that must have run; nil if the time, or a failure, ends the run.
  private func asked(_ summary: SimSummary) -> Int? {
    minutes != nil || (stopsAtFirst && !summary.failures.isEmpty) ? nil : count
  }

  private func isOver(_ seed: UInt64, since start: ContinuousClock.Instant) -> Bool {
    isBeyond(seed) || minutes.map { ContinuousClock.now - start >= .seconds($0 * 60) } ?? false
  }

  private func isBeyond(_ seed: UInt64) -> Bool {
    count.map { seed >= first + UInt64($0) } ?? false
  }

  private func progress(_ summary: SimSummary) {
    let line = Array("\r\(summary.seeds) seeds, \(summary.failures.count) failed ".utf8)
    _ = write(STDERR_FILENO, line, line.count)
  }

  /// Runs the seeds in several processes, which write each result as a line.
  /// - Parameter arguments: the command line of a child.
  func runJobs(_ jobs: Int, arguments: (_ job: Int) -> [String]) -> SimSummary {
    let start = ContinuousClock.now
    var children: [(job: Int, pid: pid_t, output: Int32)] = []
    for job in 0..<jobs {
      guard let child = Self.spawn(arguments(job)) else { continue }
      children.append((job, child.pid, child.output))
    }
    var summary = SimSummary(intensity: options.intensity)
    summary.broken = jobs - children.count
    let lastSeeds = summary.read(from: children.map(\.output))
    for (child, last) in zip(children, lastSeeds) {
      close(child.output)
      var status: Int32 = 0
      waitpid(child.pid, &status, 0)
      if status == 0 { continue }
      summary.broken += 1
      let seed = last.map { $0 + UInt64(jobs) } ?? first + UInt64(child.job)
      if !isBeyond(seed) { summary.brokenAt.append(seed) }
    }
    summary.asked = asked(summary)
    summary.elapsed = ContinuousClock.now - start
    return summary
  }

  /// Starts this program again, with its output in a pipe.
  private static func spawn(_ arguments: [String]) -> (pid: pid_t, output: Int32)? {
    var ends: [Int32] = [0, 0]
    guard pipe(&ends) == 0 else { return nil }
    for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
    defer { close(ends[1]) }
    var actions = posix_spawn_file_actions_t()
    posix_spawn_file_actions_init(&actions)
    defer { posix_spawn_file_actions_destroy(&actions) }
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO)
    var words: [UnsafeMutablePointer<CChar>?] = (["callsim"] + arguments).map { strdup($0) }
    words.append(nil)
    defer { for word in words { free(word) } }
    var pid = pid_t()
    guard posix_spawn(&pid, "/proc/self/exe", &actions, nil, words, environ) == 0 else {
      close(ends[0])
      return nil
    }
    return (pid, ends[0])
  }
}
