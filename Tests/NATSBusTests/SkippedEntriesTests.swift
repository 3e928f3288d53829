import CallBus
import CallCore
import CallWire
import NATSBus
import Synchronization
import Testing

/// A consumer that skips entries of a bucket and counts none of them, as those of nats-server 2.9.10 do when a key is
/// purged at that moment; and one at a replica that lags.
@Suite(.timeLimit(.minutes(2)))
struct SkippedEntriesTests {
  @Test func aListingHasTheEntriesThatItsConsumerSkipped() async throws {
    let (script, bucket) = try await scripted()
    script.store(1...2)
    script.skips([1, 2], onNext: 2)
    var listed = try await bucket.entries(matching: ">").map(\.revision)
    #expect(listed == [1, 2])
    #expect(script.consumers == 3)
    // Skipped behind one that came.
    script.store(3...4)
    script.skips([2, 3, 4], onNext: 1)
    listed = try await bucket.entries(matching: ">").map(\.revision)
    #expect(listed == [1, 2, 3, 4])
    #expect(script.consumers == 5)
  }

  /// The first read comes to a replica that lags.
  @Test func aHistoryIsReadUntilItHasTheLeadersLastMessage() async throws {
    let script = try ScriptedJetStream()
    let bus = try await NATSBus.test(script.server.url)
    let histories = try await bus.openHistories(HistoryOptions())
    let bob = UserKey(app: "demo", user: "bob")
    #expect(try await histories.messages(of: bob).isEmpty)
    #expect(script.consumers == 1)
    script.store(1...3)
    script.skips([2, 3], onNext: 2)
    #expect(try await histories.messages(of: bob).map(\.sequence) == [1, 2, 3])
    #expect(script.consumers == 4)
    // None of it has come to the replica.
    script.skips([1, 2, 3], onNext: 1)
    #expect(try await histories.messages(of: bob).count == 3)
    await bus.close()
  }

  @Test func anEmptyBucketIsListedOnce() async throws {
    let (script, bucket) = try await scripted()
    let listed = try await bucket.entries(matching: ">")
    #expect(listed.isEmpty)
    #expect(script.consumers == 1)
    #expect(script.questions == 1)
  }

  @Test func aWatchFetchesWhatItsConsumerSkipped() async throws {
    let (script, bucket) = try await scripted()
    let (watch, seen) = try await watching(script, bucket)
    // The consumer goes past it without a message. Only its heartbeat tells.
    script.store(2...2)
    script.heartbeat(last: 1, position: 3)
    #expect(await seen.next(until: .now + .seconds(20)).map(\.key) == ["k2"])
    #expect(script.consumers == 2)
    watch.cancel()
  }

  @Test func aWatchFetchesWhatItsConsumerSkippedBeforeALaterChange() async throws {
    let (script, bucket) = try await scripted()
    let (watch, seen) = try await watching(script, bucket)
    script.store(2...3)
    script.deliver(4, as: 2)
    var keys: [String] = []
    while keys.count < 3 {
      let next = await seen.next(until: .now + .seconds(20))
      try #require(!next.isEmpty, "after \(keys)")
      keys += next.map(\.key)
    }
    #expect(keys == ["k4", "k2", "k3"])
    #expect(script.consumers == 2)
    watch.cancel()
  }

  /// Entries between which others were overwritten are no gap.
  @Test func aWatchThatLagsCreatesOneConsumer() async throws {
    let (script, bucket) = try await scripted()
    let (watch, seen) = try await watching(script, bucket)
    script.store(5...5)
    script.store(9...9)
    script.store(13...13)
    script.deliver(14, as: 2)
    var keys: [String] = []
    while keys.count < 4 {
      let next = await seen.next(until: .now + .seconds(20))
      try #require(!next.isEmpty, "after \(keys)")
      keys += next.map(\.key)
    }
    #expect(keys == ["k14", "k5", "k9", "k13"])
    #expect(script.consumers == 2)
    script.deliver(15, as: 5)
    #expect(await seen.next(until: .now + .seconds(20)).map(\.key) == ["k15"])
    #expect(script.consumers == 2)
    watch.cancel()
  }

  @Test func aRunningWatchAsksForNothingWhenChangesCome() async throws {
    let (script, bucket) = try await scripted()
    let (watch, seen) = try await watching(script, bucket)
    let before = script.questions
    for sequence in 2...5 as ClosedRange<UInt64> {
      script.deliver(sequence, as: sequence)
      #expect(await seen.next(until: .now + .seconds(20)).map(\.key) == ["k\(sequence)"])
      // A question of the watch would come before this one.
      _ = try await bucket.get("none")
    }
    #expect(script.questions == before)
    watch.cancel()
  }

  /// Keys that a watch does not match move its consumer on as well.
  @Test func aWatchAsksOnceAtEachHeartbeat() async throws {
    let (script, bucket) = try await scripted()
    let (watch, _) = try await watching(script, bucket)
    var expected = script.questions
    for position in [7, 7, 8] as [UInt64] {
      script.heartbeat(last: 1, position: position)
      expected += 1
      try await asked(expected, script, bucket)
    }
    #expect(script.questions == expected)
    #expect(script.consumers == 1)
    watch.cancel()
  }

  /// Its heartbeats go on, as those of a consumer at a replica that does not catch up with its leader.
  @Test func aWatchLeavesAConsumerThatHasStopped() async throws {
    let (script, bucket) = try await scripted()
    let (watch, seen) = try await watching(script, bucket)
    let before = script.questions
    script.store(2...2)
    script.heartbeat(last: 1, position: 1)
    try await asked(before + 1, script, bucket)
    // The entry may be under way.
    #expect(script.consumers == 1)
    script.heartbeat(last: 1, position: 1)
    #expect(await seen.next(until: .now + .seconds(20)).map(\.key) == ["k2"])
    #expect(script.consumers == 2)
    watch.cancel()
  }

  /// Each heartbeat finds another entry on its way.
  @Test func aWatchStaysWithAConsumerThatIsSlow() async throws {
    let (script, bucket) = try await scripted()
    let (watch, seen) = try await watching(script, bucket)
    var expected = script.questions
    for sequence in 2...4 as ClosedRange<UInt64> {
      script.store(sequence...sequence)
      script.heartbeat(last: sequence - 1, position: sequence - 1)
      expected += 1
      try await asked(expected, script, bucket)
      script.deliver(sequence, as: sequence)
      #expect(await seen.next(until: .now + .seconds(20)).map(\.key) == ["k\(sequence)"])
    }
    #expect(script.consumers == 1)
    watch.cancel()
  }

  /// Returns when the watch has asked so often, and has its answer. It asks on a thread of its own. The answer comes before
  /// that of a request which is sent later.
  private func asked(
    _ count: Int, _ script: ScriptedJetStream, _ bucket: any KeyValueBucket
  ) async throws {
    repeat { _ = try await bucket.get("none") } while script.questions < count
    _ = try await bucket.get("none")
  }

  /// Returns a watch that has seen the bucket's only entry, and where it puts the next ones.
  private func watching(
    _ script: ScriptedJetStream, _ bucket: any KeyValueBucket
  ) async throws -> (any BusSubscription, Inbox<KeyValueEntry>) {
    script.store(1...1)
    let seen = Inbox<KeyValueEntry>(capacity: 100)
    let watch = try await bucket.watch(">") { seen.offer($0) }
    #expect(await seen.next(until: .now + .seconds(20)).map(\.key) == ["k1"])
    return (watch, seen)
  }

  private func scripted() async throws -> (ScriptedJetStream, any KeyValueBucket) {
    let script = try ScriptedJetStream()
    let bus = try await NATSBus.test(script.server.url)
    var existing = BucketOptions()
    existing.createsMissing = false
    return (script, try await bus.openBucket("b", existing))
  }
}

/// A server that answers as JetStream does to one that lists and watches a bucket.
private final class ScriptedJetStream: Sendable {
  private struct State {
    /// Their keys are k1, k2 and so on.
    var stored: [UInt64] = []
    var skipped: Set<UInt64> = []
    var consumersThatSkip = 0
    var consumers = 0
    var questions = 0
    var wire = FalseProtocol()
    var inbox = ""
  }
  private let state: Arc
  let server: FalseServer

  private final class Arc: Sendable { let state = Mutex(State()) }

  init() throws {
    let state = Arc()
    self.state = state
    server = try FalseServer { unread in state.state.withLock { Self.serve(&unread, &$0) } }
  }

  var consumers: Int { state.state.withLock { $0.consumers } }
  /// How often the stream was asked for the next entry.
  var questions: Int { state.state.withLock { $0.questions } }

  func store(_ sequences: ClosedRange<UInt64>) {
    state.state.withLock { $0.stored += Array(sequences) }
  }

  /// The next so many consumers do not deliver these entries.
  func skips(_ sequences: Set<UInt64>, onNext count: Int) {
    state.state.withLock {
      $0.skipped = sequences
      $0.consumersThatSkip = count
    }
  }

  /// The last consumer delivers an entry, as its message of that number.
  func deliver(_ sequence: UInt64, as number: UInt64) {
    let text = state.state.withLock { state in
      state.stored.append(sequence)
      return state.wire.message(
        "", subject: "$KV.b.k\(sequence)", to: state.inbox,
        origin: "$JS.ACK.KV_b.c.1.\(sequence).\(number).0.0")
    }
    server.say(text)
  }

  /// A heartbeat of the last consumer.
  func heartbeat(last: UInt64, position: UInt64) {
    let lines = [
      "NATS/1.0 100 Idle Heartbeat", "Nats-Last-Consumer: \(last)", "Nats-Last-Stream: \(position)",
    ]
    let text = state.state.withLock { $0.wire.status(lines, to: $0.inbox) }
    server.say(text)
  }

  private static func serve(_ unread: inout [UInt8], _ state: inout State) -> [UInt8] {
    let (said, requests) = state.wire.read(&unread)
    return Array((said + requests.map { answer(to: $0, &state) }.joined()).utf8)
  }

  private static func answer(to request: FalseProtocol.Request, _ state: inout State) -> String {
    let (body, reply, wire) = (request.body, request.reply, state.wire)
    if request.subject.hasPrefix("$JS.API.STREAM.MSG.GET.") {
      let from = body?["seq"]?.unsigned
      if from != nil { state.questions += 1 }
      let found = from.flatMap { from in state.stored.first { $0 >= from } }
      let last = body?["last_by_subj"]?.text.flatMap { subject in
        state.stored.last { !subject.hasPrefix("$KV.") || subject == "$KV.b.k\($0)" }
      }
      return wire.message(
        (found ?? last).map { #"{"message":{"subject":"$KV.b.k\#($0)","seq":\#($0)}}"# }
          ?? #"{"error":{"code":404,"err_code":10037,"description":"no message found"}}"#,
        subject: reply, to: reply)
    }
    guard request.subject.hasPrefix("$JS.API.CONSUMER.CREATE.") else {
      return wire.message(#"{"config":{},"state":{}}"#, subject: reply, to: reply)
    }
    let from = body?["config"]?["opt_start_seq"]?.unsigned ?? 1
    state.inbox = body?["config"]?["deliver_subject"]?.text ?? ""
    state.consumers += 1
    let skipped = state.consumersThatSkip > 0 ? state.skipped : []
    state.consumersThatSkip = max(0, state.consumersThatSkip - 1)
    let delivered = state.stored.filter { $0 >= from && !skipped.contains($0) }
    return wire.message(
      #"{"name":"c","num_pending":\#(delivered.count)}"#, subject: reply, to: reply)
      + delivered.enumerated().map { index, sequence in
        wire.message(
          "", subject: "$KV.b.k\(sequence)", to: state.inbox,
          origin: "$JS.ACK.KV_b.c.1.\(sequence).\(index + 1).0.0")
      }.joined()
  }
}
