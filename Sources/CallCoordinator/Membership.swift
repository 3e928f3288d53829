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
    public var lastHeard: Timestamp
    public var isEdge = false
    /// The highest format that it reads.
    public var reads = ClusterCodec.format
  }

  public enum Event: Sendable, Equatable {
    /// A coordinator came, went, or changed its state.
    case coordinatorsChanged
    case edgeJoined(UInt64)
    /// Its sessions are gone with it.
    case edgeLost(UInt64)
    /// It was counted lost, but it lives: its sessions must be announced again.
    case edgeReturned(UInt64)
    /// Two living edges have the same name. Harmless for calls, but an operator's mistake.
    case edgeNameShared(String)
  }

  /// Coordinators by node id; this node is not among them.
  public private(set) var coordinators: [String: Member] = [:]
  private var edges: [UInt64: Member] = [:]
  private var edgeOfNode: [String: UInt64] = [:]
  /// Edges that were counted lost, so that a return is noticed. Bounded: the oldest go.
  private var lost: [UInt64] = []
  private static let lostMax = 256

  public let timeout: Span
  /// How silence is looked into before the timeout; nil leaves it to the timeout.
  let probing: Probing?
  /// Silent members that are being looked into, by incarnation. `Membership+Probing` has the rest.
  var suspects: [UInt64: Suspect] = [:]
  /// Of coordinators that were counted lost, by name.
  private var lastWords: [String: (incarnation: UInt64, at: Timestamp)] = [:]
  private let began: Timestamp
  private var lastTick: Timestamp

  public init(timeout: Span, probing: Probing? = nil, now: Timestamp) {
    self.timeout = timeout
    self.probing = probing
    began = now
    lastTick = now
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
  public func isLiving(owner: String, incarnation: UInt64, now: Timestamp) -> Bool {
    if let member = coordinators[owner] { return member.incarnation == incarnation }
    return lastHeard(ofLost: owner, incarnation: incarnation) == nil && now < began + timeout
  }

  /// When a coordinator that was counted lost was last heard.
  public func lastHeard(ofLost owner: String, incarnation: UInt64) -> Timestamp? {
    guard let words = lastWords[owner], words.incarnation == incarnation else { return nil }
    return words.at
  }

  public mutating func heard(_ heartbeat: Heartbeat, now: Timestamp) -> [Event] {
    suspects[heartbeat.incarnation] = nil
    switch heartbeat.role {
    case .coordinator: return heardCoordinator(heartbeat, now: now)
    case .edge: return heardEdge(heartbeat, now: now)
    case .push: return []
    }
  }

  /// An edge sent something else than a heartbeat: it lives, and it will be missed when it does not
  /// go on to say so.
  public mutating func heardFromEdge(_ incarnation: UInt64, now: Timestamp) -> [Event] {
    suspects[incarnation] = nil
    guard edges[incarnation] == nil else {
      edges[incarnation]?.lastHeard = now
      return []
    }
    return enter(
      Member(
        node: "", incarnation: incarnation, state: .serving, version: "", lastHeard: now,
        isEdge: true))
  }

  /// Counts those lost that were silent for too long.
  public mutating func tick(now: Timestamp) -> [Event] {
    defer { lastTick = now }
    // After a pause of this very process the others were not silent, it was deaf.
    let pause = now - lastTick
    if pause.microseconds > timeout.microseconds / 2 {
      for node in Array(coordinators.keys) { coordinators[node]?.lastHeard = now }
      for edge in Array(edges.keys) { edges[edge]?.lastHeard = now }
      suspects.removeAll()
      return []
    }
    let timeout = timeout
    return remove { $0.lastHeard + timeout <= now }
  }

  /// Counts those lost of which `isLost` holds.
  mutating func remove(where isLost: (Member) -> Bool) -> [Event] {
    var events: [Event] = []
    // In one order everywhere: events must not hang on how a dictionary is laid out.
    for (node, member) in coordinators.sorted(by: { $0.key < $1.key }) where isLost(member) {
      coordinators[node] = nil
      suspects[member.incarnation] = nil
      lastWords[node] = (member.incarnation, member.lastHeard)
      events = [.coordinatorsChanged]
    }
    for (edge, member) in edges.sorted(by: { $0.key < $1.key }) where isLost(member) {
      suspects[edge] = nil
      events.append(contentsOf: leave(edge))
    }
    return events
  }

  private mutating func heardCoordinator(_ heartbeat: Heartbeat, now: Timestamp) -> [Event] {
    let former = coordinators[heartbeat.node]
    if heartbeat.state == .gone {
      guard former?.incarnation == heartbeat.incarnation else { return [] }
      coordinators[heartbeat.node] = nil
      return [.coordinatorsChanged]
    }
    coordinators[heartbeat.node] = Member(
      node: heartbeat.node, incarnation: heartbeat.incarnation, state: heartbeat.state,
      version: heartbeat.version, lastHeard: now, reads: heartbeat.reads)
    let same = former?.incarnation == heartbeat.incarnation && former?.state == heartbeat.state
    return same ? [] : [.coordinatorsChanged]
  }

  private mutating func heardEdge(_ heartbeat: Heartbeat, now: Timestamp) -> [Event] {
    let edge = heartbeat.incarnation
    if heartbeat.state == .gone { return leave(edge) }
    let known = edges[edge]
    let wasLost = lost.contains(edge)
    let member = Member(
      node: heartbeat.node, incarnation: edge, state: heartbeat.state, version: heartbeat.version,
      lastHeard: now, isEdge: true)
    var events: [Event] = []
    if known == nil { events = enter(member) } else { edges[edge] = member }
    if known?.node == heartbeat.node { return events }
    // A new incarnation under a known name is the old one's end, unless the old one speaks again.
    guard let former = edgeOfNode[heartbeat.node], former != edge, edges[former] != nil else {
      edgeOfNode[heartbeat.node] = edge
      return events
    }
    if wasLost { return events + [.edgeNameShared(heartbeat.node)] }
    events.append(contentsOf: leave(former))
    edgeOfNode[heartbeat.node] = edge
    return events
  }

  private mutating func enter(_ member: Member) -> [Event] {
    edges[member.incarnation] = member
    guard let index = lost.firstIndex(of: member.incarnation) else {
      return [.edgeJoined(member.incarnation)]
    }
    lost.remove(at: index)
    return [.edgeReturned(member.incarnation)]
  }

  private mutating func leave(_ edge: UInt64) -> [Event] {
    guard let member = edges.removeValue(forKey: edge) else { return [] }
    if edgeOfNode[member.node] == edge { edgeOfNode[member.node] = nil }
    suspects[edge] = nil
    lost.append(edge)
    if lost.count > Self.lostMax { lost.removeFirst() }
    return [.edgeLost(edge)]
  }
}
