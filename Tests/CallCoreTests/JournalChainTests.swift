import CallCore
import Testing

/// The records that count among those that a store took although it should not have.
@Suite struct JournalChainTests {
  @Test func recordsThatFollowOneAnotherCount() {
    var chain = JournalChain(position: 0, end: 0)
    #expect(append(&chain, 1, previous: 0) == .counts)
    #expect(append(&chain, 2, previous: 1) == .counts)
    // The numbers are shared with other shards: they need not be adjacent.
    #expect(append(&chain, 9, previous: 2) == .counts)
    #expect(chain == JournalChain(position: 9, end: 9))
  }

  @Test func ofTwoThatFollowTheSameTheFirstCounts() {
    var chain = JournalChain(position: 4, end: 4)
    #expect(append(&chain, 5, previous: 4) == .counts)
    #expect(append(&chain, 6, previous: 4) == .void)
    #expect(chain == JournalChain(position: 5, end: 6))
    #expect(append(&chain, 7, previous: 5) == .counts)
  }

  @Test func repetitionsOfOneRecordCountOnce() {
    var chain = JournalChain(position: 370, end: 370)
    #expect(append(&chain, 371, previous: 370) == .counts)
    for sequence in UInt64(372)..<384 {
      #expect(append(&chain, sequence, previous: 370) == .void)
    }
    #expect(append(&chain, 384, previous: 371) == .counts)
  }

  @Test func whatFollowsAVoidRecordIsVoid() {
    var chain = JournalChain(position: 4, end: 4)
    _ = append(&chain, 5, previous: 4)
    _ = append(&chain, 6, previous: 4)
    #expect(append(&chain, 7, previous: 6) == .void)
    #expect(append(&chain, 8, previous: 5) == .counts)
  }

  @Test func whatIsMissingShows() {
    var chain = JournalChain(position: 4, end: 4)
    #expect(append(&chain, 6, previous: 5) == .gap)
    chain.skip(6)
    #expect(append(&chain, 7, previous: 6) == .counts)
  }

  @Test func aRecordThatNamesNoneIsBelieved() {
    var chain = JournalChain(position: 4, end: 4)
    #expect(append(&chain, 5, previous: nil) == .counts)
  }

  /// Whatever two owners append, and in whatever order it is stored, every reader finds the same
  /// chain, and of each owner's records those that count are a beginning of what it appended.
  @Test func allReadersAgree() {
    var random = SystemRandomNumberGenerator()
    for _ in 0..<500 {
      var chain = JournalChain(position: 0, end: 0)
      var believed: [UInt64] = [0, 0]
      var alive = [true, true]
      for sequence in UInt64(1)...40 {
        let owner = Int.random(in: 0..<2, using: &random)
        guard alive[owner] else { continue }
        let verdict = append(&chain, sequence, previous: believed[owner])
        if verdict == .counts {
          believed[owner] = sequence
        } else {
          // It looks, finds the other's record, and steps down: or goes on behind it as its heir.
          alive[owner] = Bool.random(using: &random)
          believed[owner] = chain.position
        }
        #expect(verdict != .gap)
      }
    }
  }

  private func append(
    _ chain: inout JournalChain, _ sequence: UInt64, previous: UInt64?
  ) -> JournalChain.Verdict { chain.append(sequence, previous: previous) }
}
