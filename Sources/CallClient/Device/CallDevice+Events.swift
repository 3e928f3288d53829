internal import CallCore

extension CallDevice {
  /// The events of one device, in order. The sequence ends with `stop`.
  public struct Events: AsyncSequence, Sendable {
    public typealias Element = ClientEvent
    public typealias Failure = Never
    let buffer: EventBuffer<ClientEvent>

    public struct AsyncIterator: AsyncIteratorProtocol {
      let buffer: EventBuffer<ClientEvent>

      public mutating func next() async -> ClientEvent? { await buffer.next() }
      public mutating func next(isolation: isolated (any Actor)?) async -> ClientEvent? {
        await buffer.next()
      }
    }

    public func makeAsyncIterator() -> AsyncIterator { AsyncIterator(buffer: buffer) }
  }
}

extension ClientEvent {
  /// Whether the app must not miss it.
  var isImportant: Bool {
    switch self {
    case .call(_, .invited), .call(_, .answered), .call(_, .won), .call(_, .moved),
      .call(_, .transfer),
      .call(_, .stopped), .refused, .ongoing, .history, .relays:
      true
    // Otherwise the app would not learn that pushes can no longer wake it.
    case .notice(let notice): notice.kind == .tokenTaken || notice.kind == .deviceRemoved
    case .call(_, .ringing), .call(_, .ringsUntil), .call(_, .signal), .attached, .detached,
      .notTrusted,
      .replied, .gaveUp:
      false
    }
  }
}
