import CallBus
import CallCore
import CallProcesses
import CallWire
import Foundation
import NATSBus
import TestSupport
import Testing

extension RecordStream {
  fileprivate func add(_ id: String, _ bytes: [UInt8]) async -> AppendResult {
    await withCheckedContinuation { done in add(id: id, bytes) { done.resume(returning: $0) } }
  }
}

extension HistoryStream {
  fileprivate func add(_ user: UserKey, _ id: String, _ bytes: [UInt8]) async -> AppendResult {
    await withCheckedContinuation { done in
      add(user, id: id, bytes) { done.resume(returning: $0) }
    }
  }
}

/// The streams of what is kept of calls, on real servers: for apps, records, and users' histories.
@Suite(.timeLimit(.minutes(2)))
struct StreamTests {
  private let bob = UserKey(app: "demo", user: "bob")
  /// Its subject has one token for the name, dots and stars as they may be.
  private let odd = UserKey(app: "demo", user: "b.o*b >ö")
  private let day: Int64 = 86_400 * 1_000_000_000

  /// A limit of a stream, as the server has it.
  private func limit(_ name: String, of stream: String, _ bus: NATSBus) async throws -> Int64? {
    let reply = try await bus.request("$JS.API.STREAM.INFO.\(stream)", [], timeout: .seconds(20))
    let object = try JSONSerialization.jsonObject(with: Data(reply.bytes)) as? [String: Any]
    let limits = try #require(object?["config"] as? [String: Any])
    return limits[name] as? Int64
  }

  @Test(arguments: NATSServerProcess.programs)
  func eachAppReadsItsOwnMessages(program: String) async throws {
    try await withServer(program: program) { _, bus in
      let stream = try await bus.openAppStream(.events, .events)
      await #expect(throws: BusError.self) { _ = try await stream.range() }
      #expect(await stream.add(id: "early", app: "a", [1]).doubt != nil, "it is not there")
      try await stream.create(followingLimits: true)
      #expect(try await stream.next(of: "a", from: 1) == nil)
      #expect(try await stream.last(of: "a") == nil)
      // A name that is no token of a subject.
      let apps = ["a", "b.c", "a"]
      for (index, app) in apps.enumerated() {
        #expect(
          await stream.add(id: "n\(index)", app: app, [UInt8(index)])
            == .appended(sequence: UInt64(index + 1)))
      }
      #expect(await stream.add(id: "n0", app: "a", [0]) == .appended(sequence: 1), "repeated")
      #expect(try await stream.range() == 1...3)
      #expect(try await stream.next(of: "a", from: 0)?.sequence == 1)
      #expect(try await stream.next(of: "a", from: 2)?.sequence == 3)
      #expect(try await stream.next(of: "a", from: 2)?.bytes == [2])
      #expect(try await stream.next(of: "a", from: 4) == nil)
      #expect(try await stream.next(of: "b.c", from: 1)?.bytes == [1])
      #expect(try await stream.last(of: "a")?.sequence == 3)
      #expect(try await stream.last(of: "c") == nil)

      let letters = try await bus.openAppStream(.deadLetters, .deadLetters)
      try await letters.create(followingLimits: true)
      #expect(await letters.add(id: "n0", app: "a", [9]) == .appended(sequence: 1))
      #expect(try await stream.range() == 1...3)
    }
  }

  @Test(arguments: NATSServerProcess.programs)
  func aRecordIsReadOnce(program: String) async throws {
    try await withServer(program: program) { _, bus in
      let stream = try await bus.openRecords(RecordOptions())
      let error = await #expect(throws: BusError.self) { _ = try await stream.range() }
      #expect(error?.code == .streamNotFound)
      #expect(await stream.add("early", [1]).doubt != nil, "it is not there")
      try await stream.create(followingLimits: true)
      #expect(try await stream.range() == nil)
      let begun = Timestamp(microseconds: Int64(Date().timeIntervalSince1970 * 1e6))
      #expect(await stream.add("a", [1, 0, 255]) == .appended(sequence: 1))
      #expect(await stream.add("b", [2]) == .appended(sequence: 2))
      #expect(await stream.add("a", [1, 0, 255]) == .appended(sequence: 1), "repeated")
      for number in 3...150 { _ = await stream.add("n\(number)", [UInt8(number)]) }
      #expect(try await stream.range() == 1...150)
      let all = try await stream.messages(1...150)
      #expect(all.map(\.sequence) == Array(1...150))
      #expect(all[0].bytes == [1, 0, 255] && all[149].bytes == [150])
      #expect(all.allSatisfy { $0.storedAt + .seconds(5) >= begun })
      #expect(all.allSatisfy { $0.storedAt <= begun + .seconds(120) })
    }
  }

  @Test(arguments: NATSServerProcess.programs)
  func theOldestRecordsAreDroppedAndLimitsFollowTheSettings(program: String) async throws {
    try await withServer(program: program) { _, bus in
      var options = RecordOptions()
      options.bytesMax = 10_000
      let stream = try await bus.openRecords(options)
      try await stream.create(followingLimits: true)
      let large = [UInt8](repeating: 7, count: 3000)
      for number in 1...6 {
        #expect(await stream.add("\(number)", large) == .appended(sequence: UInt64(number)))
      }
      let range = try #require(try await stream.range())
      #expect(range.upperBound == 6 && range.lowerBound > 3)
      #expect(try await stream.messages(1...6).map(\.sequence) == Array(range))
      #expect(try await limit("max_age", of: "test-records", bus) == 30 * day)

      (options.bytesMax, options.kept) = (20_000, .seconds(7 * 86_400))
      let later = try await bus.openRecords(options)
      try await later.create(followingLimits: false)
      #expect(try await limit("max_bytes", of: "test-records", bus) == 10_000)
      try await later.create(followingLimits: true)
      #expect(try await limit("max_bytes", of: "test-records", bus) == 20_000)
      #expect(try await limit("max_age", of: "test-records", bus) == 7 * day)
      #expect(try await stream.range() == range)
    }
  }

  // MARK: Histories

  /// The contract of every store of histories.
  private func fulfills(_ stream: some HistoryStream) async throws {
    #expect(try await stream.messages(of: bob).isEmpty)
    #expect(await stream.add(bob, "a", [1, 0, 255]) == .appended(sequence: 1))
    #expect(await stream.add(odd, "b", [2]) == .appended(sequence: 2))
    #expect(await stream.add(bob, "c", [3]) == .appended(sequence: 3))
    #expect(await stream.add(bob, "a", [1, 0, 255]) == .appended(sequence: 1), "repeated")
    #expect(
      try await stream.messages(of: bob) == [
        StoredRecord(sequence: 1, bytes: [1, 0, 255]), StoredRecord(sequence: 3, bytes: [3]),
      ])
    #expect(try await stream.messages(of: odd) == [StoredRecord(sequence: 2, bytes: [2])])
    #expect(try await stream.messages(of: UserKey(app: "other", user: "bob")).isEmpty)
    for number in 4...250 { _ = await stream.add(bob, "n\(number)", [UInt8(number % 256)]) }
    let all = try await stream.messages(of: bob)
    // As many as twice the entries are kept, the newest.
    #expect(all.map(\.sequence) == Array(51...250))
    #expect(all.last?.bytes == [250])
  }

  private var options: HistoryOptions {
    var options = HistoryOptions()
    options.entriesPerUser = 100
    return options
  }

  @Test func historiesInMemory() async throws {
    let bus = InProcessBus()
    let stream = try await bus.openHistories(options)
    try await stream.create(followingLimits: true)
    try await fulfills(stream)
    await bus.close()
  }

  @Test(arguments: NATSServerProcess.programs)
  func whatIsAddedToAHistoryIsRead(program: String) async throws {
    try await withServer(program: program) { _, bus in
      let stream = try await bus.openHistories(options)
      await #expect(throws: BusError.self) { _ = try await stream.messages(of: bob) }
      #expect(await stream.add(bob, "early", [1]).doubt != nil, "it is not there")
      try await stream.create(followingLimits: true)
      try await fulfills(stream)
      // Several reads at once do not mix.
      let counts = try await withThrowingTaskGroup(of: Int.self) { group in
        for user in [bob, odd, bob, odd] {
          group.addTask { try await stream.messages(of: user).count }
        }
        return try await group.reduce(into: []) { $0.append($1) }
      }
      #expect(counts.sorted() == [1, 1, 200, 200])
    }
  }

  @Test(arguments: NATSServerProcess.programs)
  func limitsOfHistoriesFollowTheSettings(program: String) async throws {
    try await withServer(program: program) { _, bus in
      func limits() async throws -> [Int64?] {
        var limits: [Int64?] = []
        for name in ["max_msgs_per_subject", "max_bytes", "max_age"] {
          limits.append(try await limit(name, of: "test-history", bus))
        }
        return limits
      }
      try await bus.openHistories(options).create(followingLimits: true)
      let first: [Int64?] = [200, 1 << 30, 30 * day]
      #expect(try await limits() == first)
      var later = options
      (later.bytesMax, later.kept, later.entriesPerUser) = (20_000_000, .seconds(7 * 86_400), 50)
      let stream = try await bus.openHistories(later)
      try await stream.create(followingLimits: false)
      #expect(try await limits() == first)
      try await stream.create(followingLimits: true)
      #expect(try await limits() == [100, 20_000_000, 7 * day])
    }
  }
}
