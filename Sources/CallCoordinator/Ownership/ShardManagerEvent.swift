internal import CallBus
internal import CallCore
internal import CallTelemetry
internal import CallWire

/// What the manager of a node's shards hears.
enum ShardManagerEvent: Sendable {
  /// From nodes of one role; nil: from where all may be heard.
  case heartbeat([UInt8], from: NodeRole?)
  /// The lease of a shard, as the bucket has it now.
  case lease(KeyValueEntry)
  case worker(WorkerReport)
  case claimed(shard: Int, Result<Claimed, ShardClaim.Failure>)
  case released(shard: Int, Bool)
  /// An owner, perhaps another node, has read a shard back.
  case recovered(ShardTerm)
  case yielded(shard: Int)
  /// Whether anybody listens at a silent node's address.
  case probed(incarnation: UInt64, listens: Bool)
  /// Give every shard up and claim none, but stay.
  case drain
  /// Take part again.
  case resume
  case shutDown

  struct Claimed: Sendable {
    var term: ShardTerm
    var leaseRevision: UInt64
  }
}

/// A shard's lease as it was last seen.
struct LeaseRecord: Sendable {
  /// Why it cannot be read: then the shard is left alone.
  var unreadable: String?
  /// nil: never claimed.
  var lease: Lease?
  /// What a write of it must expect; 0 where there is no entry.
  var revision: UInt64 = 0
}

/// What the manager has done in child tasks.
enum ShardManagerJob: Sendable {
  case claim(shard: Int, LeaseRecord, lostSince: Timestamp?)
  case release(ShardTerm, leaseRevision: UInt64, refusedBy: [UInt64], deadline: Timestamp)
  case probe(Membership.Probe)
  case yield(shard: Int, Lease, revision: UInt64)
}

/// The one way into a manager.
package final class ShardManagerInbox: Sendable {
  let events: Inbox<ShardManagerEvent>
  /// Beyond this many waiting events heartbeats are dropped, others follow, and requests are, without
  /// which a hand-over only counts as slow; what the node says to itself is bounded by its shards and
  /// never refused.
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

  /// An owner asks for sessions: it does so when it has read the shard back, and now and then.
  func offerAnnounceRequest(_ request: [UInt8]) {
    guard events.depth < Self.heartbeatsWaitingMax,
      let request = try? ClusterCodec.announceRequest(request)
    else { return requestsDropped.increment() }
    events.offer(.recovered(ShardTerm(shard: Int(request.shard), epoch: request.epoch)))
  }

  package var depth: Int { events.depth }

  package func report(_ report: WorkerReport) { events.offer(.worker(report)) }
}
