internal import CallBus
package import CallTelemetry
package import CallWire
internal import NIOCore
internal import Synchronization

/// An `EdgeLoop` as other threads see it: they hand work over to its event loop.
final class LoopHandle: Sendable {
  let eventLoop: any EventLoop
  private let box: NIOLoopBoundBox<EdgeLoop>
  private let inbox: LoopInbox

  init(index: Int, eventLoop: any EventLoop, shared: EdgeShared) {
    self.eventLoop = eventLoop
    inbox = LoopInbox(
      capacity: shared.configuration.deliveriesWaitingPerLoop,
      waiting: shared.metrics.deliveriesWaiting, dropped: shared.metrics.deliveriesDropped)
    box = .makeBoxSendingValue(
      EdgeLoop(index: index, eventLoop: eventLoop, shared: shared), eventLoop: eventLoop)
  }

  /// The loop itself, for code that runs on its event loop.
  var onLoop: EdgeLoop { box.value }

  func execute(_ body: @escaping @Sendable (EdgeLoop) -> Void) {
    eventLoop.execute { [box] in body(box.value) }
  }

  /// Runs `body` on the event loop and waits for it.
  func run<T: Sendable>(_ body: @escaping @Sendable (EdgeLoop) -> T) async throws -> T {
    try await eventLoop.submit { [box] in body(box.value) }.get()
  }

  /// Hands items over. The loop is woken once for all that come before it takes them.
  func offer(_ items: [EdgeItem]) {
    if inbox.add(items) { eventLoop.execute { [self] in box.value.handle(inbox.takeItems()) } }
  }
}

extension [LoopHandle] {
  /// Runs `count` on each loop, and adds up what it returns. A loop that has ended counts as 0.
  func sum(_ count: @escaping @Sendable (EdgeLoop) -> Int) async -> Int {
    var sum = 0
    for loop in self { sum += (try? await loop.run(count)) ?? 0 }
    return sum
  }
}

/// The deliveries and replies that wait for one event loop. Policy when full: drop the newest, and count them;
/// shards retransmit.
package final class LoopInbox: Sendable {
  private struct State {
    var items: [EdgeItem] = []
    /// Whether the loop has been woken and has not taken the items yet.
    var isWoken = false
  }
  private let state = Mutex(State())
  private let capacity: Int
  private let waiting: Gauge
  private let dropped: Counter

  package init(capacity: Int, waiting: Gauge, dropped: Counter) {
    self.capacity = capacity
    self.waiting = waiting
    self.dropped = dropped
  }

  /// - Returns: whether the loop must be woken.
  package func add(_ items: [EdgeItem]) -> Bool {
    let (added, wake) = state.withLock { state in
      let room = min(items.count, max(0, capacity - state.items.count))
      if state.items.isEmpty && room == items.count {
        state.items = items
      } else {
        state.items.append(contentsOf: items.prefix(room))
      }
      let wake = !state.isWoken && room > 0
      if wake { state.isWoken = true }
      return (room, wake)
    }
    waiting.add(Int64(added))
    if added < items.count { dropped.increment(by: UInt64(items.count - added)) }
    return wake
  }

  package func takeItems() -> [EdgeItem] {
    var taken: [EdgeItem] = []
    state.withLock { state in
      state.isWoken = false
      swap(&taken, &state.items)
    }
    waiting.add(-Int64(taken.count))
    return taken
  }
}
