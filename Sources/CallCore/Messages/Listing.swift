/// The first items of a list in their order; the others are counted.
public struct Shortlist<Item: Comparable & Sendable>: Sendable, Equatable {
  /// How many are shown.
  public let countMax: Int
  /// Up to twice as many as are shown, so that they are seldom sorted.
  private var kept: [Item] = []
  private var dropped = 0

  /// - Parameter countMax: at least 1.
  public init(countMax: Int) { self.countMax = max(1, countMax) }

  /// In order.
  public var items: [Item] { Array(kept.sorted().prefix(countMax)) }

  /// How many items were added and are not among `items`.
  public var leftOut: Int { dropped + max(0, kept.count - countMax) }

  public mutating func add(_ item: Item) {
    kept.append(item)
    guard kept.count >= 2 * countMax else { return }
    dropped += kept.count - countMax
    kept = items
  }
}

/// One line of a list of calls. The newest call comes first; calls of the same time are ordered by id.
public struct CallSummary: Sendable, Equatable, Comparable {
  /// As the caller sees it.
  public var state: CallState
  public var app: String
  public var caller: Party
  /// The device that answered, also after the end.
  public var winner: Party?
  public var placedAt: Timestamp
  public init(
    state: CallState, app: String = "", caller: Party, winner: Party? = nil, placedAt: Timestamp
  ) {
    self.state = state
    self.app = app
    self.caller = caller
    self.winner = winner
    self.placedAt = placedAt
  }

  public static func < (one: CallSummary, other: CallSummary) -> Bool {
    if one.placedAt != other.placedAt { return one.placedAt > other.placedAt }
    let (id, otherID) = (one.state.call, other.state.call)
    return (id.high, id.low) < (otherID.high, otherID.low)
  }
}

/// One line of a list of users. Ordered by app, then by user.
public struct UserSummary: Sendable, Equatable, Comparable {
  public var user: UserKey
  /// Devices that have a session.
  public var attached: Int
  /// Devices that have a registration.
  public var registered: Int
  /// Calls to the user that have not ended. Calls that it placed are in other users' shards.
  public var liveCallsTo: Int
  public init(user: UserKey, attached: Int, registered: Int, liveCallsTo: Int) {
    self.user = user
    self.attached = attached
    self.registered = registered
    self.liveCallsTo = liveCallsTo
  }

  public static func < (one: UserSummary, other: UserSummary) -> Bool {
    (one.user.app, one.user.user) < (other.user.app, other.user.user)
  }
}

/// A filter of a list's entries; nil: all.
public struct ListFilter: Sendable, Equatable {
  public var app: String?
  /// In a list of calls: the caller, the callee, or one whose devices it rang.
  public var user: String?
  /// Only calls that have not ended.
  public var isLive: Bool
  public init(app: String? = nil, user: String? = nil, isLive: Bool = false) {
    self.app = app
    self.user = user
    self.isLive = isLive
  }
}

/// A shard's users and calls as they were at one moment. Taking it costs next to nothing; lists are
/// made of it on another thread. While it is kept, the shard's next change of a table copies that
/// table, or the piece of it that changes.
public struct ShardDirectory: Sendable {
  let calls: CallTable
  let users: [UserKey: User]

  public func add(callsMatching filter: ListFilter, to list: inout Shortlist<CallSummary>) {
    for slot in calls.slots where calls[slot].matches(filter) { list.add(calls[slot].summary) }
  }

  /// Adds the users that have a session or a registration.
  public func add(usersMatching filter: ListFilter, to list: inout Shortlist<UserSummary>) {
    for (key, user) in users {
      guard filter.app?.hasBytes(of: key.app) ?? true, filter.user?.hasBytes(of: key.user) ?? true,
        !user.devices.isEmpty
      else { continue }
      let summary = UserSummary(
        user: key, attached: user.devices.count { $0.session != nil },
        registered: user.devices.count { $0.registration != nil }, liveCallsTo: liveCalls(user))
      if summary.attached > 0 || summary.registered > 0 { list.add(summary) }
    }
  }

  private func liveCalls(_ user: User) -> Int {
    user.calls.count { id in calls.slot(of: id).map { calls[$0].phase != .ended } ?? false }
  }
}

extension ShardMachine {
  public var directory: ShardDirectory { ShardDirectory(calls: calls, users: users) }
}

extension Call {
  var summary: CallSummary {
    CallSummary(
      state: state(for: .caller), app: facts.callee.app, caller: facts.caller, winner: answer?.by,
      placedAt: facts.placedAt)
  }

  fileprivate func matches(_ filter: ListFilter) -> Bool {
    if filter.isLive, phase == .ended { return false }
    if let app = filter.app, !app.hasBytes(of: facts.callee.app) { return false }
    guard let user = filter.user else { return true }
    return user.hasBytes(of: facts.callee.user) || user.hasBytes(of: facts.caller.user)
      || legs.contains { user.hasBytes(of: $0.party.user) }
  }
}
