import CallCore
import Testing

/// The log that the messages of a user's history add up to.
@Suite struct HistoryLogTests {
  typealias Message = (cursor: HistoryCursor, message: HistoryMessage)

  private static func entry(
    _ number: UInt64, at cursor: UInt64, missed: Bool = true, placedAt: Int64 = 1
  ) -> Message {
    let entry = HistoryEntry(
      call: CallID(high: 1, low: number), callee: "bob", isPlaced: false, peer: "alice",
      placedAt: Timestamp(microseconds: placedAt), endedAt: Timestamp(microseconds: 2),
      reason: .unanswered, isMissed: missed)
    return (HistoryCursor(cursor), .entry(entry))
  }

  private static func read(upTo last: UInt64, at cursor: UInt64) -> Message {
    (HistoryCursor(cursor), .read(upTo: HistoryCursor(last)))
  }

  /// Missed calls at the numbers 10, 20, …
  private static func missed(_ count: UInt64) -> [Message] {
    (0..<count).map { entry($0 + 1, at: 10 * ($0 + 1)) }
  }

  private static func cursors(_ page: HistoryPage) -> [UInt64] {
    page.items.map(\.cursor.sequence)
  }

  struct Case: CustomTestStringConvertible {
    var testDescription: String
    var messages: [Message]
    /// The last message of all.
    var cursor: UInt64
    var unread: UInt32
    /// Where a mark is set that is to be as far as there is anything to read; nil: all is read.
    var mark: UInt64?
  }

  static let cases: [Case] = [
    Case(testDescription: "empty", messages: [], cursor: 0, unread: 0),
    Case(
      testDescription: "an entry that was stored twice counts once",
      messages: missed(3) + [entry(2, at: 40)], cursor: 40, unread: 3, mark: 30),
    Case(
      testDescription: "another call of the same id counts: strangers' calls may have it",
      messages: missed(1) + [entry(1, at: 20, placedAt: 5000)], cursor: 20, unread: 2, mark: 20),
    Case(
      testDescription: "the greatest mark counts",
      messages: missed(3) + [read(upTo: 20, at: 40), read(upTo: 10, at: 50)], cursor: 50,
      unread: 1, mark: 30),
    Case(
      testDescription: "marks are not read themselves: else each mark would allow another",
      messages: missed(2) + [read(upTo: 20, at: 30)], cursor: 30, unread: 0),
    Case(
      testDescription: "nobody has read what comes later, whoever wrote the mark",
      messages: missed(1) + [read(upTo: .max, at: 15), entry(2, at: 20)], cursor: 20, unread: 1,
      mark: 20),
    Case(
      testDescription: "only missed calls are unread",
      messages: [entry(1, at: 1, missed: false), entry(2, at: 2), entry(3, at: 3, missed: false)],
      cursor: 3, unread: 1, mark: 3),
  ]

  @Test(arguments: cases) func states(of given: Case) {
    let log = HistoryLog(given.messages, entriesMax: 10)
    #expect(log.state == HistoryState(cursor: HistoryCursor(given.cursor), unread: given.unread))
    #expect(log.mark(upTo: HistoryCursor(.max)) == given.mark.map { HistoryCursor($0) })
  }

  @Test func marksGoNoFurtherThanThereIs() {
    let log = HistoryLog(Self.missed(3) + [Self.read(upTo: 20, at: 40)], entriesMax: 10)
    #expect(log.readUpTo == HistoryCursor(20))
    let marks = [20, 30, 35].map { log.mark(upTo: HistoryCursor($0)) }
    #expect(marks == [nil, HistoryCursor(30), HistoryCursor(30)])
    #expect(HistoryLog([], entriesMax: 10).page(before: nil, limit: 5) == HistoryPage())
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

  @Test func whatIsOnItsWayIsUnread() {
    let log = HistoryLog(Self.missed(3) + [Self.read(upTo: 20, at: 40)], entriesMax: 10)
    func placed(_ number: UInt64, at microseconds: Int64 = 1) -> PlacedCall {
      PlacedCall(CallID(high: 1, low: number), placedAt: Timestamp(microseconds: microseconds))
    }
    #expect(log.unread(with: []) == 1)
    #expect(log.unread(with: [placed(3)]) == 1, "the store has it")
    #expect(log.unread(with: [placed(1)]) == 1, "and this one was read")
    #expect(log.unread(with: [placed(4), placed(3), placed(5)]) == 3)
    #expect(log.unread(with: [placed(3, at: 9_000_000)]) == 2, "another call of the same id")
    #expect(HistoryLog([], entriesMax: 10).unread(with: [placed(1)]) == 1)
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
