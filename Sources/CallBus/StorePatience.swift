public import CallCore

/// The store is not always there when a node is: servers start at the same time, a replicated one
/// elects a leader, streams take seconds to be made. A node waits for it, says so, and gives up only
/// when it takes long: then something else is wrong.
public struct StorePatience: Sendable {
  /// How long it is asked again.
  public var limit: Span
  public var pause: Span
  private let clock: ClusterClock
  private let waits: @Sendable (BusError) -> Void

  /// - Parameter waits: told why, before each pause.
  public init(
    clock: ClusterClock, limit: Span = .seconds(60), pause: Span = .milliseconds(500),
    waits: @escaping @Sendable (BusError) -> Void
  ) {
    self.clock = clock
    self.limit = limit
    self.pause = pause
    self.waits = waits
  }

  /// - Throws: what `body` throws, when that does not pass or does not in time.
  public func callAsFunction<Value>(_ body: () async throws -> Value) async throws -> Value {
    let end = clock.now() + limit
    while true {
      do {
        return try await body()
      } catch let error as BusError where error.mayPass {
        guard clock.now() < end, !Task.isCancelled else { throw error }
        waits(error)
      }
      await clock.pause(pause)
    }
  }
}

extension BusError {
  /// Whether the same may succeed a little later, without anybody's doing.
  public var mayPass: Bool {
    switch self {
    case .timeout, .noResponders, .notReady: true
    case .closed, .wrongSequence, .failed: false
    }
  }
}
