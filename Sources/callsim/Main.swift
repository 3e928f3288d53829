internal import ArgumentParser
internal import CallSimulation

/// Runs seeded worlds and says what they broke.
@main
struct CallSim: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "callsim", abstract: "Simulates a cluster, seed by seed.")
}
