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
  public var sessions: Int
  /// Why it ended none.
  public var refused: String?

  public init(node: String, sessions: Int) {
    self.node = node
    self.sessions = sessions
  }

  public init(from decoder: any Decoder) throws {
    let fields = try decoder.container(keyedBy: CodingKeys.self)
    node = try fields.decode(String.self, forKey: .node)
    sessions = try fields.decodeIfPresent(Int.self, forKey: .sessions) ?? 0
    refused = try fields.decodeIfPresent(String.self, forKey: .refused)
  }
}
