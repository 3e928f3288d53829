import CallCore
import Testing

/// The log that the messages of a user's history add up to.
@Suite struct HistoryLogTests {
  private static func entry(_ number: UInt64, missed: Bool = false) -> HistoryEntry {
    HistoryEntry(
      call: CallID(high: 1, low: number), callee: "bob", isPlaced: false, peer: "alice",
      placedAt: Timestamp(microseconds: 1), endedAt: Timestamp(microseconds: 2),
      reason: .unanswered, isMissed: missed)
  }

  /// Missed calls at the numbers 10, 20, …
  private static func missed(_ count: UInt64) -> [(cursor: HistoryCursor, message: HistoryMessage)]
  {
    (0..<count).map { (HistoryCursor(10 * ($0 + 1)), .entry(entry($0 + 1, missed: true))) }
  }

  private static func cursors(_ page: HistoryPage) -> [UInt64] {
    page.items.map(\.cursor.sequence)
  }

  @Test func empty() {
    let log = HistoryLog([], entriesMax: 10)
    #expect(log.state == HistoryState(cursor: .start, unread: 0))
    #expect(log.page(before: nil, limit: 5) == HistoryPage())
    #expect(log.mark(upTo: HistoryCursor(7)) == nil)
  }

  @Test func pagesAreTheNewestFirst() {
    let log = HistoryLog(Self.missed(5), entriesMax: 10)
    let first = log.page(before: nil, limit: 2)
    #expect(Self.cursors(first) == [50, 40] && first.next == HistoryCursor(40))
    let second = log.page(before: first.next, limit: 2)
    #expect(Self.cursors(second) == [30, 20] && second.next == HistoryCursor(20))
    let third = log.page(before: second.next, limit: 2)
    #expect(Self.cursors(third) == [10] && third.next == nil)
    #expect(Self.cursors(log.page(before: HistoryCursor(10), limit: 2)).isEmpty)
    #expect(Self.cursors(log.page(before: HistoryCursor(45), limit: 1)) == [40])
    let all = log.page(before: nil, limit: 5)
    #expect(Self.cursors(all) == [50, 40, 30, 20, 10] && all.next == nil)
    #expect(first.state == HistoryState(cursor: HistoryCursor(50), unread: 5))
  }

  @Test func anEntryThatWasStoredTwiceCountsOnce() {
    var messages = Self.missed(3)
    messages.append((HistoryCursor(40), .entry(Self.entry(2, missed: true))))
    let log = HistoryLog(messages, entriesMax: 10)
    #expect(Self.cursors(log.page(before: nil, limit: 10)) == [30, 20, 10])
    #expect(log.state == HistoryState(cursor: HistoryCursor(40), unread: 3))
  }

  @Test func whatIsOnItsWayIsUnread() {
    var messages = Self.missed(3)
    messages.append((HistoryCursor(40), .read(upTo: HistoryCursor(20))))
    let log = HistoryLog(messages, entriesMax: 10)
    func placed(_ number: UInt64, at microseconds: Int64 = 1) -> PlacedCall {
      PlacedCall(
        CallID(high: 1, low: number), placedAt: Timestamp(microseconds: microseconds))
    }
    #expect(log.unread(with: []) == 1)
    #expect(log.unread(with: [placed(3)]) == 1, "the store has it")
    #expect(log.unread(with: [placed(1)]) == 1, "and this one was read")
    #expect(log.unread(with: [placed(4), placed(3), placed(5)]) == 3)
    #expect(log.unread(with: [placed(3, at: 9_000_000)]) == 2, "another call of the same id")
    #expect(HistoryLog([], entriesMax: 10).unread(with: [placed(1)]) == 1)
  }

  @Test func theGreatestMarkCounts() {
    var messages = Self.missed(3)
    messages.append((HistoryCursor(40), .read(upTo: HistoryCursor(20))))
    messages.append((HistoryCursor(50), .read(upTo: HistoryCursor(10))))
    let log = HistoryLog(messages, entriesMax: 10)
    #expect(log.readUpTo == HistoryCursor(20))
    #expect(log.state == HistoryState(cursor: HistoryCursor(50), unread: 1))
    #expect(log.mark(upTo: HistoryCursor(20)) == nil)
    #expect(log.mark(upTo: HistoryCursor(30)) == HistoryCursor(30))
    #expect(log.mark(upTo: HistoryCursor(35)) == HistoryCursor(30))
    #expect(log.mark(upTo: HistoryCursor(.max)) == HistoryCursor(30), "no further than there is")
  }

  @Test func marksAreNotReadThemselves() {
    let before = Self.missed(2)
    #expect(HistoryLog(before, entriesMax: 10).mark(upTo: HistoryCursor(.max)) == HistoryCursor(20))
    let marked = before + [(HistoryCursor(30), .read(upTo: HistoryCursor(20)))]
    let log = HistoryLog(marked, entriesMax: 10)
    #expect(log.mark(upTo: HistoryCursor(.max)) == nil, "else each mark would allow another")
    #expect(log.state == HistoryState(cursor: HistoryCursor(30), unread: 0))
  }

  /// Strangers' calls may have the same id.
  @Test func anotherCallOfTheSameIDCounts() {
    var later = Self.entry(1, missed: true)
    later.placedAt = Timestamp(microseconds: 5000)
    let log = HistoryLog(
      Self.missed(1) + [(HistoryCursor(20), .entry(later))], entriesMax: 10)
    #expect(log.state.unread == 2)
  }

  /// This holds whoever wrote the mark.
  @Test func nobodyHasReadWhatComesLater() {
    var messages = Self.missed(1)
    messages.append((HistoryCursor(15), .read(upTo: HistoryCursor(.max))))
    messages.append((HistoryCursor(20), .entry(Self.entry(2, missed: true))))
    #expect(HistoryLog(messages, entriesMax: 10).state.unread == 1)
  }

  @Test func onlyMissedCallsAreUnread() {
    let log = HistoryLog(
      [
        (HistoryCursor(1), .entry(Self.entry(1))),
        (HistoryCursor(2), .entry(Self.entry(2, missed: true))),
        (HistoryCursor(3), .entry(Self.entry(3))),
      ], entriesMax: 10)
    #expect(log.state == HistoryState(cursor: HistoryCursor(3), unread: 1))
  }

  @Test func theOldestEntriesAreLeftOut() {
    let log = HistoryLog(Self.missed(5), entriesMax: 3)
    #expect(Self.cursors(log.page(before: nil, limit: 10)) == [50, 40, 30])
    #expect(log.state.unread == 3)
  }

  // MARK: Cursors

  @Test(arguments: [0, 1, 35, 36, 1_000_000, UInt64.max])
  func aCursorIsReadAsItWasWritten(sequence: UInt64) {
    #expect(HistoryCursor(text: HistoryCursor(sequence).text) == HistoryCursor(sequence))
  }

  @Test(arguments: ["", "+1", "-1", "01", "A", " 1", "1 ", "é", "3w5e11264sgsg", "zzzzzzzzzzzzzz"])
  func otherTextIsNone(text: String) { #expect(HistoryCursor(text: text) == nil) }
}
