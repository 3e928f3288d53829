import CallSimulation
import Testing

/// A search runs thousands of worlds one after the other: nothing may retain a finished world.
@Suite struct MemoryTests {
  private struct Remains {
    weak var simulation: Simulation?
    weak var world: SimWorld?
    var result: SimResult
  }

  @inline(never)
  private func run(_ seed: UInt64, _ intensity: SimIntensity, _ sabotage: Sabotage?) async throws
    -> Remains
  {
    var options = try await SimOptions()
    options.intensity = intensity
    let simulation = Simulation(seed: seed, options: options, sabotage: sabotage)
    let result = simulation.run()
    return Remains(simulation: simulation, world: simulation.world, result: result)
  }

  /// Everything in a world retains the world, so any leak shows here: with push and without, with few
  /// and many faults, and after a stop in the middle.
  @Test(
    arguments: [
      (1, SimIntensity.calm, nil), (2, .usual, nil), (3, .usual, nil), (4, .brutal, nil),
      (1, .usual, Sabotage.twoWinners), (2, .usual, .pushedTwice),
      // Requests of the app's server, of phones, and questions to its hook are under way.
      (1, .usual, .rulesLost), (1, .usual, .pushedAfterEnd), (1, .usual, .turnSkipped),
    ] as [(UInt64, SimIntensity, Sabotage?)])
  func nothingOfAWorldStays(
    _ seed: UInt64, _ intensity: SimIntensity, _ sabotage: Sabotage?
  ) async throws {
    let remains = try await run(seed, intensity, sabotage)
    #expect(remains.result.steps > 100)
    if sabotage == nil { #expect(remains.result.failure?.reason == nil) }
    #expect(remains.simulation == nil)
    #expect(remains.world == nil)
  }
}
