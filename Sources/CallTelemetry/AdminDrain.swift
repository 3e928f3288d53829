/// Body of `<cluster>.admin.drain`, as JSON: `{"node":"edge-1","action":"drain"}`. Every node hears
/// it; the one that is named answers, with a `DrainAnswer`. `callnode all` is two nodes of one name:
/// both do as they are told, and both answer.
public struct DrainRequest: Codable, Sendable, Equatable {
  public enum Action: String, Codable, Sendable {
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

/// That a node has heard what it was asked to do. What becomes of it, its status tells.
public struct DrainAnswer: Codable, Sendable, Equatable {
  public var node: String
  public var role: String
  public init(node: String, role: String) {
    self.node = node
    self.role = role
  }
}
