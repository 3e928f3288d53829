/// Body of `<cluster>.admin.users` and `<cluster>.admin.calls`. Each coordinator answers for its own shards; other
/// nodes do not answer.
public struct ListQuery: Codable, Sendable, Equatable {
  /// The most entries in one node's answer, whatever the query asks for.
  public static let limitMax = 1000
  /// The entries of an answer where the query names no number.
  public static let limitStandard = 50

  /// nil: all apps.
  public var app: String?
  /// For lists of calls: the caller or the callee. nil: all users.
  public var user: String?
  /// For lists of calls: only those that have not ended. nil: false.
  public var live: Bool?
  /// The most entries in an answer. nil: `limitStandard`.
  public var limit: Int?
  public init(app: String? = nil, user: String? = nil, live: Bool? = nil, limit: Int? = nil) {
    self.app = app
    self.user = user
    self.live = live
    self.limit = limit
  }

  /// The limit in force: 1 to `limitMax`.
  public var entriesMax: Int { min(max(1, limit ?? Self.limitStandard), Self.limitMax) }
}

/// An entry of a list. Its order is the list's.
public protocol ListEntry: Codable, Sendable, Equatable {
  /// Whether this entry stands before the other one.
  func precedes(_ other: Self) -> Bool
}

/// One coordinator's answer: the first entries of its shards.
public struct ListReport<Entry: ListEntry>: Codable, Sendable, Equatable {
  public var node: String
  /// In order.
  public var entries: [Entry]
  /// Entries that the answer has no room for.
  public var leftOut: Int
  /// The shards that were searched.
  public var shards: [Int]
  /// The number of shards of the whole cluster.
  public var shardCount: Int
  public init(node: String, entries: [Entry], leftOut: Int, shards: [Int], shardCount: Int) {
    self.node = node
    self.entries = entries
    self.leftOut = leftOut
    self.shards = shards
    self.shardCount = shardCount
  }
}

/// A user that has a session or a registration.
public struct ListedUser: ListEntry {
  public var app: String
  public var user: String
  /// Devices that have a session.
  public var attached: Int
  /// Devices that have a registration.
  public var registered: Int
  /// Calls to the user that have not ended. Calls that it placed are not counted.
  public var liveCallsTo: Int
  public init(app: String, user: String, attached: Int, registered: Int, liveCallsTo: Int) {
    self.app = app
    self.user = user
    self.attached = attached
    self.registered = registered
    self.liveCallsTo = liveCallsTo
  }
  public func precedes(_ other: ListedUser) -> Bool {
    (app, user) < (other.app, other.user)
  }
}

public struct ListedCall: ListEntry {
  public var call: String
  /// placed, ringing, answered or ended.
  public var phase: String
  /// Why it ended; nil while it lives.
  public var reason: String?
  public var app: String
  public var caller: CallReport.Party
  /// The user who is called.
  public var callee: String
  /// The device that answered.
  public var winner: CallReport.Party?
  public var placedAtMilliseconds: Int64
  /// nil while it lives, and from nodes of earlier versions.
  public var endedAtMilliseconds: Int64?
  public var shard: Int
  /// The coordinator that decides about it.
  public var owner: String
  public init(
    call: String, phase: String, reason: String?, app: String, caller: CallReport.Party,
    callee: String, winner: CallReport.Party?, placedAtMilliseconds: Int64, shard: Int,
    owner: String
  ) {
    self.call = call
    self.phase = phase
    self.reason = reason
    self.app = app
    self.caller = caller
    self.callee = callee
    self.winner = winner
    self.placedAtMilliseconds = placedAtMilliseconds
    self.shard = shard
    self.owner = owner
  }
  /// The newest call comes first.
  public func precedes(_ other: ListedCall) -> Bool {
    placedAtMilliseconds == other.placedAtMilliseconds
      ? call < other.call : placedAtMilliseconds > other.placedAtMilliseconds
  }
}
