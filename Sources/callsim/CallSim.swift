internal import ArgumentParser
internal import CallCore
internal import CallSimulation
internal import Glibc

struct CallSim: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "callsim",
    abstract: "Simulates a cluster, seed by seed, and checks what must always be true.",
    discussion: """
      Examples:
        callsim --seeds 1000                   a thousand worlds; exit status 1 if one breaks a rule
        callsim --seed 42 --trace all          what happened in one world, from begin to end
        callsim --seed 42 --trace 5f0c…        what happened to one call in it, and to nodes meanwhile
        callsim --minutes 60 --jobs 2          new seeds for an hour, two at a time
        callsim --seeds 100000 --book seeds.txt   as many as there is time for; go on another day
        callsim --sabotage two-winners --first   a broken product: it must be found
      """)

  @Option(help: "The first seed. Without --seeds or --minutes: the only one.")
  var seed: UInt64?

  @Option(help: "How many seeds. By default 1; see --sabotage.")
  var seeds: Int?

  @Option(help: "Run new seeds for so long.")
  var minutes: Double?

  @Option(help: "How hard the world is: calm, usual (the default) or brutal; see --sabotage.")
  var intensity: String?

  @Option(help: "Worlds that run at the same time, each in a process of its own.")
  var jobs = 1

  @Option(
    help: ArgumentHelp(
      "Put a mistake into the product: \(Sabotage.allCases.map(\.name).joined(separator: ", ")). "
        + "By default worlds are then as hard and, without --seed and --minutes, as many as it takes "
        + "to find it.", valueName: "name"))
  var sabotage: String?

  @Option(help: ArgumentHelp("Print what happened: all, or a call's id.", valueName: "all|call"))
  var trace: String?

  @Option(
    help: ArgumentHelp(
      "Keep in a file which seeds have run, and go on where it ends. With --seeds: those from --seed "
        + "on, in all.", valueName: "file"))
  var book: String?

  @Option(
    help: ArgumentHelp(
      "Run the seeds that a file names, one in each line; whatever follows it there is a remark. All races must "
        + "be met.", valueName: "file"))
  var list: String?

  @Option(help: .hidden)
  var share: Int?

  /// For a test: the process dies when it reaches this seed.
  @Option(help: .hidden)
  var diesAt: UInt64?

  @Flag(help: "Stop at the first seed that breaks a rule.")
  var first = false

  @Flag(help: "Judge by what devices see of any cluster, without its journal and its other stores.")
  var withoutStores = false

  @Flag(help: "Print the result as JSON.")
  var json = false

  func validate() throws {
    if let intensity, SimIntensity(rawValue: intensity) == nil {
      throw ValidationError("--intensity \(intensity): give calm, usual or brutal")
    }
    if let sabotage, Sabotage(name: sabotage) == nil {
      throw ValidationError(
        "--sabotage \(sabotage): give one of "
          + Sabotage.allCases.map(\.name).joined(separator: ", "))
    }
    if let seeds, seeds < 1 { throw ValidationError("--seeds \(seeds): give 1 or more") }
    if let minutes, minutes <= 0 { throw ValidationError("--minutes \(minutes): give more than 0") }
    guard (1...256).contains(jobs) else { throw ValidationError("--jobs \(jobs): give 1 to 256") }
    if let trace, trace != "all", CallID(trace) == nil {
      throw ValidationError("--trace \(trace): give all, or the id of a call")
    }
    if book != nil, seeds == nil || trace != nil || sabotage != nil {
      throw ValidationError("--book needs --seeds, and goes with neither --trace nor --sabotage")
    }
    if list != nil, seed != nil || seeds != nil || trace != nil || book != nil {
      throw ValidationError("--list goes with none of --seed, --seeds, --trace and --book")
    }
    if trace != nil, seeds ?? 1 > 1 { throw ValidationError("--trace is for one seed") }
  }

  private var mistake: Sabotage? { sabotage.flatMap(Sabotage.init(name:)) }

  private var hardness: SimIntensity {
    intensity.flatMap(SimIntensity.init(rawValue:)) ?? mistake?.facts.intensity ?? .usual
  }

  /// nil: as many as there is time for.
  private var count: Int? {
    if let seeds { return seeds }
    if minutes != nil { return nil }
    return seed == nil ? mistake?.facts.seeds ?? 1 : 1
  }

  func run() async throws {
    var options = try await SimOptions()
    options.intensity = hardness
    options.hidesStores = withoutStores
    if trace != nil { return try runTraced(options) }
    var plan = SimPlan(
      options: options, sabotage: mistake, first: seed ?? 1, count: count, minutes: minutes,
      stopsAtFirst: first)
    plan.diesAt = diesAt
    if let list {
      plan.listed = try SimBook.listed(list)
      plan.count = plan.listed?.count
    }
    if let share { return runShare(share, plan) }
    if let book { return try runBook(SimBook(path: book, intensity: hardness.rawValue), plan) }
    var summary = jobs > 1 ? runJobs(plan) : plan.run(quiet: json)
    summary.isChosen = list != nil && mistake == nil
    print(json ? summary.json : summary.text(again: again))
    if !json, let text = story(of: summary.failures, options) { print(text) }
    if !summary.failures.isEmpty { throw ExitCode(1) }
    if summary.shortfall != nil { throw ExitCode(70) }
    if sabotage == nil, hardness != .calm, !summary.neverMet.isEmpty { throw ExitCode(3) }
  }

  /// Runs every `jobs`th seed, as one of several processes, and writes each result as a line.
  private func runShare(_ share: Int, _ plan: SimPlan) {
    var plan = plan
    plan.share = share
    plan.jobs = jobs
    _ = plan.run(quiet: true) { SimSummary.write($0, to: STDOUT_FILENO) }
  }

  /// Runs slice by slice, each in processes of its own.
  private func runBook(_ book: SimBook, _ plan: SimPlan) throws {
    let last = plan.first + UInt64(plan.count ?? 1) - 1
    let end = minutes.map { ContinuousClock.now + .seconds($0 * 60) }
    var done = try book.slices()
    var hasTold = false
    while true {
      let next = SimBook.next(from: plan.first, done)
      if next > last { break }
      if let end, .now >= end { break }
      var part = plan
      part.first = next
      part.count = Int(min(SimBook.sliceSize, last - next + 1))
      part.minutes = nil
      let summary = runJobs(part)
      guard summary.broken == 0, summary.seeds == part.count else {
        print("seeds from \(next) on: \(summary.shortfall ?? "not all of them ran")")
        throw ExitCode(70)
      }
      let slice = SimBook.Slice(
        intensity: hardness.rawValue, seeds: next...next + UInt64(summary.seeds) - 1,
        failed: summary.failures.count)
      try book.write(slice, summary.failures)
      for failure in summary.failures { print("\(failure)\n    \(again(failure))") }
      if !hasTold, let text = story(of: summary.failures, plan.options) {
        print(text)
        hasTold = true
      }
      done.append(slice)
    }
    let failed = done.reduce(0) { $0 + $1.failed }
    let count = done.reduce(0) { $0 + $1.seeds.count }
    print("\(count) seeds (\(hardness.rawValue)) in \(book.path), \(failed) failed")
    if failed > 0 { throw ExitCode(1) }
  }

  private func runJobs(_ plan: SimPlan) -> SimSummary {
    var common = ["--jobs", "\(jobs)", "--intensity", hardness.rawValue]
    if let list {
      common += ["--list", list]
    } else {
      common += ["--seed", "\(plan.first)"]
      if let count = plan.count { common += ["--seeds", "\(count)"] }
    }
    if let minutes = plan.minutes { common += ["--minutes", "\(minutes)"] }
    if let sabotage { common += ["--sabotage", sabotage] }
    if first { common.append("--first") }
    if withoutStores { common.append("--without-stores") }
    if let diesAt { common += ["--dies-at", "\(diesAt)"] }
    return plan.runJobs(jobs) { common + ["--share", "\($0)"] }
  }

  /// The command that repeats a seed.
  private func again(_ failure: SimFailure) -> String {
    var words = "callsim --seed \(failure.seed) --intensity \(hardness.rawValue)"
    if let sabotage { words += " --sabotage \(sabotage)" }
    if withoutStores { words += " --without-stores" }
    return words + " --trace " + (failure.call?.description ?? "all")
  }

  /// Runs the first failed seed again, and returns its trace; nil if none failed.
  private func story(of failures: [SimFailure], _ options: SimOptions) -> String? {
    let earliest = failures.min { $0.seed < $1.seed }
    guard let earliest else { return nil }
    let lines = SimTrace(isOn: true)
    let result = Simulation(
      seed: earliest.seed, options: options, sabotage: mistake, trace: lines
    ).run()
    guard let failure = result.failure, failure.time == earliest.time else {
      let instead = result.failure?.reason ?? "nothing broke"
      return "seed \(earliest.seed), run again for its trace, did something else: \(instead)"
    }
    let what = failure.call.map { "call \($0) in seed" } ?? "the last of seed"
    return (["\(what) \(failure.seed):"] + lines.story(of: failure)).joined(separator: "\n")
  }

  private func runTraced(_ options: SimOptions) throws {
    let lines = SimTrace(isOn: true)
    let result = Simulation(
      seed: seed ?? 1, options: options, sabotage: mistake, trace: lines
    ).run()
    let call = trace.flatMap { CallID($0) }
    for line in call.map({ lines.lines(of: $0, context: true) }) ?? lines.lines {
      print(SimTrace.text(line))
    }
    print("trace \(String(result.traceHash, radix: 16)), \(result.steps) steps")
    guard let failure = result.failure else { return print("seed \(result.seed): nothing broke") }
    print(failure)
    throw ExitCode(1)
  }
}

/// Dictionaries must be laid out alike in every run, which the runtime decides before `main`.
@main
enum Main {
  static let switchName = "SWIFT_DETERMINISTIC_HASHING"

  static func main() async {
    if getenv(switchName) == nil {
      setenv(switchName, "1", 1)
      execv("/proc/self/exe", CommandLine.unsafeArgv)
      perror("callsim: cannot start itself anew")
      exit(70)
    }
    await CallSim.main()
  }
}
