import CallCore

/// Micro-benchmarks of what a call passes through. `Benchmarks [FILTER]` runs those whose name
/// contains the filter; those of the bus need nats-server.
@main
struct Benchmarks {
  static func main() async throws {
    let measure = Measure(filter: CommandLine.arguments.dropFirst().first ?? "")
    measure.header()
    CoreBenchmarks.run(measure)
    CodecBenchmarks.run(measure)
  }
}
