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
  final class Bench {
    private var writes: RegistrationWrites
    private var steps: [Step] = []
    var record: UInt64 = 1
    private var lastToken: UInt64 = 0

    init(_ revisions: [RegistrationWrites.Key: UInt64] = [:]) {
      writes = RegistrationWrites(revisions: revisions)
    }

    /// The events since the last time.
    func took() -> [Step] {
      defer { steps = [] }
      return steps
    }

    /// - Returns: the write that is wanted, behind the present record.
    @discardableResult
    func add(_ key: RegistrationWrites.Key, _ value: [UInt8]? = [1]) -> Write {
      lastToken += 1
      let write = Write(key, value, token: lastToken, record: record)
      steps += writes.add(write)
      return write
    }

    /// Adds a write, and expects what it leads to.
    func add(
      _ key: RegistrationWrites.Key, _ value: [UInt8]? = [1], leadsTo step: (Write) -> Step,
      sourceLocation: SourceLocation = #_sourceLocation
    ) {
      let write = add(key, value)
      #expect(took() == [step(write)], sourceLocation: sourceLocation)
    }

    /// The store answers; what came of it.
    @discardableResult
    func ended(_ key: RegistrationWrites.Key, _ result: AppendResult) -> [Step] {
      steps += writes.ended(key, result)
      return took()
    }

    @discardableResult
    func read(_ key: RegistrationWrites.Key, _ value: [UInt8]?, revision: UInt64 = 41) -> [Step] {
      let entry = value.map { KeyValueEntry(key: "key", value: $0, revision: revision) }
      steps += writes.read(key, entry, record: record)
      return took()
    }
  }

  private func failed(_ write: Write) -> Step { .failed(token: write.token) }
  private func stored(_ write: Write) -> Step { .stored(token: write.token) }

  /// The first one must find nothing; each further one what the one before left.
  @Test func eachFollowsTheOneBefore() {
    let bench = Bench()
    for (expecting, sequence): (UInt64, UInt64) in [(0, 7), (7, 12), (12, 13)] {
      let write = bench.add(phone)
      #expect(bench.took() == [.write(write, expecting: expecting)])
      #expect(bench.ended(phone, .appended(sequence: sequence)) == [stored(write)])
    }
  }

  @Test func whatTheClaimReadIsKnown() {
    let bench = Bench([phone: 40])
    bench.add(phone) { .write($0, expecting: 40) }
    bench.add(tablet) { .write($0, expecting: 0) }
  }

  @Test func twoOfOneDeviceGoOneByOne() {
    let bench = Bench()
    let first = bench.add(phone)
    let second = bench.add(phone, [2])
    let third = bench.add(phone, [3])
    #expect(bench.took() == [.write(first, expecting: 0)])
    #expect(
      bench.ended(phone, .appended(sequence: 3)) == [stored(first), .write(second, expecting: 3)])
    #expect(
      bench.ended(phone, .appended(sequence: 4)) == [stored(second), .write(third, expecting: 4)])
    #expect(bench.ended(phone, .appended(sequence: 5)) == [stored(third)])
  }

  @Test func aRemovalNeedsTheEntryToo() {
    let bench = Bench([phone: 40])
    let removal = bench.add(phone, nil)
    #expect(bench.took() == [.write(removal, expecting: 40)])
    #expect(bench.ended(phone, .appended(sequence: 41)) == [stored(removal)])
    bench.add(phone) { .write($0, expecting: 0) }
  }

  @Test func afterARefusalWhoeverWaitsTriesAgainAndTheKeyIsRead() {
    let bench = Bench([phone: 40])
    let first = bench.add(phone)
    let second = bench.add(phone)
    _ = bench.took()
    #expect(bench.ended(phone, .refused) == [failed(first), failed(second), .read(phone)])
    // While it is read nothing of it is known; other keys are not concerned.
    bench.add(phone, leadsTo: failed)
    bench.add(tablet) { .write($0, expecting: 0) }
    // A write that was refused was not stored, whoever wrote the same.
    #expect(bench.read(phone, [1]) == [])
  }

  /// Who answered may not have the entry yet.
  @Test(
    "a write without an answer is over when the key tells whether the store took it",
    arguments: [
      ([1], [1], true), ([1], [7], false), ([1], nil, false), (nil, nil, false), (nil, [7], false),
    ]
      as [([UInt8]?, [UInt8]?, Bool)])
  func settled(value: [UInt8]?, reading: [UInt8]?, isStored: Bool) {
    let bench = Bench([phone: 40])
    let first = bench.add(phone, value)
    let second = bench.add(phone, [9])
    _ = bench.took()
    // Who waits behind it is not kept waiting.
    #expect(bench.ended(phone, .unknown("no answer")) == [failed(second), .read(phone)])
    bench.add(phone, leadsTo: failed)
    #expect(bench.read(phone, reading) == [isStored ? stored(first) : failed(first)])
    #expect(bench.read(phone, reading) == [], "told once")
  }

  @Test func whatIsSettledIsGoodForWhatTheJournalTookBehindItOnly() {
    let bench = Bench()
    bench.add(phone)
    bench.ended(phone, .unknown("no answer"))
    bench.read(phone, [1], revision: 90)
    bench.add(phone, leadsTo: failed)
    bench.record = 2
    bench.add(phone) { .write($0, expecting: 90) }
  }

  @Test func whatWasReadIsGoodForWhatTheJournalTookBehindIt() {
    let bench = Bench()
    bench.record = 5
    bench.add(phone)
    bench.ended(phone, .refused)
    // Record 6 is on its way to the journal when the answer comes.
    bench.record = 6
    bench.read(phone, [5], revision: 90)
    // It may have been taken before the key was read, and by then the shard may have been another's.
    bench.add(phone, leadsTo: failed)
    bench.record = 7
    bench.add(phone) { .write($0, expecting: 90) }
    // A value that the store took from this owner needs no such proof.
    bench.ended(phone, .appended(sequence: 91))
    bench.add(phone) { .write($0, expecting: 91) }
  }

  @Test func aKeyThatHoldsNothingOrCannotBeReadMustHoldNothing() {
    let bench = Bench([phone: 40])
    bench.add(phone)
    bench.ended(phone, .unknown("no answer"))
    bench.read(phone, nil)
    bench.record = 2
    bench.add(phone) { .write($0, expecting: 0) }
  }

  @Test func anAnswerThatNobodyWaitsForChangesNothing() {
    let bench = Bench([phone: 40])
    #expect(bench.ended(phone, .appended(sequence: 50)) == [])
    #expect(bench.read(phone, [1], revision: 60) == [])
    let write = bench.add(phone)
    #expect(bench.took() == [.write(write, expecting: 40)])
    #expect(bench.read(phone, [1], revision: 70) == [])
    #expect(bench.ended(phone, .refused) == [failed(write), .read(phone)])
  }
}
