internal import CallBus
internal import CallCore
internal import CallTelemetry
internal import CallWire

/// An event for the manager of a node's shards.
enum ShardManagerEvent: Sendable {
  /// From nodes of one role; nil: from the subject that all roles may use.
  case heartbeat([UInt8], from: NodeRole?)
  /// The present lease of a shard.
  case lease(KeyValueEntry)
  /// The lease as the store has it, read after a refused write.
  case leaseRead(shard: Int, KeyValueEntry?)
  case worker(WorkerReport)
  case claimed(shard: Int, Result<ClaimedShard, ShardClaim.Failure>)
  case released(shard: Int, Bool)
  /// An owner, perhaps another node, has recovered a shard.
  case recovered(ShardTerm)
  case yielded(shard: Int)
  /// Whether a silent node's address has a subscriber.
  case probed(Membership.Probe, listens: Bool)
  /// Give every shard up and claim none, but stay.
  case drain
  /// Undo `drain`.
  case resume
  case shutDown
}

/// A shard that this node has claimed and its worker has adopted.
typealias ClaimedShard = (term: ShardTerm, leaseRevision: UInt64)

/// A shard's lease as it was last seen.
struct LeaseRecord: Sendable {
  /// Why it cannot be read, if so: the shard is then left alone.
  var unreadable: String?
  /// nil: never claimed.
  var lease: Lease?
  /// The revision that a write of it must expect; 0 if there is no entry.
  var revision: UInt64 = 0
}

/// The work of a child task of the manager.
enum ShardManagerJob: Sendable {
  case claim(shard: Int, LeaseRecord, lostSince: Timestamp?)
  case release(ShardTerm, leaseRevision: UInt64, refusedBy: [UInt64], deadline: Timestamp)
  case probe(Membership.Probe)
  case yield(shard: Int, Lease, revision: UInt64)
}

/// The queue to a manager.
package final class ShardManagerInbox: Sendable {
  let events: Inbox<ShardManagerEvent>
  /// Policy beyond this many events: drop heartbeats, since others follow, and requests for sessions, without which a
  /// hand-over only counts as slow. The node's own events are bounded by its shards, and never refused.
  private static let heartbeatsWaitingMax = 10_000

  private let heartbeatsDropped: Counter
  private let requestsDropped: Counter

  init(timers: (any Timers)? = nil, heartbeatsDropped: Counter, requestsDropped: Counter) {
    events = Inbox(capacity: .max, timers: timers)
    self.heartbeatsDropped = heartbeatsDropped
    self.requestsDropped = requestsDropped
  }

  func offer(_ event: ShardManagerEvent) { events.offer(event) }

  func offerHeartbeat(_ heartbeat: [UInt8], from role: NodeRole?) {
    guard events.depth < Self.heartbeatsWaitingMax else { return heartbeatsDropped.increment() }
    events.offer(.heartbeat(heartbeat, from: role))
  }

  /// An owner requests sessions: it does so once it has recovered the shard, and at intervals.
  func offerAnnounceRequest(_ request: [UInt8]) {
    guard events.depth < Self.heartbeatsWaitingMax,
      let request = try? ClusterCodec.announceRequest(request)
    else { return requestsDropped.increment() }
    events.offer(.recovered(ShardTerm(shard: Int(request.shard), epoch: request.epoch)))
  }

  var depth: Int { events.depth }
}
