import CallBus
import CallCoordinator
import CallCore
import CallWire
import Testing

@Suite struct AppendLookupTests {
  private func record(
    _ sequence: UInt64, _ writer: String, previous: UInt64?, epoch: UInt64 = 3, number: UInt64 = 5
  ) -> StoredRecord {
    StoredRecord(
      sequence: sequence,
      bytes: ClusterCodec.encode(
        JournalRecord(
          epoch: epoch, number: number, writer: writer, at: Timestamp(microseconds: 1),
          entries: [], previous: previous)))
  }

  private func evaluate(
    previous: UInt64 = 8, expecting: UInt64 = 8, _ records: StoredRecord...
  ) -> LookupResult {
    let question = LookupResult.Question(
      previous: previous, expecting: expecting, writer: "me", epoch: 3, number: 5)
    return LookupResult.evaluate(question, behind: records)
  }

  @Test func ownRecord() {
    let ours = record(9, "me", previous: 8)
    #expect(evaluate(ours) == .ours(sequence: 9, end: 9))
    // Sequences may be shared by several shards: the next one need not be adjacent.
    #expect(evaluate(record(90, "me", previous: 8)) == .ours(sequence: 90, end: 90))
    // Attempts that were taken for lost and were not.
    #expect(evaluate(ours, record(10, "me", previous: 8)) == .ours(sequence: 9, end: 10))
  }

  @Test func nothingCame() {
    #expect(evaluate() == .unchanged(end: 8))
    #expect(evaluate(previous: 0, expecting: 0) == .unchanged(end: 0))
  }

  /// Records of a former append that came once more do not count, and do not stand in the way.
  @Test func onlyVoidRecordsCame() {
    let late = record(9, "me", previous: 7, number: 4)
    #expect(evaluate(late) == .unchanged(end: 9))
    #expect(
      evaluate(late, record(10, "me", previous: 8), record(11, "me", previous: 7, number: 4))
        == .ours(sequence: 10, end: 11))
  }

  /// The next append of who finds this must not be taken: it would follow a record that is not the last that
  /// counts, at the place where the store expects it.
  @Test func somebodyElsesRecordBehindTheOwn() {
    let ours = record(9, "me", previous: 8)
    #expect(evaluate(ours, record(10, "you", previous: 9)) == .ours(sequence: 9, end: 9))
    #expect(
      evaluate(ours, record(10, "me", previous: 8), record(11, "you", previous: 9))
        == .ours(sequence: 9, end: 10))
    #expect(evaluate(ours, StoredRecord(sequence: 10, bytes: [0xff])) == .ours(sequence: 9, end: 9))
    // The store took both. The first counts, whatever result the second's writer got.
    #expect(evaluate(ours, record(10, "you", previous: 8, epoch: 4)) == .ours(sequence: 9, end: 10))
  }

  @Test func somebodyElsesRecord() {
    for foreign in [
      record(9, "you", previous: 8), record(9, "me", previous: 8, epoch: 4),
      record(9, "me", previous: 8, number: 6),
      StoredRecord(sequence: 9, bytes: [0xff]),
    ] { #expect(evaluate(foreign) == .foreign) }
    #expect(
      evaluate(record(9, "you", previous: 8, epoch: 4), record(10, "me", previous: 8)) == .foreign)
  }
}
