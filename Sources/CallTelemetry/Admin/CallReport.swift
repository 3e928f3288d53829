/// Body of `<cluster>.admin.call`: `{"call":"<uuid>"}`, with app and user where it is a certain callee's; of `<cluster>.admin.user`: app and user.
/// Nodes that do not own the call or user answer with `found: false`, so that the operator need not wait for a
/// timeout.
public struct AdminQuery: Codable, Sendable, Equatable {
  public var call: String?
  public var app: String?
  public var user: String?
  public init(call: String? = nil, app: String? = nil, user: String? = nil) {
    self.call = call
    self.app = app
    self.user = user
  }
}

/// One node's answer about a call.
public struct CallReport: Codable, Sendable, Equatable {
  public struct Party: Codable, Sendable, Equatable {
    public var user: String
    public var device: String
    public var deviceName: String
    public init(user: String, device: String, deviceName: String) {
      self.user = user
      self.device = device
      self.deviceName = deviceName
    }
  }
  public struct Leg: Codable, Sendable, Equatable {
    public var party: Party
    public var state: String
    /// The session's name, as it stands in the edge's log; nil without a session.
    public var session: String?
    /// The purposes of the pushes to it; nil from nodes of earlier versions.
    public var pushes: [String]?
    public init(party: Party, state: String, session: String?, pushes: [String]? = nil) {
      self.party = party
      self.state = state
      self.session = session
      self.pushes = pushes
    }
  }
  public struct Event: Codable, Sendable, Equatable {
    /// Microseconds since 1970.
    public var atMicroseconds: Int64
    /// nil: of the call as a whole.
    public var device: String?
    /// The device's user: caller and callee may have devices of the same id.
    public var user: String?
    public var what: String
    /// The purpose of a push.
    public var purpose: String?
    /// Why a push was rejected or failed, or where the call went.
    public var reason: String?
    public init(
      atMicroseconds: Int64, device: String?, user: String? = nil, what: String,
      purpose: String? = nil, reason: String? = nil
    ) {
      self.atMicroseconds = atMicroseconds
      self.device = device
      self.user = user
      self.what = what
      self.purpose = purpose
      self.reason = reason
    }
  }
  public var found: Bool
  public var node: String
  public var shard: Int?
  public var app: String?
  public var call: String?
  public var callee: String?
  public var caller: Party?
  public var phase: String?
  public var reason: String?
  public var by: Party?
  public var deadlineMilliseconds: Int64?
  public var legs: [Leg]?
  public var timeline: [Event]?
  /// Events for which the timeline had no room; nil from nodes of earlier versions.
  public var timelineDropped: Int?
  public init(found: Bool, node: String) {
    self.found = found
    self.node = node
  }
}
