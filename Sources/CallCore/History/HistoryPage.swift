/// The state of the history that a user's devices show at all times: how many missed calls are unread.
public struct HistoryState: Sendable, Equatable {
  /// The cursor of the user's newest message. A state with a greater one is a later one.
  public var cursor: HistoryCursor
  /// Missed calls behind what the user has read.
  public var unread: UInt32
  public init(cursor: HistoryCursor = .start, unread: UInt32 = 0) {
    self.cursor = cursor
    self.unread = unread
  }
}

/// The state of the user's history that a session has shown to its device.
public struct HistoryMark: Sendable, Equatable {
  /// nil: nothing.
  public var shown: HistoryCursor?
  public init(shown: HistoryCursor? = nil) { self.shown = shown }
}

extension Acknowledgement {
  /// Acknowledges the history's state, in the edge's name: no call has this id.
  public static let historyID = CallID(high: 0, low: 1)
}

/// A part of a user's history.
public struct HistoryPage: Sendable, Equatable {
  public struct Item: Sendable, Equatable {
    public var cursor: HistoryCursor
    public var entry: HistoryEntry
    public init(cursor: HistoryCursor, entry: HistoryEntry) {
      self.cursor = cursor
      self.entry = entry
    }
  }

  /// The newest first.
  public var items: [Item]
  /// Where older ones begin: the next query's `before`; nil: there are none.
  public var next: HistoryCursor?
  public var state: HistoryState
  /// How far the user has read.
  public var readUpTo: HistoryCursor
  public init(
    items: [Item] = [], next: HistoryCursor? = nil, state: HistoryState = HistoryState(),
    readUpTo: HistoryCursor = .start
  ) {
    self.items = items
    self.next = next
    self.state = state
    self.readUpTo = readUpTo
  }
}

/// A request of a device or the app's server about a user's history, or a message of another shard about it.
public enum HistoryCommand: Sendable, Equatable {
  /// Entries before a cursor, or the newest ones.
  case list(before: HistoryCursor?, limit: UInt32)
  /// The user has read everything up to the cursor. Less than before changes nothing.
  case markRead(upTo: HistoryCursor)
  /// Another shard has added an entry.
  case changed

  /// How many entries a device may ask for.
  public static let limits: ClosedRange<UInt32> = 1...100
  /// How many it gets where its limit is 0.
  public static let limitStandard: UInt32 = 50

  /// Whether a device may say it.
  public var isValid: Bool {
    switch self {
    case .list(_, let limit): limit <= Self.limits.upperBound
    case .markRead: true
    case .changed: false
    }
  }
}

/// The question that the number in a push answers: how many missed calls of a user are unread.
public struct UnreadQuestion: Sendable, Equatable {
  public var user: UserKey
  /// Missed calls of the user of which the store may lack the entries. They count.
  public var missed: [PlacedCall]
  public init(user: UserKey, missed: [PlacedCall] = []) {
    self.user = user
    self.missed = missed
  }
}

/// An effect about histories that a shard asks its driver to carry out.
public enum HistoryEffect: Sendable, Equatable {
  /// The call's end is in the journal: store its entries (`ShardMachine.historyEntries(of:)`), then report `stored`.
  case store(CallID)
  /// Carry out a user's command, and reply.
  case answer(SessionRef, request: UInt64, UserKey, HistoryCommand)
  /// Read the state of a user's history, once the store has this mark; answer with `historyRead`.
  case read(UserKey, storing: HistoryCursor?)
  /// Show a device the state.
  case show(SessionRef, HistoryState)
}
