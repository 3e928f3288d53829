internal import ArgumentParser
internal import CallCore
internal import CallSimulation
internal import Glibc

/// Runs seeded worlds and says what they broke.
@main
struct CallSim: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "callsim", abstract: "Simulates a cluster, seed by seed.")

  @Option var seed: UInt64 = 1
  @Option var seeds = 1
  @Option var intensity = "usual"
  @Option var sabotage: String?
  @Flag var trace = false
  @Flag var counts = false
  @Flag var callOnly = false

  func run() async throws {
    var options = try await SimOptions()
    options.intensity = SimIntensity(rawValue: intensity) ?? .usual
    let sabotage = sabotage.flatMap(Sabotage.init(rawValue:))
    var all: [String: Int] = [:]
    var failed = 0
    for seed in seed..<seed + UInt64(seeds) {
      let lines = SimTrace()
      lines.isOn = trace
      let result = Simulation(seed: seed, options: options, sabotage: sabotage, trace: lines).run()
      all.merge(result.counts) { $0 + $1 }
      if let failure = result.failure {
        failed += 1
        print(
          "seed \(seed): \(failure.reason) call \(failure.call.map(\.description) ?? "-") at \((failure.time - SimWorld.beginning).microseconds / 1000) ms"
        )
        if trace, let call = failure.call {
          for line in lines.lines(of: call, context: !callOnly) {
            print(SimTrace.text(line, since: SimWorld.beginning))
          }
        } else if trace {
          for line in lines.lines.suffix(400) {
            print(SimTrace.text(line, since: SimWorld.beginning))
          }
        }
      }
      if trace { print("hash \(String(result.traceHash, radix: 16)) steps \(result.steps)") }
    }
    if counts { for (name, count) in all.sorted(by: { $0.key < $1.key }) { print(count, name) } }
    print("\(failed) of \(seeds) failed")
  }
}
