import CallBus
import CallCore
import Foundation

/// Micro-benchmarks of what a call passes through.
///
/// `Benchmarks [FILTER]` runs those whose name contains the filter. Those of the bus and the journal
/// need a nats-server with JetStream at `NATS_URL`; `make bench` starts one (`loadtest/bench.sh`).
@main
struct Benchmarks {
  static func main() async throws {
    let measure = Measure(filter: CommandLine.arguments.dropFirst().first ?? "")
    measure.header()
    CoreBenchmarks.run(measure)
    CoreBenchmarks.runPipeline(measure)
    CheckpointBenchmarks.run(measure)
    CodecBenchmarks.run(measure)
    try await SpeakerBenchmarks.run(measure)
    try PushBenchmarks.run(measure)
    try await APNsBenchmarks.run(measure)
    try await GatewayBenchmarks.run(measure)
    guard let url = ProcessInfo.processInfo.environment["NATS_URL"] else {
      print("bus, journal: skipped, since NATS_URL is not set")
      return
    }
    try await BusBenchmarks.run(measure, url: url)
  }
}
