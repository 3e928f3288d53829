import CallBus
import Testing

@Suite(.timeLimit(.minutes(1)))
struct InboxTests {
  @Test func takesEverythingAtOnceInOrder() async {
    let inbox = Inbox<Int>(capacity: 10)
    for number in 0..<5 { #expect(inbox.offer(number)) }
    #expect(inbox.depth == 5)
    #expect(await inbox.next(until: nil) == [0, 1, 2, 3, 4])
    #expect(inbox.depth == 0)
  }

  @Test func refusesAndCountsWhenFull() async {
    let inbox = Inbox<Int>(capacity: 3)
    #expect((0..<5).map { inbox.offer($0) } == [true, true, true, false, false])
    #expect(!inbox.offer(9))
    #expect(!inbox.offerWithoutWaking(9))
    #expect(inbox.dropped == 4)
    #expect(await inbox.next(until: nil) == [0, 1, 2])
    #expect(inbox.offer(1))
  }

  @Test func anOfferWakesTheWaitingConsumer() async {
    let inbox = Inbox<Int>(capacity: 3)
    async let batch = inbox.next(until: nil)
    inbox.offer(7)
    #expect(await batch == [7])
  }

  @Test func returnsEmptyAtTheDeadlineAndNotBefore() async {
    let inbox = Inbox<Int>(capacity: 3)
    #expect(await inbox.next(until: .now - .seconds(1)) == [])
    for wait in [5, 1, 8, 2] {
      let deadline = ContinuousClock.now + .milliseconds(wait)
      #expect(await inbox.next(until: deadline) == [])
      #expect(ContinuousClock.now >= deadline)
    }
    #expect(await inbox.nextUntilClosed(deadline: .now + .milliseconds(5)).isEmpty)
    #expect(!inbox.isClosed)
  }

  @Test func manyInboxesKeepTheirOwnDeadlines() async {
    await withTaskGroup(of: Void.self) { group in
      for index in 0..<100 {
        group.addTask {
          let inbox = Inbox<Int>(capacity: 1)
          for round in 0..<10 {
            let deadline = ContinuousClock.now + .microseconds((index * 37 + round * 911) % 5000)
            #expect(await inbox.next(until: deadline) == [])
            #expect(ContinuousClock.now >= deadline)
          }
        }
      }
    }
  }

  @Test func cancellationEndsTheWait() async {
    let inbox = Inbox<Int>(capacity: 3)
    await withTaskGroup(of: [Int].self) { group in
      group.addTask { await inbox.next(until: nil) }
      group.cancelAll()
      #expect(await group.next() == [])
    }
    #expect(inbox.offer(1))
  }

  @Test func closingGivesWhatIsQueuedAndThenNothing() async {
    let inbox = Inbox<Int>(capacity: 3)
    inbox.offer(1)
    inbox.close()
    #expect(!inbox.offer(2))
    #expect(inbox.isClosed)
    #expect(await inbox.next(until: nil) == [1])
    #expect(await inbox.next(until: nil) == [])
  }

  @Test func anActorTakesBatchesUntilTheClose() async {
    let inbox = Inbox<Int>(capacity: 10_000)
    let consumer = Task {
      var sum = 0
      while true {
        let batch = await inbox.nextUntilClosed(deadline: nil)
        if batch.isEmpty { return sum }
        sum += batch.reduce(0, +)
      }
    }
    for number in 1...5000 { inbox.offer(number) }
    inbox.close()
    #expect(await consumer.value == 5000 * 5001 / 2)
  }

  @Test func nothingIsLostBetweenThreadsAndTheConsumer() async {
    let inbox = Inbox<Int>(capacity: 1_000_000)
    let total = 100_000
    await withTaskGroup(of: Void.self) { group in
      for producer in 0..<4 {
        group.addTask {
          for number in 0..<total / 4 {
            if number % 3 == 0 { inbox.offerWithoutWaking(producer) } else { inbox.offer(producer) }
          }
          inbox.wake()
        }
      }
      var seen = 0
      while seen < total {
        seen += await inbox.next(until: .now + .milliseconds(3)).count
      }
      #expect(seen == total)
    }
    #expect(inbox.dropped == 0)
  }
}
