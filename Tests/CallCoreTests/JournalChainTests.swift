import CallCore
import Testing

/// The records that count among those that a store took although it should not have.
@Suite struct JournalChainTests {
  struct Case: CustomTestStringConvertible {
    var testDescription: String
    var position: UInt64
    /// The records behind the position, in order.
    var records: [(UInt64, previous: UInt64?, verdict: JournalChain.Verdict)]
    var end: JournalChain
  }

  static let cases: [Case] = [
    Case(
      testDescription: "records that follow one another count; other shards share the numbers",
      position: 0, records: [(1, 0, .counts), (2, 1, .counts), (9, 2, .counts)],
      end: JournalChain(position: 9, end: 9)),
    Case(
      testDescription: "of two that follow the same the first counts", position: 4,
      records: [(5, 4, .counts), (6, 4, .void)], end: JournalChain(position: 5, end: 6)),
    Case(
      testDescription: "repetitions of one record count once", position: 370,
      records: [
        (371, 370, .counts), (372, 370, .void), (373, 370, .void), (383, 370, .void),
        (384, 371, .counts),
      ],
      end: JournalChain(position: 384, end: 384)),
    Case(
      testDescription: "what follows a void record is void", position: 4,
      records: [(5, 4, .counts), (6, 4, .void), (7, 6, .void), (8, 5, .counts)],
      end: JournalChain(position: 8, end: 8)),
    Case(
      testDescription: "a record that names none is believed", position: 4,
      records: [(5, nil, .counts)], end: JournalChain(position: 5, end: 5)),
  ]

  @Test(arguments: cases) func verdicts(of given: Case) {
    var chain = JournalChain(position: given.position, end: given.position)
    for (sequence, previous, verdict) in given.records {
      #expect(chain.append(sequence, previous: previous) == verdict)
    }
    #expect(chain == given.end)
  }

  @Test func whatIsMissingShows() {
    var chain = JournalChain(position: 4, end: 4)
    #expect(chain.append(6, previous: 5) == .gap)
    chain.skip(6)
    #expect(chain.append(7, previous: 6) == .counts)
  }

  /// Whatever two owners append, and in whatever order it is stored, every reader finds the same
  /// chain, and of each owner's records those that count are a beginning of what it appended.
  @Test func allReadersAgree() {
    for _ in 0..<500 {
      var chain = JournalChain(position: 0, end: 0)
      var believed: [UInt64] = [0, 0]
      var alive = [true, true]
      for sequence in UInt64(1)...40 {
        let owner = Int.random(in: 0..<2)
        guard alive[owner] else { continue }
        let verdict = chain.append(sequence, previous: believed[owner])
        if verdict == .counts {
          believed[owner] = sequence
        } else {
          // It looks, finds the other's record, and steps down: or goes on behind it as its heir.
          alive[owner] = Bool.random()
          believed[owner] = chain.position
        }
        #expect(verdict != .gap)
      }
    }
  }
}
