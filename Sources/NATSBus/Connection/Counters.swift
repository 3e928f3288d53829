internal import Synchronization

/// What a connection counts, readable from anywhere.
final class Counters: Sendable {
  let connected = Atomic(false)
  let reconnects = Atomic<UInt64>(0)
  let messagesIn = Atomic<UInt64>(0)
  let messagesOut = Atomic<UInt64>(0)
  let bytesIn = Atomic<UInt64>(0)
  let bytesOut = Atomic<UInt64>(0)
  /// Dropped by the library or not sent; what the outbox refused is counted there.
  let dropped = Atomic<UInt64>(0)
  let backlog = Atomic<Int>(0)
  let server = Mutex("")
  let serverVersion = Mutex("")
}
