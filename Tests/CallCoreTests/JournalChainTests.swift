import CallCore
import Testing

/// The records that count among those that a store took although it should not have.
@Suite struct JournalChainTests {
  @Test func recordsThatFollowOneAnotherCount() {
    var chain = JournalChain(position: 0, end: 0)
    #expect(take(&chain, 1, follows: 0) == .counts)
    #expect(take(&chain, 2, follows: 1) == .counts)
    // The numbers are shared with other shards: they need not be adjacent.
    #expect(take(&chain, 9, follows: 2) == .counts)
    #expect(chain == JournalChain(position: 9, end: 9))
  }

  @Test func ofTwoThatFollowTheSameTheFirstCounts() {
    var chain = JournalChain(position: 4, end: 4)
    #expect(take(&chain, 5, follows: 4) == .counts)
    #expect(take(&chain, 6, follows: 4) == .void)
    #expect(chain == JournalChain(position: 5, end: 6))
    #expect(take(&chain, 7, follows: 5) == .counts)
  }

  @Test func repetitionsOfOneRecordCountOnce() {
    var chain = JournalChain(position: 370, end: 370)
    #expect(take(&chain, 371, follows: 370) == .counts)
    for sequence in UInt64(372)..<384 {
      #expect(take(&chain, sequence, follows: 370) == .void)
    }
    #expect(take(&chain, 384, follows: 371) == .counts)
  }

  @Test func whatFollowsAVoidRecordIsVoid() {
    var chain = JournalChain(position: 4, end: 4)
    _ = take(&chain, 5, follows: 4)
    _ = take(&chain, 6, follows: 4)
    #expect(take(&chain, 7, follows: 6) == .void)
    #expect(take(&chain, 8, follows: 5) == .counts)
  }

  @Test func whatIsMissingShows() {
    var chain = JournalChain(position: 4, end: 4)
    #expect(take(&chain, 6, follows: 5) == .gap)
    chain.skip(6)
    #expect(take(&chain, 7, follows: 6) == .counts)
  }

  @Test func aRecordThatNamesNoneIsBelieved() {
    var chain = JournalChain(position: 4, end: 4)
    #expect(take(&chain, 5, follows: nil) == .counts)
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
        let verdict = take(&chain, sequence, follows: believed[owner])
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

  private func take(
    _ chain: inout JournalChain, _ sequence: UInt64, follows: UInt64?
  ) -> JournalChain.Verdict { chain.take(sequence, follows: follows) }
}
