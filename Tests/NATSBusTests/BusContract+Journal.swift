import CallBus
import Testing

extension BusContract {
  func appends() async throws {
    let journal = try await bus.openJournal(JournalOptions())
    #expect(try await journal.last(shard: 1) == nil)
    #expect(try await firstRecord(journal, 1, from: 0) == nil)
    let first = try await append(journal, 1, expecting: 0, [1])
    let elsewhere = try await append(journal, 2, expecting: 0, [9])
    let second = try await append(journal, 1, expecting: first, [2, 2])
    #expect(first < second && elsewhere > 0)
    #expect(try await journal.last(shard: 1) == StoredRecord(sequence: second, bytes: [2, 2]))
    #expect(try await firstRecord(journal, 1, from: 0) == StoredRecord(sequence: first, bytes: [1]))
    #expect(
      try await firstRecord(journal, 1, from: first + 1)
        == StoredRecord(sequence: second, bytes: [2, 2]))
    #expect(try await firstRecord(journal, 1, from: second + 1) == nil)
  }

  func refusesAStaleWriter() async throws {
    let owner = try await bus.openJournal(JournalOptions())
    let former = try await other.openJournal(JournalOptions())
    let first = try await append(owner, 3, expecting: 0, [1])
    #expect(await former.append(shard: 3, expecting: 0, [7]) == .refused)
    let second = try await append(owner, 3, expecting: first, [2])
    #expect(await former.append(shard: 3, expecting: first, [7]) == .refused)
    #expect(await former.append(shard: 3, expecting: second + 100, [7]) == .refused)
    #expect(try await former.last(shard: 3)?.bytes == [2])
  }

  func purgesButKeepsTheNewest(neighbour: Int, shardCount: Int) async throws {
    var options = JournalOptions()
    options.shardCount = shardCount
    let journal = try await bus.openJournal(options)
    let other = try await append(journal, neighbour, expecting: 0, [50])
    var sequences: [UInt64] = []
    for number in UInt8(0)..<10 {
      sequences.append(try await append(journal, 4, expecting: sequences.last ?? 0, [number]))
    }
    try await journal.purge(shard: 4, through: sequences[4])
    #expect(try await firstRecord(journal, 4, from: 0)?.sequence == sequences[5])
    try await journal.purge(shard: 4, through: .max)
    #expect(try await firstRecord(journal, 4, from: 0)?.sequence == sequences[9])
    #expect(try await journal.last(shard: 4)?.bytes == [9])
    #expect(try await journal.last(shard: neighbour)?.sequence == other)
    try await journal.purge(shard: 9, through: 5)
    #expect(await journal.append(shard: 4, expecting: 0, [1]) == .refused)
    _ = try await append(journal, 4, expecting: sequences[9], [10])
    #expect(try await journal.statistics().messages >= 3)
  }

  func readsManyRecordsAtOnce(shardCount: Int) async throws {
    var options = JournalOptions()
    options.shardCount = shardCount
    let journal = try await bus.openJournal(options)
    var sequences: [UInt64] = []
    var neighbour: UInt64 = 0
    for number in 0..<200 {
      sequences.append(
        try await append(journal, 5, expecting: sequences.last ?? 0, [UInt8(number)]))
      // A neighbour in the same stream.
      if number % 3 == 0, shardCount > 70 {
        neighbour = try await append(journal, 69, expecting: neighbour, [77])
      }
    }
    try await journal.purge(shard: 5, through: sequences[9])
    var read: [StoredRecord] = []
    while true {
      let from = (read.last?.sequence ?? 0) + 1
      let next = try await journal.records(shard: 5, from: from, limit: 50)
      if next.isEmpty { break }
      #expect(next.count <= 50)
      read += next
    }
    #expect(read.map(\.sequence) == Array(sequences[10...]))
    #expect(read.map(\.bytes) == (10..<200).map { [UInt8($0)] })
    #expect(try await journal.records(shard: 6, from: 0, limit: 10).isEmpty)
  }

  func firstRecord(_ journal: some Journal, _ shard: Int, from sequence: UInt64) async throws
    -> StoredRecord?
  {
    try await journal.records(shard: shard, from: sequence, limit: 1).first
  }

  func append(_ journal: some Journal, _ shard: Int, expecting: UInt64, _ bytes: [UInt8])
    async throws -> UInt64
  {
    let result = await journal.append(shard: shard, expecting: expecting, bytes)
    guard case .appended(let sequence) = result else {
      throw BusError.failed("not appended: \(result)")
    }
    return sequence
  }
}
