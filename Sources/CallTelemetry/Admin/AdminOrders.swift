internal import FoundationEssentials

/// Body of the orders `drain` and `resume`, as JSON: `{"node":"edge-1","action":"drain"}`. Every node receives it;
/// the node with that name answers with an `OrderAnswer`. `callnode all` runs two nodes of one name: both obey
/// and both answer.
public struct DrainRequest: Codable, Sendable, Equatable {
  public enum Action: String, Codable, Sendable, CaseIterable {
    /// Give up devices or shards, and keep running.
    case drain
    /// Serve again.
    case resume
  }
  public var node: String
  public var action: Action
  /// How long an edge may take, in place of its `drainSeconds`. Coordinators always hand their shards over as fast
  /// as they can.
  public var seconds: Int?

  public init(node: String, action: Action, seconds: Int? = nil) {
    self.node = node
    self.action = action
    self.seconds = seconds
  }
}

/// Body of the orders `kick` and `revoke`, as JSON: `{"app":"demo","user":"ann"}`.
///
/// `kick`: every edge ends the user's sessions and answers with a `KickAnswer`. `revoke`: coordinators store the
/// revocation and answer with an `OrderAnswer`.
public struct KickRequest: Codable, Sendable, Equatable {
  public var app: String
  public var user: String
  /// nil: all devices of the user.
  public var device: String?
  /// For a revocation, its time in seconds since 1970: only sessions end whose tokens were issued by then.
  public var revokedAtSeconds: Int64?

  public init(app: String, user: String, device: String? = nil, revokedAtSeconds: Int64? = nil) {
    self.app = app
    self.user = user
    self.device = device
    self.revokedAtSeconds = revokedAtSeconds
  }

  /// Whom the order concerns, as its record names it.
  public var about: String {
    ([app, user] + [device].compactMap(\.self)).joined(separator: " ")
  }
}

/// How many sessions an edge ended.
public struct KickAnswer: Codable, Sendable, Equatable {
  public var node: String
  /// nil from an edge that refused the order.
  public var sessions: Int?
  /// Why it ended none.
  public var refused: String?

  public init(node: String, sessions: Int) {
    self.node = node
    self.sessions = sessions
  }
}

/// The record of an operator's order, as JSON in the stream `<cluster>-audit`.
public struct AuditRecord: Codable, Sendable, Equatable {
  public var atMilliseconds: Int64 = 0
  /// The operator's NATS user. It is part of the subject, which NATS lets only that user publish to.
  public var operatorName = ""
  /// Such as `drain`.
  public var order = ""
  /// The node, user or device that the order names.
  public var about = ""
  /// The node that carries it out.
  public var node = ""
  public var role = ""

  public init() {}

  enum CodingKeys: String, CodingKey {
    case atMilliseconds = "at_ms"
    case operatorName = "operator"
    case order, about, node, role
  }

  package init?(_ bytes: [UInt8]) {
    guard let record = BoundedJSON.decode(Self.self, bytes) else { return nil }
    self = record
  }

  package var bytes: [UInt8] { Array(((try? sortedJSON()) ?? "").utf8) }
}

/// Acknowledges an order. The node's status shows its progress.
public struct OrderAnswer: Codable, Sendable, Equatable {
  public var node: String
  public var role: String
  /// Why it is not carried out.
  public var refused: String?

  public init(node: String, role: String, refused: String? = nil) {
    self.node = node
    self.role = role
    self.refused = refused
  }

  package var bytes: [UInt8] { jsonBytes ?? [] }
}
