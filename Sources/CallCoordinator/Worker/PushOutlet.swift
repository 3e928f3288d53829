package import CallBus
package import CallCore
internal import CallWire

/// Where decided pushes go.
package protocol PushOutlet: Sendable {
  /// Takes a push for good, and at once. `completion` is called exactly once, from any thread:
  /// `.appended` when the job is kept. A job whose id was taken some minutes ago counts as kept, and
  /// is not kept twice.
  func add(_ job: PushJob, completion: @escaping @Sendable (AppendResult) -> Void)
}

/// The work queue of which gateways take.
package struct QueueOutlet: PushOutlet {
  private let queue: any WorkQueue

  package init(_ queue: any WorkQueue) { self.queue = queue }

  package func add(_ job: PushJob, completion: @escaping @Sendable (AppendResult) -> Void) {
    queue.add(
      lane: job.token.lane, id: job.id, ClusterCodec.encode(job), completion: completion)
  }
}
