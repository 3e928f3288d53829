import ArgumentParser
import CallSimulation
import CountingMalloc

/// Callgrind counts nothing but what runs inside these two (`loadtest/bench-call.sh`). Each does something behind the
/// call, or the call would be a jump, and callgrind would not notice its end.
@inline(never) func callBenchEdge(_ body: () -> Void) {
  counting_malloc_begin(1)
  body()
  counting_malloc_begin(0)
}
@inline(never) func callBenchCoordinator(_ body: () -> Void) {
  counting_malloc_begin(2)
  body()
  // Not to the letter what the other does, or the compiler would make one of them.
  counting_malloc_begin(0)
  coordinatorTurns += 1
}
nonisolated(unsafe) private var coordinatorTurns = 0

@main
struct CallBench: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "callbench",
    abstract: "Counts the instructions and allocations of a call, by part.",
    discussion: """
      `make bench-call` runs this under callgrind and shows the result: run without \
      arguments it only makes the calls, `callbench summary FILE` reads what callgrind counted.
      """,
    subcommands: [RunCommand.self, SummaryCommand.self], defaultSubcommand: RunCommand.self)
}

struct RunCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "run", abstract: "Makes calls: three devices ring, one answers.",
    discussion: "Prints the allocations of the edge and of the coordinator.")

  @Option(help: "Calls that are counted.") var calls = 200
  @Option(help: "Calls before those.") var warmUp = 60

  func run() async throws {
    let cluster = BenchCluster(try await SimOptions())
    let missing = cluster.warmUp(calls: warmUp)
    guard missing == 0, cluster.completed == warmUp else {
      throw ValidationError(
        "\(missing) devices are not attached, and \(cluster.completed) of \(warmUp) calls ended "
          + "as they should: nothing was measured.")
    }
    cluster.measure(edge: callBenchEdge, coordinator: callBenchCoordinator)
    cluster.run(calls: calls)
    guard cluster.completed == calls else {
      throw ValidationError("\(cluster.completed) of \(calls) calls ended as they should.")
    }
    print(counting_malloc_count(1), counting_malloc_count(2))
  }
}
