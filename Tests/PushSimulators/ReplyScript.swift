package import CallTestKit
internal import Synchronization

/// Replies of a test that replace the simulator's own, in order.
package final class ReplyScript: Sendable {
  private let replies = Mutex<[SimulatedReply]>([])
  package init() {}

  package func add(_ replies: SimulatedReply...) {
    self.replies.withLock { $0 += replies }
  }
  package func add(_ reply: SimulatedReply, times: Int) {
    replies.withLock { $0 += Array(repeating: reply, count: times) }
  }
  func next() -> SimulatedReply? {
    replies.withLock { $0.isEmpty ? nil : $0.removeFirst() }
  }
}
