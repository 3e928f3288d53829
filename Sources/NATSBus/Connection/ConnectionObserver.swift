/// Observes a connection. All calls come on the connection's thread.
protocol ConnectionObserver: AnyObject, Sendable {
  /// Handles what is due. Returns the next deadline.
  func expire(now: ContinuousClock.Instant) -> ContinuousClock.Instant?
  /// The connection broke: what was sent may or may not have arrived.
  func disconnected()
  /// There is a connection again, and all subscriptions are made.
  func reconnected()
}
