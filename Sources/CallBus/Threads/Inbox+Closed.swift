/// An inbox without elements, as a shutdown signal: closed once; one task at a time may wait for it.
extension Inbox where Element == Never {
  /// Runs `body`, and cancels it if the inbox is closed before it ends.
  /// - Returns: nil if the inbox was closed first.
  /// - Throws: what `body` throws, unless the inbox was closed first.
  public func unlessClosed<Value: Sendable>(
    _ body: @Sendable @escaping () async throws -> Value
  ) async throws -> Value? {
    guard !isClosed else { return nil }
    do {
      return try await withThrowingTaskGroup(of: Value?.self) { group in
        group.addTask { try await body() }
        group.addTask {
          while !self.isClosed, !Task.isCancelled { _ = await self.next(until: nil) }
          return nil
        }
        defer { group.cancelAll() }
        return try await group.next() ?? nil
      }
    } catch  where isClosed {
      return nil
    }
  }
}
