/// A shard's calls, close together in memory and changed in place: a dictionary of such large values
/// would copy them when it is read and move them when it grows.
///
/// They lie in pieces. A checkpoint is written from a copy of the table while the shard goes on, so the first change
/// of a piece copies that piece, and only that.
struct CallTable: Sendable {
  /// Calls in a piece. To copy one costs some microseconds.
  static let pieceSize = 32

  /// All but the last one are full.
  private var pieces: [[Call]] = []
  private var index: [CallID: Int] = [:]

  var count: Int { index.count }

  /// The slots in use, in no order. They move when a call is removed.
  var slots: Range<Int> { 0..<count }

  func slot(of id: CallID) -> Int? { index[id] }

  func contains(_ id: CallID) -> Bool { index[id] != nil }

  subscript(slot: Int) -> Call {
    _read { yield pieces[slot / Self.pieceSize][slot % Self.pieceSize] }
    _modify { yield &pieces[slot / Self.pieceSize][slot % Self.pieceSize] }
  }

  /// - Precondition: there is no call of this id.
  /// - Returns: its slot.
  mutating func insert(_ call: Call) -> Int {
    let slot = count
    if slot == pieces.count * Self.pieceSize {
      pieces.append([])
      pieces[pieces.count - 1].reserveCapacity(Self.pieceSize)
    }
    index[call.id] = slot
    pieces[pieces.count - 1].append(call)
    return slot
  }

  mutating func remove(_ id: CallID) -> Call? {
    guard let slot = index.removeValue(forKey: id) else { return nil }
    guard let last = pieces[pieces.count - 1].popLast() else { return nil }
    if pieces[pieces.count - 1].isEmpty { pieces.removeLast() }
    // `index` has one less already: the last one had this slot.
    guard slot != count else { return last }
    index[last.id] = slot
    var removed = last
    swap(&self[slot], &removed)
    return removed
  }
}

/// A shard's calls as they were at one moment. Taking it costs next to nothing; the costly work is done with it
/// on another thread.
public struct ShardSnapshot: Sendable {
  let calls: CallTable

  /// The fewest entries that rebuild every call.
  public func entries() -> [JournalEntry] {
    var entries: [JournalEntry] = []
    for slot in calls.slots { calls[slot].appendFacts(to: &entries) }
    return entries
  }
}
