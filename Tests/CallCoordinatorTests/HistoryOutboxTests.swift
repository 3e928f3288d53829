import CallCoordinator
import CallCore
import Testing

/// Entries on their way to histories, and the reads of histories.
@Suite struct HistoryOutboxTests {
  private let start = Timestamp(microseconds: 1_000_000_000)
  private let term = ShardTerm(shard: 3, epoch: 7)
  private let bob = UserKey.user("bob")
  private let alice = UserKey.user("alice")

  private func item(_ number: UInt64) -> HistoryOutbox.Item {
    HistoryOutbox.Item(term: term, call: CallID(high: 1, low: number))
  }

  /// Both sides of a call.
  private func entries(_ item: HistoryOutbox.Item) -> [(user: UserKey, entry: HistoryEntry)] {
    let placed = HistoryEntry(
      call: item.call, callee: "bob", isPlaced: true, peer: "bob", placedAt: start, endedAt: start,
      reason: .hungUp)
    var received = placed
    (received.isPlaced, received.peer) = (false, "alice")
    return [(bob, received), (alice, placed)]
  }

  private func next(_ outbox: inout HistoryOutbox, _ now: Timestamp) -> [HistoryOutbox.Message] {
    outbox.next(now: now) { entries($0) }
  }

  private func stored(
    _ outbox: inout HistoryOutbox, _ message: HistoryOutbox.Message, _ now: Timestamp,
    _ isStored: Bool = true
  ) -> HistoryOutbox.Message? {
    outbox.answered(message.number, isStored: isStored, now: now)
  }

  /// - Returns: whether the call is done.
  private func storedAndTold(
    _ outbox: inout HistoryOutbox, _ message: HistoryOutbox.Message, _ now: Timestamp
  ) -> Bool {
    stored(&outbox, message, now) != nil && outbox.notified(message.item)
  }

  @Test func aCallIsDoneOnceBothEntriesAreStoredAndTold() {
    var outbox = HistoryOutbox(atOnce: 10)
    #expect(outbox.nextDeadline == .distantFuture)
    outbox.add(item(1))
    #expect(outbox.nextDeadline <= start && outbox.count == 1)
    let messages = next(&outbox, start)
    #expect(messages.map(\.user) == [bob, alice])
    #expect(messages[0].id != messages[1].id, "the store knows a message by its id")
    #expect(messages[0].id.hasSuffix("-\(item(1).call)-1000000"), "\(messages[0].id)")
    #expect(outbox.nextDeadline == .distantFuture && outbox.count == 1)
    #expect(stored(&outbox, messages[1], start) == messages[1])
    #expect(outbox.notified(item(1)) == false)
    #expect(stored(&outbox, messages[0], start) == messages[0])
    #expect(outbox.count == 1, "its user's shard does not know of it")
    #expect(outbox.notified(item(1)) == true)
    #expect(outbox.count == 0)
    #expect(stored(&outbox, messages[0], start) == nil, "answered twice")
    #expect(outbox.notified(item(1)) == false)
  }

  /// The shards to be notified may be away for long, which holds back no other call.
  @Test func whatIsToBeToldIsNotUnderWay() {
    var outbox = HistoryOutbox(atOnce: 2)
    for number: UInt64 in 1...2 { outbox.add(item(number)) }
    for message in next(&outbox, start) { #expect(stored(&outbox, message, start) != nil) }
    #expect(next(&outbox, start).map(\.item) == [item(2), item(2)])
    #expect(outbox.notified(item(1)) == false)
    #expect(outbox.notified(item(1)) == true)
    #expect(outbox.count == 1)
  }

  /// The store drops what has an id that it knows, and devices choose the ids of calls.
  @Test func eachEntryHasAMessageOfItsOwn() {
    var outbox = HistoryOutbox(atOnce: 10)
    outbox.add(item(1))
    let messages = outbox.next(now: start) { item in
      let entry = entries(item)[0].entry
      var later = entry
      later.placedAt = start + .milliseconds(1)
      return [
        (bob, entry), (bob, later), (alice, entry), (UserKey(app: "other", user: "bob"), entry),
        (UserKey(app: "demo", user: "b-ob"), entry),
      ]
    }
    #expect(Set(messages.map(\.id)).count == 5)
  }

  @Test func noMoreThanTheLimitIsUnderWay() {
    var outbox = HistoryOutbox(atOnce: 3)
    for number: UInt64 in 1...3 { outbox.add(item(number)) }
    // A call's entries go together: the last one may exceed the limit by one.
    let first = next(&outbox, start)
    #expect(first.count == 4 && outbox.nextDeadline == .distantFuture)
    #expect(next(&outbox, start) == [])
    _ = stored(&outbox, first[0], start)
    #expect(outbox.nextDeadline == .distantFuture)
    _ = stored(&outbox, first[1], start)
    #expect(next(&outbox, start).map(\.item) == [item(3), item(3)])
  }

  @Test func whatFailsIsRepeatedAfterAPauseThatGrows() {
    var outbox = HistoryOutbox(atOnce: 10)
    outbox.add(item(1))
    var now = start
    var messages = next(&outbox, now)
    for pause: Int64 in [250, 500, 1000, 2000, 4000, 8000, 10_000, 10_000] {
      for message in messages {
        #expect(stored(&outbox, message, now, false) == nil)
      }
      #expect(outbox.nextDeadline == now + .milliseconds(pause), "both failed together")
      #expect(next(&outbox, now + .milliseconds(pause - 1)) == [])
      now = now + .milliseconds(pause)
      let again = next(&outbox, now)
      #expect(Set(again.map(\.id)) == Set(messages.map(\.id)))
      #expect(Set(again.map(\.number)) == Set(messages.map(\.number)))
      messages = again
    }
    #expect(storedAndTold(&outbox, messages[0], now) == false)
    #expect(storedAndTold(&outbox, messages[1], now) == true)
    // A success ends the growth.
    outbox.add(item(2))
    let later = next(&outbox, now)
    _ = stored(&outbox, later[0], now, false)
    #expect(outbox.nextDeadline == now + .milliseconds(250))
  }

  @Test func oneEntryThatFailsHoldsBackItsCall() {
    var outbox = HistoryOutbox(atOnce: 10)
    outbox.add(item(1))
    let messages = next(&outbox, start)
    _ = stored(&outbox, messages[0], start, false)
    #expect(storedAndTold(&outbox, messages[1], start) == false)
    let again = next(&outbox, start + .seconds(1))
    #expect(again == [messages[0]])
    #expect(storedAndTold(&outbox, again[0], start) == true)
  }

  @Test func whatIsNotWantedIsLeftOutAndWhatIsUnderWayNotBegunAgain() {
    var outbox = HistoryOutbox(atOnce: 10)
    outbox.add(item(1))
    #expect(outbox.next(now: start, entries: { _ in [] }) == [])
    #expect(outbox.count == 0 && outbox.nextDeadline == .distantFuture)
    outbox.add(item(1))
    #expect(next(&outbox, start).count == 2)
    outbox.add(item(1))
    #expect(next(&outbox, start) == [])
  }

  @Test func manyThatAreNotWantedAreDropped() {
    var outbox = HistoryOutbox(atOnce: 1)
    for number in 0..<UInt64(RecordOutbox.compactLeast) {
      outbox.compact { _ in false }
      outbox.add(item(number))
    }
    #expect(outbox.count == RecordOutbox.compactLeast, "few are not looked at")
    outbox.compact { $0.call.low % 10 == 0 }
    #expect(outbox.count == RecordOutbox.compactLeast / 10)
  }

  // MARK: Reads

  private func question(_ request: UInt64, of user: UserKey? = nil) -> HistoryReads.Item {
    HistoryReads.Item(
      term: term, user: user ?? bob,
      question: .init(
        session: SessionRef(edge: 1, number: 2), request: request,
        command: .list(before: nil, limit: 10)))
  }

  @Test func readsAreBegunInOrderAndNotTooManyAtOnce() {
    var reads = HistoryReads(atOnce: 2, questionsMax: 10)
    #expect(reads.next() == nil)
    let states = HistoryReads.Item(term: term, user: alice)
    let items = [question(1), states, question(3), states]
    for item in items { #expect(reads.add(item) == true) }
    #expect(reads.next() == items[0])
    #expect(reads.next() == items[1])
    #expect(reads.next() == nil)
    #expect(reads.count == 4)
    reads.ended(items[1])
    #expect(reads.next() == items[2])
    #expect(reads.next() == nil)
    reads.ended(items[0])
    reads.ended(items[2])
    #expect(reads.next() == items[3])
    #expect(reads.next() == nil)
    reads.ended(items[3])
    #expect(reads.count == 0)
  }

  @Test func tooManyQuestionsAreRefused() {
    var reads = HistoryReads(atOnce: 1, questionsMax: 2)
    #expect(reads.add(question(1)) == true)
    #expect(reads.add(question(2)) == true)
    #expect(reads.add(question(3)) == false)
    #expect(reads.add(HistoryReads.Item(term: term, user: bob)) == true, "a state has room")
    _ = reads.next()
    #expect(reads.add(question(3)) == false, "it is still under way")
    reads.ended(question(1))
    #expect(reads.add(question(3)) == true)
  }

  @Test func oneUserDoesNotKeepTheOthersWaiting() {
    var reads = HistoryReads(atOnce: 10, questionsMax: 100)
    let most = UInt64(HistoryReads.questionsOfUserMax)
    for number in 1...most { #expect(reads.add(question(number)) == true) }
    #expect(reads.add(question(9)) == false)
    #expect(reads.add(question(9, of: alice)) == true)
    #expect(reads.next() == question(1))
    reads.ended(question(1))
    #expect(reads.add(question(10)) == true)
    #expect(reads.add(question(11)) == false)
  }

  @Test func theQueueStaysSmall() {
    var reads = HistoryReads(atOnce: 1, questionsMax: 10)
    for number: UInt64 in 1...5000 {
      #expect(reads.add(question(number)) == true)
      #expect(reads.next() == question(number))
      reads.ended(question(number))
    }
    #expect(reads.count == 0)
  }
}
