internal import CallClient
internal import CallCore
internal import CallWire

/// Counts which races, transitions and faults a world met.
final class SimCoverage {
  private let world: SimWorld
  private let options: SimOptions

  init(_ world: SimWorld, _ options: SimOptions) {
    self.world = world
    self.options = options
  }

  func journalled(_ shard: Int, _ record: JournalRecord) {}
  func arrived(_ command: Command) {}
  func told(_ device: SimDevice, _ event: ClientEvent) {}
  func sent(_ frame: ClientFrame, on line: SimLine) {}
  func received(_ frame: ServerFrame, on line: SimLine) {}
  func edgeTrouble(_ edge: SimEdge, _ devices: [SimDevice]) {}
  func finish() {}
}
