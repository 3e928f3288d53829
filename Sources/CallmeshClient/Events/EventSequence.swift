internal import CallMachine
internal import Synchronization

/// Events in order, from the moment at which the sequence was asked for. For one reader each; ask for another one to
/// read twice.
///
/// A reader that falls too far behind loses the oldest events; the properties of `Device` and `Call` have the present
/// state.
public struct EventSequence<Element: Sendable>: AsyncSequence, Sendable {
  public typealias Failure = Never
  let buffer: EventBuffer<Element>

  public struct AsyncIterator: AsyncIteratorProtocol {
    let buffer: EventBuffer<Element>

    public mutating func next() async -> Element? { await buffer.next() }
    public mutating func next(isolation: isolated (any Actor)?) async -> Element? {
      await buffer.next()
    }
  }

  public func makeAsyncIterator() -> AsyncIterator { AsyncIterator(buffer: buffer) }
}

/// Gives events to every reader that has asked for them.
final class Broadcast<Element: Sendable>: Sendable {
  private struct State {
    var readers: [Reader] = []
    var isFinished = false
  }

  /// A reader. It gets nothing once its last reference is released.
  private struct Reader {
    weak var buffer: EventBuffer<Element>?
  }

  private let capacity: Int
  private let state = Mutex(State())

  init(capacity: Int) { self.capacity = capacity }

  /// - Parameter first: what the new reader gets before anything else.
  func sequence(beginningWith first: Element? = nil) -> EventSequence<Element> {
    let buffer = EventBuffer<Element>(capacity: capacity)
    if let first { buffer.append(first) }
    let isFinished = state.withLock {
      $0.readers.removeAll { $0.buffer == nil }
      if !$0.isFinished { $0.readers.append(Reader(buffer: buffer)) }
      return $0.isFinished
    }
    if isFinished { buffer.finish() }
    return EventSequence(buffer: buffer)
  }

  func send(_ event: Element) {
    for reader in readers { reader.append(event) }
  }

  /// Ends all sequences, those that will be asked for included.
  func finish() {
    let ended = readers
    state.withLock { ($0.isFinished, $0.readers) = (true, []) }
    for reader in ended { reader.finish() }
  }

  private var readers: [EventBuffer<Element>] {
    state.withLock { $0.readers.compactMap(\.buffer) }
  }
}
