package import CallCore

/// The commands of one event loop that wait for a hook's decision: each `place` that the hook is asked about, and what
/// the same session sends about the same call behind it. They leave in their order, so that no cancel and no
/// candidate overtakes its `place`.
package struct HeldCommands {
  private struct Key: Hashable {
    var session: UInt64
    var call: CallID
  }
  private struct Entry {
    var request: UInt64
    /// It waits for no decision of its own.
    var isDecided: Bool
  }

  /// By call, in the order in which they came; none is empty, and none begins with a decided one. `CommandOutbox`
  /// bounds their number.
  private var queues: [Key: [Entry]] = [:]

  package init() {}

  package var isEmpty: Bool { queues.isEmpty }

  /// A `place` waits for its decision.
  package mutating func hold(session: UInt64, call: CallID, request: UInt64) {
    queues[Key(session: session, call: call), default: []].append(
      Entry(request: request, isDecided: false))
  }

  /// A command that waits for no decision came.
  /// - Returns: whether it has to wait behind one that does.
  package mutating func follow(session: UInt64, call: CallID, request: UInt64) -> Bool {
    let key = Key(session: session, call: call)
    guard queues[key] != nil else { return false }
    queues[key]?.append(Entry(request: request, isDecided: true))
    return true
  }

  /// A `place` may leave.
  /// - Returns: the requests that leave now, in their order.
  package mutating func decide(session: UInt64, call: CallID, request: UInt64) -> [UInt64] {
    change(Key(session: session, call: call)) { queue in
      guard let index = queue.firstIndex(where: { $0.request == request }) else { return }
      queue[index].isDecided = true
    }
  }

  /// A command will not leave.
  /// - Returns: the requests that leave now that it is gone, in their order.
  package mutating func remove(session: UInt64, call: CallID, request: UInt64) -> [UInt64] {
    change(Key(session: session, call: call)) { $0.removeAll { $0.request == request } }
  }

  /// Forgets what a session holds of a call.
  /// - Returns: the requests.
  package mutating func drop(session: UInt64, call: CallID) -> [UInt64] {
    queues.removeValue(forKey: Key(session: session, call: call))?.map(\.request) ?? []
  }

  private mutating func change(_ key: Key, _ change: (inout [Entry]) -> Void) -> [UInt64] {
    guard var queue = queues[key] else { return [] }
    change(&queue)
    let leaving = queue.prefix { $0.isDecided }
    queue.removeFirst(leaving.count)
    queues[key] = queue.isEmpty ? nil : queue
    return leaving.map(\.request)
  }
}
