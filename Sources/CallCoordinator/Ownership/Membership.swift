public import CallCore
public import CallWire

/// The living nodes, as far as heartbeats show. A guess: no guarantee depends on it.
///
/// Pure: it is given what was received and the time, and returns what changed.
public struct Membership: Sendable {
  public struct Member: Sendable, Equatable {
    public var node = ""
    public var incarnation: UInt64
    public var state = NodeState.serving
    public var lastSeen: Timestamp
    public var isEdge = false
    /// The highest format that it reads.
    public var reads = ClusterCodec.format
  }

  public enum Event: Sendable, Equatable {
    /// A coordinator joined, left, or changed its state.
    case coordinatorsChanged
    case edgeJoined(UInt64)
    /// It was silent for too long, or it left. Its sessions are dropped.
    case edgeLost(UInt64, EdgeLoss)
    /// It counted as lost, but is alive: its sessions must be announced again.
    case edgeReturned(UInt64)
    /// Two living edges have the same name. Harmless for calls, but an operator's mistake.
    case edgeNameShared(String)
  }

  /// Why an edge counts as lost. That decides how long it may return.
  public enum EdgeLoss: Sendable, Equatable {
    /// It left, or a later run of it began: its sockets are closed.
    case gone
    /// Its address has no subscriber: most likely its process ended, and its sockets with it.
    case unreachable
    /// Silent: its process may be stopped, or cut off, while its sockets live.
    case silent
  }

  /// The other coordinators, by node id.
  public private(set) var coordinators: [String: Member] = [:]
  private var edges: [UInt64: Member] = [:]
  private var edgeOfNode: [String: UInt64] = [:]
  /// Edges that counted as lost, so that a return is noticed. Policy: drop the oldest.
  private var lost: [(edge: UInt64, why: EdgeLoss, at: Timestamp)] = []
  private static let lostMax = 256

  public let timeout: Span
  /// How silent members are probed before the timeout; nil: not at all.
  let probing: Probing?
  /// Silent members that are being probed, by incarnation.
  var suspects: [UInt64: Suspect] = [:]
  /// The last heartbeats of coordinators that counted as lost, by node id.
  private var lostCoordinators: [String: (incarnation: UInt64, at: Timestamp)] = [:]
  /// When this node last received its own heartbeat.
  private var ownHeartbeatAt: Timestamp
  /// Since when this node receives its own heartbeats without a gap.
  public private(set) var receivesSince: Timestamp

  public init(timeout: Span, probing: Probing? = nil, now: Timestamp) {
    self.timeout = timeout
    self.probing = probing
    ownHeartbeatAt = now
    receivesSince = now
  }

  var living: [Member] { Array(coordinators.values) + Array(edges.values) }

  public var livingEdges: Set<UInt64> { Set(edges.keys) }

  /// The highest format of this version that every living coordinator reads.
  public var formatOfAll: UInt32 {
    coordinators.values.reduce(ClusterCodec.format) { min($0, $1.reads) }
  }

  /// Whether the owner of a lease may be alive. A node that never sent a heartbeat counts as alive until it had the
  /// time to send one.
  public func isLiving(owner: String, incarnation: UInt64) -> Bool {
    if let member = coordinators[owner] { return member.incarnation == incarnation }
    return lastSeen(ofLost: owner, incarnation: incarnation) == nil
      && ownHeartbeatAt < receivesSince + timeout
  }

  /// The edges that were lost and may still have sockets.
  public var missingEdges: [(edge: UInt64, why: EdgeLoss, at: Timestamp)] {
    lost.filter { $0.why != .gone }
  }

  /// The time of a lost coordinator's last heartbeat.
  public func lastSeen(ofLost owner: String, incarnation: UInt64) -> Timestamp? {
    guard let last = lostCoordinators[owner], last.incarnation == incarnation else { return nil }
    return last.at
  }

  public mutating func received(_ heartbeat: Heartbeat, now: Timestamp) -> [Event] {
    suspects[heartbeat.incarnation] = nil
    switch heartbeat.role {
    case .coordinator: return coordinatorReported(heartbeat, now: now)
    case .edge: return edgeReported(heartbeat, now: now)
    case .push: return []
    }
  }

  /// An edge sent something other than a heartbeat: it is alive, and its heartbeats are expected from now on.
  public mutating func edgeSeen(_ incarnation: UInt64, now: Timestamp) -> [Event] {
    suspects[incarnation] = nil
    guard edges[incarnation] == nil else {
      edges[incarnation]?.lastSeen = now
      return []
    }
    return enter(Member(incarnation: incarnation, lastSeen: now, isEdge: true))
  }

  // MARK: Silence

  /// Whether this node receives its own heartbeats now.
  public func receivesOwnHeartbeats(now: Timestamp) -> Bool { now - ownHeartbeatAt <= gapMax }

  /// A longer gap between two of its own heartbeats shows that the node was cut off or stopped.
  private var gapMax: Span { Self.gapMax(of: timeout) }

  static func gapMax(of timeout: Span) -> Span { Span(microseconds: timeout.microseconds / 2) }

  /// This node received its own heartbeat. Members that were silent for too long count as lost.
  ///
  /// A node that is cut off or stopped receives no heartbeats. So the silence of others counts only while its own
  /// heartbeats return through the bus, and starts again after each gap.
  public mutating func receivedOwnHeartbeat(now: Timestamp) -> [Event] {
    if !receivesOwnHeartbeats(now: now) {
      receivesSince = now
      suspects.removeAll()
    }
    ownHeartbeatAt = now
    return remove(living.filter { silentSince($0) + timeout <= now }, .silent, now: now)
  }

  /// When the silence of a member began.
  func silentSince(_ member: Member) -> Timestamp { max(member.lastSeen, receivesSince) }

  /// Counts members lost.
  mutating func remove(_ members: [Member], _ why: EdgeLoss, now: Timestamp) -> [Event] {
    var events: [Event] = []
    // Sorted, so that events do not depend on the layout of a dictionary.
    for member in members.sorted(by: { ($0.node, $0.incarnation) < ($1.node, $1.incarnation) })
    where !member.isEdge {
      coordinators[member.node] = nil
      suspects[member.incarnation] = nil
      lostCoordinators[member.node] = (member.incarnation, member.lastSeen)
      events = [.coordinatorsChanged]
    }
    for member in members.sorted(by: { $0.incarnation < $1.incarnation }) where member.isEdge {
      events += leave(member.incarnation, why, now: now)
    }
    return events
  }

  private mutating func coordinatorReported(_ heartbeat: Heartbeat, now: Timestamp) -> [Event] {
    let former = coordinators[heartbeat.node]
    if heartbeat.state == .gone {
      guard former?.incarnation == heartbeat.incarnation else { return [] }
      coordinators[heartbeat.node] = nil
      return [.coordinatorsChanged]
    }
    coordinators[heartbeat.node] = Member(
      node: heartbeat.node, incarnation: heartbeat.incarnation, state: heartbeat.state,
      lastSeen: now, reads: heartbeat.reads)
    if let former, former.incarnation != heartbeat.incarnation {
      suspects[former.incarnation] = nil
    }
    let same = former?.incarnation == heartbeat.incarnation && former?.state == heartbeat.state
    return (same ? [] : [.coordinatorsChanged]) + learn(heartbeat.silentEdges, now: now)
  }

  /// Adds the edges that another coordinator knows. This node does not know those that were silent since it started.
  private mutating func learn(_ silent: [SilentEdge], now: Timestamp) -> [Event] {
    var events: [Event] = []
    for one in silent.prefix(Self.lostMax)
    where edges[one.edge] == nil && !lost.contains(where: { $0.edge == one.edge }) {
      let since = now + Span(microseconds: -one.since.microseconds)
      if one.isLost {
        let why: EdgeLoss = one.isUnreachable ? .unreachable : .silent
        note(lost: one.edge, why, at: since)
        events.append(.edgeLost(one.edge, why))
      } else {
        events += enter(Member(incarnation: one.edge, lastSeen: since, isEdge: true))
      }
    }
    return events
  }

  /// The edges that other coordinators must know of: those that were lost and may still return, then those that were
  /// silent for `silence`, the longest first.
  /// - Parameter awaits: how long an edge may return, by the reason of its loss.
  package func silentEdges(awaits: (EdgeLoss) -> Span, silence: Span, now: Timestamp)
    -> [SilentEdge]
  {
    let gone = lost.filter { now < $0.at + awaits($0.why) }.map {
      SilentEdge(edge: $0.edge, since: now - $0.at, isUnreachable: $0.why == .unreachable)
    }
    let quiet = edges.values.filter { $0.lastSeen + silence <= now }
      .sorted { ($0.lastSeen, $0.incarnation) < ($1.lastSeen, $1.incarnation) }
      .map { SilentEdge(edge: $0.incarnation, since: now - $0.lastSeen, isLost: false) }
    return Array((gone + quiet).prefix(Self.lostMax))
  }

  /// No coordinator that served is left, so edges that are cut off or stopped are unknown: 0 stands for them.
  package mutating func beginsWithoutKnowing(now: Timestamp) -> [Event] {
    note(lost: 0, .silent, at: now)
    return [.edgeLost(0, .silent)]
  }

  private mutating func note(lost edge: UInt64, _ why: EdgeLoss, at: Timestamp) {
    lost.append((edge, why, at))
    if lost.count > Self.lostMax { lost.removeFirst() }
  }

  private mutating func edgeReported(_ heartbeat: Heartbeat, now: Timestamp) -> [Event] {
    let edge = heartbeat.incarnation
    if heartbeat.state == .gone { return leave(edge, .gone, now: now) }
    let known = edges[edge]
    let wasLost = lost.contains { $0.edge == edge }
    let member = Member(node: heartbeat.node, incarnation: edge, lastSeen: now, isEdge: true)
    var events: [Event] = []
    if known == nil { events = enter(member) } else { edges[edge] = member }
    if known?.node == heartbeat.node { return events }
    // A new incarnation under a known name ends the old one, unless the old one sends heartbeats again.
    guard let former = edgeOfNode[heartbeat.node], former != edge, edges[former] != nil else {
      edgeOfNode[heartbeat.node] = edge
      return events
    }
    if wasLost { return events + [.edgeNameShared(heartbeat.node)] }
    edgeOfNode[heartbeat.node] = edge
    return events + leave(former, .gone, now: now)
  }

  private mutating func enter(_ member: Member) -> [Event] {
    edges[member.incarnation] = member
    guard let index = lost.firstIndex(where: { $0.edge == member.incarnation }) else {
      return [.edgeJoined(member.incarnation)]
    }
    lost.remove(at: index)
    return [.edgeReturned(member.incarnation)]
  }

  private mutating func leave(_ edge: UInt64, _ why: EdgeLoss, now: Timestamp) -> [Event] {
    guard let member = edges.removeValue(forKey: edge) else {
      if why == .gone, let index = lost.firstIndex(where: { $0.edge == edge }) {
        lost[index].why = .gone
      }
      return []
    }
    if edgeOfNode[member.node] == edge { edgeOfNode[member.node] = nil }
    suspects[edge] = nil
    note(lost: edge, why, at: now)
    return [.edgeLost(edge, why)]
  }
}
