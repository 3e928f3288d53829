internal import CallCore
internal import CallWire

/// Carries a sabotage out, at the seams of the world.
final class Tampering {
  private let sabotage: Sabotage

  init(
    _ sabotage: Sabotage, _ world: SimWorld, _ nats: SimNATS, _ coordinators: [SimCoordinator],
    _ edges: [SimEdge]
  ) {
    self.sabotage = sabotage
    switch sabotage {
    case .noExpectedSequence: nats.journalExpectationIgnored = true
    }
  }

  func receiving(_ frame: ServerFrame, on line: SimLine) -> ServerFrame? { frame }
}
