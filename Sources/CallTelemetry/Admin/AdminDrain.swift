/// Body of the orders `drain` and `resume`, as JSON: `{"node":"edge-1","action":"drain"}`. Every node
/// receives it; the one that it names answers with an `OrderAnswer`. `callnode all` is two nodes of one name:
/// both obey, and both answer.
public struct DrainRequest: Codable, Sendable, Equatable {
  public enum Action: String, Codable, Sendable, CaseIterable {
    /// Give up devices or shards, and stay.
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
