/// A user's history, as its messages in the store say. If an entry was stored again after a crash, the first one
/// counts.
public struct HistoryLog: Sendable, Equatable {
  /// In their order: the oldest first.
  public private(set) var items: [HistoryPage.Item] = []
  public private(set) var readUpTo = HistoryCursor.start
  public private(set) var newest = HistoryCursor.start

  /// - Parameters:
  ///   - messages: all of the user, in their order.
  ///   - entriesMax: policy above it: leave the oldest ones out.
  public init(_ messages: [(cursor: HistoryCursor, message: HistoryMessage)], entriesMax: Int) {
    var known: Set<PlacedCall> = []
    for (cursor, message) in messages {
      newest = max(newest, cursor)
      switch message {
      case .entry(let entry):
        if known.insert(PlacedCall(entry.call, placedAt: entry.placedAt)).inserted {
          items.append(HistoryPage.Item(cursor: cursor, entry: entry))
        }
      // A mark cannot cover entries that were stored after it.
      case .read(let upTo): readUpTo = max(readUpTo, min(upTo, cursor))
      }
    }
    items.removeFirst(max(0, items.count - entriesMax))
  }

  public var state: HistoryState {
    HistoryState(cursor: newest, unread: UInt32(clamping: unreadStored))
  }

  private var unreadStored: Int {
    items.reversed().prefix { readUpTo < $0.cursor }.count { $0.entry.isMissed }
  }

  /// How many missed calls are unread.
  /// - Parameter missed: calls whose entries are on their way to the store. They count as unread.
  public func unread(with missed: [PlacedCall]) -> UInt32 {
    let lacking = missed.count { call in
      !items.reversed().contains {
        PlacedCall($0.entry.call, placedAt: $0.entry.placedAt) == call
      }
    }
    return UInt32(clamping: unreadStored + lacking)
  }

  /// - Parameters:
  ///   - before: nil: the newest ones.
  ///   - limit: as many entries at most.
  public func page(before: HistoryCursor?, limit: UInt32) -> HistoryPage {
    let older = before.map { end in items.prefix { $0.cursor < end } } ?? items[...]
    let part = older.suffix(Int(limit))
    return HistoryPage(
      items: part.reversed(), next: part.count < older.count ? part.first?.cursor : nil,
      state: state, readUpTo: readUpTo)
  }

  /// The mark to be stored when the user has read up to a place. It is an entry's, so there are no more marks than
  /// entries.
  /// - Returns: nil where that is stored already.
  public func mark(upTo cursor: HistoryCursor) -> HistoryCursor? {
    guard let last = items.last(where: { $0.cursor <= cursor })?.cursor else { return nil }
    return readUpTo < last ? last : nil
  }
}
