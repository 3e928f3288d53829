public import CallCore

/// The store is not always there when a node is: servers start at the same time, a replicated one
/// elects a leader, streams take seconds to be made. A node waits for it, says so, and gives up only
/// when it takes long: then something else is wrong.
public struct StorePatience: Sendable {
  /// How long it is asked again.
  public var limit: Span
  /// After the first refusal; each further pause is twice as long, up to `longestPause`.
  public var pause: Span
  public var longestPause: Span
  private let clock: ClusterClock
  private let waits: @Sendable (BusError) -> Void

  /// - Parameter waits: told why, before each pause.
  public init(
    clock: ClusterClock, limit: Span = .seconds(60), pause: Span = .milliseconds(500),
    longestPause: Span? = nil, waits: @escaping @Sendable (BusError) -> Void
  ) {
    self.clock = clock
    self.limit = limit
    self.pause = pause
    self.longestPause = max(pause, longestPause ?? pause)
    self.waits = waits
  }

  /// - Throws: what `body` throws, when that does not pass, does not in time, or the task is cancelled.
  public func callAsFunction<Value>(_ body: () async throws -> Value) async throws -> Value {
    let end = clock.now() + limit
    var pause = pause
    while true {
      do {
        return try await body()
      } catch let error as BusError where error.mayPass {
        guard clock.now() < end, !Task.isCancelled else { throw error }
        waits(error)
      }
      await clock.pause(pause)
      pause = min(longestPause, Span(microseconds: pause.microseconds * 2))
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
