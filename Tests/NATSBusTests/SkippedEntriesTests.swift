import CallBus
import CallWire
import NATSBus
import Synchronization
import Testing

/// A consumer that skips entries of a bucket and counts none of them, as those of nats-server 2.9.10 do when a key is
/// purged at that moment.
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
  @Test func aWatchThatMissesNothingAsksOnceForEachPosition() async throws {
    let (script, bucket) = try await scripted()
    let (watch, _) = try await watching(script, bucket)
    var expected = script.questions
    for (position, asks) in [(7, true), (7, false), (7, false), (8, true)] as [(UInt64, Bool)] {
      script.heartbeat(last: 1, position: position)
      if asks { expected += 1 }
      // The watch asks on a thread of its own. The answer comes before that of a request which is sent later.
      repeat { _ = try await bucket.get("none") } while script.questions < expected
      _ = try await bucket.get("none")
    }
    #expect(script.questions == expected)
    #expect(script.consumers == 1)
    watch.cancel()
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
    /// Subscriptions, by subject.
    var subscribed: [String: String] = [:]
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
      let origin = "$JS.ACK.KV_b.c.1.\(sequence).\(number).0.0"
      return "MSG $KV.b.k\(sequence) \(state.subscribed[state.inbox] ?? "") \(origin) 0\r\n\r\n"
    }
    server.say(text)
  }

  /// A heartbeat of the last consumer.
  func heartbeat(last: UInt64, position: UInt64) {
    let headers =
      "NATS/1.0 100 Idle Heartbeat\r\nNats-Last-Consumer: \(last)\r\nNats-Last-Stream: \(position)\r\n\r\n"
    let size = headers.utf8.count
    let text = state.state.withLock {
      "HMSG \($0.inbox) \($0.subscribed[$0.inbox] ?? "") \(size) \(size)\r\n\(headers)\r\n"
    }
    server.say(text)
  }

  /// Reads the commands of NATS's protocol that have come whole.
  private static func serve(_ unread: inout [UInt8], _ state: inout State) -> [UInt8] {
    var said = ""
    while let end = unread.firstIndex(of: 10) {
      let words = String(decoding: unread[..<end], as: UTF8.self).split(
        whereSeparator: \.isWhitespace
      )
      .map(String.init)
      var used = end + 1
      switch words.first {
      case "PING": said += "PONG\r\n"
      case "SUB": state.subscribed[words[1]] = words.last
      case "PUB":
        let size = Int(words[words.count - 1]) ?? 0
        guard unread.count >= used + size + 2 else { return Array(said.utf8) }
        let body = JSONValue(parsing: Array(unread[used..<used + size]))
        used += size + 2
        if words.count == 4 { said += answer(to: words[1], body, words[2], &state) }
      default: break
      }
      unread.removeFirst(used)
    }
    return Array(said.utf8)
  }

  private static func answer(
    to subject: String, _ body: JSONValue?, _ reply: String, _ state: inout State
  ) -> String {
    /// Requests have an inbox of their own, or one with a wildcard at its end.
    func message(_ text: String, subject: String, to inbox: String, origin: String = "") -> String {
      let wildcard = inbox.split(separator: ".").dropLast().joined(separator: ".") + ".*"
      let number = state.subscribed[inbox] ?? state.subscribed[wildcard] ?? "0"
      return "MSG \(subject) \(number) \(origin) \(text.utf8.count)\r\n\(text)\r\n"
    }
    if subject.hasPrefix("$JS.API.STREAM.MSG.GET.") {
      let from = body?["seq"]?.unsigned
      if from != nil { state.questions += 1 }
      let found = from.flatMap { from in state.stored.first { $0 >= from } }
      return message(
        found.map { #"{"message":{"subject":"$KV.b.k\#($0)","seq":\#($0)}}"# }
          ?? #"{"error":{"code":404,"err_code":10037,"description":"no message found"}}"#,
        subject: reply, to: reply)
    }
    guard subject.hasPrefix("$JS.API.CONSUMER.CREATE.") else {
      return message(#"{"config":{},"state":{}}"#, subject: reply, to: reply)
    }
    let from = body?["config"]?["opt_start_seq"]?.unsigned ?? 1
    state.inbox = body?["config"]?["deliver_subject"]?.text ?? ""
    state.consumers += 1
    let skipped = state.consumersThatSkip > 0 ? state.skipped : []
    state.consumersThatSkip = max(0, state.consumersThatSkip - 1)
    let delivered = state.stored.filter { $0 >= from && !skipped.contains($0) }
    return message(#"{"name":"c","num_pending":\#(delivered.count)}"#, subject: reply, to: reply)
      + delivered.enumerated().map { index, sequence in
        message(
          "", subject: "$KV.b.k\(sequence)", to: state.inbox,
          origin: "$JS.ACK.KV_b.c.1.\(sequence).\(index + 1).0.0")
      }.joined()
  }
}
