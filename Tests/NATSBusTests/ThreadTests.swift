import CallBus
import CallProcesses
import NATSBus
import Testing

/// The work of the connection's thread, and the work that others do in its place.
@Suite(.timeLimit(.minutes(2)))
struct ThreadTests {
  /// Senders find the thread asleep, at work, or find one another; nothing is lost, doubled or
  /// overtaken.
  @Test func manyThreadsSendAtOnce() async throws {
    try await withServer { _, bus in
      let threads = 4
      let count = 3000
      let heard = Inbox<[UInt8]>(capacity: .max)
      let subscription = try bus.subscribe("many") { heard.offer($0.bytes) }
      for thread in 0..<threads {
        startThread(named: "sender-\(thread)") {
          for number in 0..<count {
            bus.publish("many", [UInt8(thread), UInt8(number >> 8), UInt8(number & 255)])
          }
        }
      }
      var next = Array(repeating: 0, count: threads)
      while next.reduce(0, +) < threads * count {
        for bytes in await heard.next(until: nil) {
          #expect(Int(bytes[1]) << 8 | Int(bytes[2]) == next[Int(bytes[0])])
          next[Int(bytes[0])] += 1
        }
      }
      #expect(next == Array(repeating: count, count: threads))
      #expect(bus.statistics.dropped == 0)
      subscription.cancel()
    }
  }

  @Test func deadlinesAreTheThreadsOwn() async throws {
    try await withServer { _, bus in
      let inbox = Inbox<Int>(capacity: 1, timers: bus.actorThread?.timers)
      let deadline = ContinuousClock.now + .milliseconds(20)
      #expect(await inbox.next(until: deadline).isEmpty)
      #expect(ContinuousClock.now >= deadline)
      // An earlier one than that for which the thread waits.
      let late = Inbox<Int>(capacity: 1, timers: bus.actorThread?.timers)
      async let waiting = late.next(until: .now + .seconds(3600))
      #expect(await inbox.next(until: .now + .milliseconds(5)).isEmpty)
      late.offer(7)
      #expect(await waiting == [7])
    }
  }

  @Test func deadlinesOutliveTheThread() async throws {
    var inbox: Inbox<Int>?
    var timers: (any Timers)?
    try await withServer { _, bus in
      timers = bus.actorThread?.timers
      let made = Inbox<Int>(capacity: 1, timers: bus.actorThread?.timers)
      inbox = made
      #expect(await made.next(until: .now + .milliseconds(1)).isEmpty)
    }
    #expect(await inbox?.next(until: .now + .milliseconds(5)).isEmpty == true)
    let later = Inbox<Int>(capacity: 1, timers: timers)
    #expect(await later.next(until: .now + .milliseconds(5)).isEmpty)
  }
}
