public import CallCore
public import CallWire

/// Who is alive, as far as heartbeats tell. A guess: nothing that must be true depends on it.
///
/// Pure: it is told what was heard and what time it is, and says what changed.
public struct Membership: Sendable {
  public struct Member: Sendable, Equatable {
    public var node: String
    public var incarnation: UInt64
    public var state: NodeState
    public var version: String
    public var lastSeen: Timestamp
    public var isEdge = false
    /// The highest format that it reads.
    public var reads = ClusterCodec.format
  }

  public enum Event: Sendable, Equatable {
    /// A coordinator came, went, or changed its state.
    case coordinatorsChanged
    case edgeJoined(UInt64)
    /// Nothing came from it for too long, or it said that it goes. Its sessions are dropped.
    case edgeLost(UInt64, EdgeLoss)
    /// It was counted lost, but it lives: its sessions must be announced again.
    case edgeReturned(UInt64)
    /// Two living edges have the same name. Harmless for calls, but an operator's mistake.
    case edgeNameShared(String)
  }

  /// Why an edge counts as lost, and so what its devices may believe.
  public enum EdgeLoss: Sendable, Equatable {
    /// It said so, or a later run of it began: its sockets are closed.
    case gone
    /// Nobody listens at its address: most likely its process ended, and its sockets with it.
    case unreachable
    /// Only silence: its process may be stopped, or cut off, while its sockets live.
    case silent
  }

  /// Coordinators by node id; this node is not among them.
  public private(set) var coordinators: [String: Member] = [:]
  private var edges: [UInt64: Member] = [:]
  private var edgeOfNode: [String: UInt64] = [:]
  /// Edges that were counted lost, so that a return is noticed. Bounded: the oldest go.
  private var lost: [(edge: UInt64, why: EdgeLoss, at: Timestamp)] = []
  private static let lostMax = 256

  public let timeout: Span
  /// How silence is looked into before the timeout; nil leaves it to the timeout.
  let probing: Probing?
  /// Silent members that are being looked into, by incarnation. `Membership+Probing` has the rest.
  var suspects: [UInt64: Suspect] = [:]
  /// Of coordinators that were counted lost, by name.
  private var lostCoordinators: [String: (incarnation: UInt64, at: Timestamp)] = [:]
  /// When this node last received its own heartbeat.
  private var ownHeartbeatAt: Timestamp
  /// Since when it receives its own heartbeats without a gap.
  public private(set) var receivesSince: Timestamp

  public init(timeout: Span, probing: Probing? = nil, now: Timestamp) {
    self.timeout = timeout
    self.probing = probing
    ownHeartbeatAt = now
    receivesSince = now
  }

  /// All that are counted living.
  var living: [Member] { Array(coordinators.values) + Array(edges.values) }

  public var livingEdges: Set<UInt64> { Set(edges.keys) }

  /// Whether every living coordinator reads this format.
  public func allRead(_ format: UInt32) -> Bool {
    coordinators.values.allSatisfy { $0.reads >= format }
  }

  /// Whether the holder of a lease may still be at work. A node that was never heard counts as
  /// living until it had the time to be heard.
  public func isLiving(owner: String, incarnation: UInt64) -> Bool {
    if let member = coordinators[owner] { return member.incarnation == incarnation }
    return lastSeen(ofLost: owner, incarnation: incarnation) == nil
      && ownHeartbeatAt < receivesSince + timeout
  }

  /// The edges that were lost and may still have sockets.
  public var missingEdges: [(edge: UInt64, why: EdgeLoss, at: Timestamp)] {
    lost.filter { $0.why != .gone }
  }

  /// When a coordinator that was counted lost was last heard.
  public func lastSeen(ofLost owner: String, incarnation: UInt64) -> Timestamp? {
    guard let words = lostCoordinators[owner], words.incarnation == incarnation else { return nil }
    return words.at
  }

  public mutating func received(_ heartbeat: Heartbeat, now: Timestamp) -> [Event] {
    suspects[heartbeat.incarnation] = nil
    switch heartbeat.role {
    case .coordinator: return coordinatorReported(heartbeat, now: now)
    case .edge: return edgeReported(heartbeat, now: now)
    case .push: return []
    }
  }

  /// An edge sent something else than a heartbeat: it lives, and it will be missed when it does not
  /// go on to say so.
  public mutating func edgeSeen(_ incarnation: UInt64, now: Timestamp) -> [Event] {
    suspects[incarnation] = nil
    guard edges[incarnation] == nil else {
      edges[incarnation]?.lastSeen = now
      return []
    }
    return enter(
      Member(
        node: "", incarnation: incarnation, state: .serving, version: "", lastSeen: now,
        isEdge: true))
  }

  // MARK: Silence

  /// Whether this node receives its own heartbeats now.
  public func receivesOwnHeartbeats(now: Timestamp) -> Bool { now - ownHeartbeatAt <= gapMax }

  /// A longer gap between two of its own heartbeats shows that the node was cut off or stopped.
  private var gapMax: Span { Self.gapMax(of: timeout) }

  static func gapMax(of timeout: Span) -> Span { Span(microseconds: timeout.microseconds / 2) }

  /// This node received its own heartbeat. Counts those lost that were silent for too long.
  ///
  /// A node that is cut off, or stopped, receives nobody's heartbeats: the silence is its own. So the
  /// silence of others counts only while its own heartbeats come back through the bus, and it begins
  /// anew after each gap.
  public mutating func receivedOwnHeartbeat(now: Timestamp) -> [Event] {
    if !receivesOwnHeartbeats(now: now) {
      receivesSince = now
      suspects.removeAll()
    }
    ownHeartbeatAt = now
    return remove(living.filter { silentSince($0) + timeout <= now }, .silent, now: now)
  }

  /// From when on the silence of another node counts.
  func silentSince(_ member: Member) -> Timestamp { max(member.lastSeen, receivesSince) }

  /// Counts members lost.
  mutating func remove(_ members: [Member], _ why: EdgeLoss, now: Timestamp) -> [Event] {
    var events: [Event] = []
    // In one order everywhere: events must not depend on how a dictionary is laid out.
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
      version: heartbeat.version, lastSeen: now, reads: heartbeat.reads)
    let same = former?.incarnation == heartbeat.incarnation && former?.state == heartbeat.state
    return (same ? [] : [.coordinatorsChanged]) + learn(heartbeat.silentEdges, now: now)
  }

  /// Takes in the edges that another coordinator knows. One that has been silent since this node began is
  /// known to others only.
  private mutating func learn(_ silent: [SilentEdge], now: Timestamp) -> [Event] {
    var events: [Event] = []
    for one in silent.prefix(Self.lostMax)
    where edges[one.edge] == nil && !lost.contains(where: { $0.edge == one.edge }) {
      let since = now + Span(microseconds: -one.since.microseconds)
      if one.isLost {
        note(lost: one.edge, .silent, at: since)
        events.append(.edgeLost(one.edge, .silent))
      } else {
        events += enter(
          Member(
            node: "", incarnation: one.edge, state: .serving, version: "", lastSeen: since,
            isEdge: true))
      }
    }
    return events
  }

  /// What others are told of edges: which count as lost since less than `span`, and which were not heard for
  /// `silence`; those that are silent for longest come first.
  package func silentEdges(within span: Span, silence: Span, now: Timestamp) -> [SilentEdge] {
    let gone = lost.filter { $0.why == .silent && now < $0.at + span }.map {
      SilentEdge(edge: $0.edge, since: now - $0.at)
    }
    let quiet = edges.values.filter { $0.lastSeen + silence <= now }
      .sorted { ($0.lastSeen, $0.incarnation) < ($1.lastSeen, $1.incarnation) }
      .map { SilentEdge(edge: $0.incarnation, since: now - $0.lastSeen, isLost: false) }
    return Array((gone + quiet).prefix(Self.lostMax))
  }

  /// No coordinator that served is left: an edge that is cut off, or stands still, is known to nobody. 0
  /// stands for it.
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
    let member = Member(
      node: heartbeat.node, incarnation: edge, state: heartbeat.state, version: heartbeat.version,
      lastSeen: now, isEdge: true)
    var events: [Event] = []
    if known == nil { events = enter(member) } else { edges[edge] = member }
    if known?.node == heartbeat.node { return events }
    // A new incarnation under a known name is the old one's end, unless the old one speaks again.
    guard let former = edgeOfNode[heartbeat.node], former != edge, edges[former] != nil else {
      edgeOfNode[heartbeat.node] = edge
      return events
    }
    if wasLost { return events + [.edgeNameShared(heartbeat.node)] }
    events.append(contentsOf: leave(former, .gone, now: now))
    edgeOfNode[heartbeat.node] = edge
    return events
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
