import CallBus
import CallTestKit
import Glibc
import NATSBus
import Synchronization
import Testing

/// What the connection's thread does, and what others do in its place.
@Suite(.timeLimit(.minutes(2)))
struct ThreadTests {
  private func withBus(_ body: (NATSBus) async throws -> Void) async throws {
    let server = try await NATSServerProcess.start()
    defer { server.stop() }
    let options = NATSOptions(subjects: Subjects(cluster: "test", shardCount: 4))
    let bus = try await NATSBus.connect(url: server.url, name: "test", options: options)
    try await body(bus)
    await bus.close()
  }

  /// Senders find the thread asleep, at work, or find one another; nothing is lost, doubled or
  /// overtaken.
  @Test func manyThreadsSendAtOnce() async throws {
    try await withBus { bus in
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

  /// While somebody sends in the thread's place it passes for awake, so that what comes for it then
  /// wakes nobody: it must be woken behind that, or it sleeps until something else happens.
  ///
  /// A message that is too large is reported in the midst of sending: just then something comes.
  @Test(arguments: [true, false]) func whatComesMeanwhileWakesTheThread(isJob: Bool) async throws {
    let server = try await NATSServerProcess.start()
    defer { server.stop() }
    for _ in 0..<100 where try await comesMeanwhile(server, isJob: isJob) { return }
    Issue.record("nobody ever sent in the thread's place")
  }

  /// - Returns: false where the thread was awake still, and sent the message itself.
  private func comesMeanwhile(_ server: NATSServerProcess, isJob: Bool) async throws -> Bool {
    let act = Once()
    var options = NATSOptions(subjects: Subjects(cluster: "test", shardCount: 4))
    options.onEvent = { if case .failure = $0 { act.run() } }
    let bus = try await NATSBus.connect(url: server.url, name: "test", options: options)
    let (timers, executor) = (try #require(bus.timers), try #require(bus.taskExecutor))
    // So late that the thread then looks whether anything waits for longer, finds nothing, and sleeps
    // until it is woken.
    let looks = Inbox<UInt>(capacity: 1)
    timers.arm(timers.register { looks.offer(pthread_self()) }, at: .now + .milliseconds(60))
    let thread = await looks.next(until: nil).first

    let (sender, done) = (Inbox<UInt>(capacity: 1), Inbox<Bool>(capacity: 1))
    let slot = timers.register { done.offer(true) }
    act.set {
      sender.offer(pthread_self())
      if isJob {
        _ = Task(executorPreference: executor) { done.offer(true) }
      } else {
        timers.arm(slot, at: .now)
      }
    }
    bus.publish("large", [UInt8](repeating: 0, count: 2 << 20))
    let place = await sender.next(until: nil).first
    let isDone = await !done.next(until: .now + .seconds(20)).isEmpty
    await bus.close()
    guard place != thread else { return false }
    #expect(isDone, "the thread was not woken")
    return true
  }

  /// What is to be done the first time that it is asked for.
  private final class Once: Sendable {
    private let action = Mutex<(@Sendable () -> Void)?>(nil)
    func set(_ new: @escaping @Sendable () -> Void) { action.withLock { $0 = new } }
    func run() { action.withLock { $0.take() }?() }
  }

  @Test func deadlinesAreTheThreadsOwn() async throws {
    try await withBus { bus in
      let inbox = Inbox<Int>(capacity: 1, timers: bus.timers)
      let deadline = ContinuousClock.now + .milliseconds(20)
      #expect(await inbox.next(until: deadline).isEmpty)
      #expect(ContinuousClock.now >= deadline)
      // An earlier one than that for which the thread waits.
      let late = Inbox<Int>(capacity: 1, timers: bus.timers)
      async let waiting = late.next(until: .now + .seconds(3600))
      #expect(await inbox.next(until: .now + .milliseconds(5)).isEmpty)
      late.offer(7)
      #expect(await waiting == [7])
    }
  }

  @Test func deadlinesOutliveTheThread() async throws {
    var inbox: Inbox<Int>?
    var timers: (any Timers)?
    try await withBus { bus in
      timers = bus.timers
      let made = Inbox<Int>(capacity: 1, timers: bus.timers)
      inbox = made
      #expect(await made.next(until: .now + .milliseconds(1)).isEmpty)
    }
    #expect(await inbox?.next(until: .now + .milliseconds(5)).isEmpty == true)
    let later = Inbox<Int>(capacity: 1, timers: timers)
    #expect(await later.next(until: .now + .milliseconds(5)).isEmpty)
  }
}
