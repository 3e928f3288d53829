import CallBus
import CallCoordinator
import CallCore
import Testing

@Suite("writes to the store of registrations")
struct RegistrationWritesTests {
  typealias Write = RegistrationWrites.Write
  typealias Step = RegistrationWrites.Step
  let phone = RegistrationWrites.Key(.user("bob"), "phone")
  let tablet = RegistrationWrites.Key(.user("bob"), "tablet")

  /// The requests to the store, and the results that the rules are notified of.
  struct Bench {
    var writes: RegistrationWrites
    var steps: [Step] = []
    var record: UInt64 = 1
    private var lastToken: UInt64 = 0

    init(_ revisions: [RegistrationWrites.Key: UInt64] = [:]) {
      writes = RegistrationWrites(revisions: revisions)
    }

    mutating func took() -> [Step] {
      defer { steps = [] }
      return steps
    }

    /// - Returns: the write that is wanted, behind the present record.
    @discardableResult
    mutating func add(_ key: RegistrationWrites.Key, _ value: [UInt8]? = [1]) -> Write {
      lastToken += 1
      let write = Write(key, value, token: lastToken, record: record)
      steps += writes.add(write)
      return write
    }

    mutating func ended(_ key: RegistrationWrites.Key, _ result: AppendResult) {
      steps += writes.ended(key, result)
    }

    mutating func read(_ key: RegistrationWrites.Key, _ value: [UInt8]?, revision: UInt64 = 41) {
      let entry = value.map { KeyValueEntry(key: "key", value: $0, revision: revision) }
      steps += writes.read(key, entry, record: record)
    }
  }

  @Test func theFirstOneMustFindNothing() {
    var bench = Bench()
    let write = bench.add(phone)
    #expect(bench.took() == [.write(write, expecting: 0)])
    bench.ended(phone, .appended(sequence: 7))
    #expect(bench.took() == [.stored(token: write.token)])
  }

  @Test func eachFollowsTheOneBefore() {
    var bench = Bench()
    bench.add(phone)
    bench.ended(phone, .appended(sequence: 7))
    _ = bench.took()
    let second = bench.add(phone)
    #expect(bench.took() == [.write(second, expecting: 7)])
    bench.ended(phone, .appended(sequence: 12))
    _ = bench.took()
    let third = bench.add(phone)
    #expect(bench.took() == [.write(third, expecting: 12)])
  }

  @Test func whatTheClaimReadIsKnown() {
    var bench = Bench([phone: 40])
    let write = bench.add(phone)
    let other = bench.add(tablet)
    #expect(bench.took() == [.write(write, expecting: 40), .write(other, expecting: 0)])
  }

  @Test func twoOfOneDeviceGoOneByOne() {
    var bench = Bench()
    let first = bench.add(phone)
    let second = bench.add(phone, [2])
    let third = bench.add(phone, [3])
    #expect(bench.took() == [.write(first, expecting: 0)])
    bench.ended(phone, .appended(sequence: 3))
    #expect(bench.took() == [.stored(token: first.token), .write(second, expecting: 3)])
    bench.ended(phone, .appended(sequence: 4))
    #expect(bench.took() == [.stored(token: second.token), .write(third, expecting: 4)])
    bench.ended(phone, .appended(sequence: 5))
    #expect(bench.took() == [.stored(token: third.token)])
  }

  @Test func aRemovalNeedsTheEntryToo() {
    var bench = Bench([phone: 40])
    let removal = bench.add(phone, nil)
    #expect(bench.took() == [.write(removal, expecting: 40)])
    bench.ended(phone, .appended(sequence: 41))
    #expect(bench.took() == [.stored(token: removal.token)])
    let write = bench.add(phone)
    #expect(bench.took() == [.write(write, expecting: 0)])
  }

  @Test func afterARefusalWhoeverWaitsTriesAgainAndTheKeyIsRead() {
    var bench = Bench([phone: 40])
    let first = bench.add(phone)
    let second = bench.add(phone)
    _ = bench.took()
    bench.ended(phone, .refused)
    #expect(
      bench.took() == [.failed(token: first.token), .failed(token: second.token), .read(phone)])
    // While it is read nothing of it is known; other keys are not concerned.
    let third = bench.add(phone)
    let other = bench.add(tablet)
    #expect(bench.took() == [.failed(token: third.token), .write(other, expecting: 0)])
    // A write that was refused was not stored, whoever wrote the same.
    bench.read(phone, [1], revision: 41)
    #expect(bench.took() == [])
  }

  @Test("a write without an answer is over when the key tells whether the store took it")
  func settled() {
    func told(
      of value: [UInt8]?, by reading: [UInt8]?
    ) -> (steps: [Step], stored: Step, failed: Step) {
      var bench = Bench([phone: 40])
      let first = bench.add(phone, value)
      let second = bench.add(phone, [9])
      _ = bench.took()
      bench.ended(phone, .unknown("no answer"))
      // Who waits behind it is not kept waiting.
      #expect(bench.took() == [.failed(token: second.token), .read(phone)])
      let third = bench.add(phone)
      #expect(bench.took() == [.failed(token: third.token)])
      bench.read(phone, reading)
      let steps = bench.took()
      bench.read(phone, reading)
      #expect(bench.took() == [], "told once")
      return (steps, .stored(token: first.token), .failed(token: first.token))
    }
    let taken = told(of: [1], by: [1])
    #expect(taken.steps == [taken.stored])
    let former = told(of: [1], by: [7])
    #expect(former.steps == [former.failed])
    let none = told(of: [1], by: nil)
    #expect(none.steps == [none.failed])
    // Who answered may not have the entry yet.
    let absent = told(of: nil, by: nil)
    #expect(absent.steps == [absent.failed])
    let kept = told(of: nil, by: [7])
    #expect(kept.steps == [kept.failed])
  }

  @Test func whatIsSettledIsGoodForWhatTheJournalTookBehindItOnly() {
    var bench = Bench()
    bench.add(phone)
    bench.ended(phone, .unknown("no answer"))
    bench.read(phone, [1], revision: 90)
    _ = bench.took()
    let tooEarly = bench.add(phone)
    #expect(bench.took() == [.failed(token: tooEarly.token)])
    bench.record = 2
    let write = bench.add(phone)
    #expect(bench.took() == [.write(write, expecting: 90)])
  }

  @Test func whatWasReadIsGoodForWhatTheJournalTookBehindIt() {
    var bench = Bench()
    bench.record = 5
    bench.add(phone)
    bench.ended(phone, .refused)
    // Record 6 is on its way to the journal when the answer comes.
    bench.record = 6
    bench.read(phone, [5], revision: 90)
    _ = bench.took()
    // It may have been taken before the key was read, and by then the shard may have been another's.
    let tooEarly = bench.add(phone)
    #expect(bench.took() == [.failed(token: tooEarly.token)])
    bench.record = 7
    let write = bench.add(phone)
    #expect(bench.took() == [.write(write, expecting: 90)])
    // A value that the store took from this owner needs no such proof.
    bench.ended(phone, .appended(sequence: 91))
    _ = bench.took()
    let next = bench.add(phone)
    #expect(bench.took() == [.write(next, expecting: 91)])
  }

  @Test func aKeyThatHoldsNothingOrCannotBeReadMustHoldNothing() {
    var bench = Bench([phone: 40])
    bench.add(phone)
    bench.ended(phone, .unknown("no answer"))
    bench.read(phone, nil)
    _ = bench.took()
    bench.record = 2
    let write = bench.add(phone)
    #expect(bench.took() == [.write(write, expecting: 0)])
  }

  @Test func anAnswerThatNobodyWaitsForChangesNothing() {
    var bench = Bench([phone: 40])
    bench.ended(phone, .appended(sequence: 50))
    bench.read(phone, [1], revision: 60)
    #expect(bench.took() == [])
    let write = bench.add(phone)
    #expect(bench.took() == [.write(write, expecting: 40)])
    bench.read(phone, [1], revision: 70)
    bench.ended(phone, .refused)
    #expect(bench.took() == [.failed(token: write.token), .read(phone)])
  }
}
