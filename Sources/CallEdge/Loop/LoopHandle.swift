internal import CallBus
internal import CallTelemetry
internal import CallWire
internal import NIOCore
internal import Synchronization

/// An `EdgeLoop` as other threads see it: work for it is handed over to its event loop.
struct LoopHandle: Sendable {
  let eventLoop: any EventLoop
  private let box: NIOLoopBoundBox<EdgeLoop>
  let inbox: LoopInbox

  init(index: Int, eventLoop: any EventLoop, shared: EdgeShared) {
    self.eventLoop = eventLoop
    inbox = LoopInbox(capacity: shared.configuration.deliveriesWaitingPerLoop)
    box = .makeBoxSendingValue(
      EdgeLoop(index: index, eventLoop: eventLoop, shared: shared), eventLoop: eventLoop)
  }

  /// The loop itself, for code that runs on its event loop.
  var onLoop: EdgeLoop { box.value }

  func execute(_ body: @escaping @Sendable (EdgeLoop) -> Void) {
    eventLoop.execute { body(box.value) }
  }

  /// Runs `body` on the event loop and waits for it.
  func run<T: Sendable>(_ body: @escaping @Sendable (EdgeLoop) -> T) async throws -> T {
    try await eventLoop.submit { body(box.value) }.get()
  }

  /// Hands items over. However many come before the loop gets to them, it is woken once.
  func offer(_ items: [EdgeItem], dropped: Counter) {
    let (lost, wake) = inbox.add(items)
    if lost > 0 { dropped.increment(by: UInt64(lost)) }
    if wake { eventLoop.execute { box.value.handle(inbox.take()) } }
  }
}

/// What waits for an event loop. Bounded; refuses what it has no room for.
final class LoopInbox: Sendable {
  private struct State {
    var items: [EdgeItem] = []
    /// Whether the loop has been woken and has not yet come.
    var isWoken = false
  }
  private let state = Mutex(State())
  private let capacity: Int

  init(capacity: Int) { self.capacity = capacity }

  /// - Returns: how many items were refused, and whether the loop must be woken.
  func add(_ items: [EdgeItem]) -> (lost: Int, wake: Bool) {
    state.withLock { state in
      let room = min(items.count, max(0, capacity - state.items.count))
      if state.items.isEmpty && room == items.count {
        state.items = items
      } else {
        state.items.append(contentsOf: items.prefix(room))
      }
      let wake = !state.isWoken && room > 0
      if wake { state.isWoken = true }
      return (items.count - room, wake)
    }
  }

  func take() -> [EdgeItem] {
    state.withLock { state in
      state.isWoken = false
      var taken: [EdgeItem] = []
      swap(&taken, &state.items)
      return taken
    }
  }
}
