/// Body of the orders `drain` and `resume`, as JSON: `{"node":"edge-1","action":"drain"}`. Every node
/// hears it; the one that is named answers, with an `OrderAnswer`. `callnode all` is two nodes of one name:
/// both do as they are told, and both answer.
public struct DrainRequest: Codable, Sendable, Equatable {
  public enum Action: String, Codable, Sendable, CaseIterable {
    /// Give devices or shards up, and stay.
    case drain
    /// Serve again.
    case resume
  }
  public var node: String
  public var action: Action
  /// How long an edge may take, in place of its `drainSeconds`. Coordinators hand their shards over
  /// as fast as they can.
  public var seconds: Int?

  public init(node: String, action: Action, seconds: Int? = nil) {
    self.node = node
    self.action = action
    self.seconds = seconds
  }
}
