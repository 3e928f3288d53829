public import CallCore

/// Probes of silent nodes, before their timeout. A node is sent a message, and the server reports if its subject has no
/// subscriber. The server knows that as soon as the connection of a killed process closes, while silence alone must
/// last longer.
///
/// Calls stand still while a coordinator is missing, so it is probed between its heartbeats, too; a living one ignores
/// that. An edge is probed only when a heartbeat is late. While one member seems gone, all are probed.
///
/// This is still a guess. A restarting server, or a broken route between two servers, looks the same for a while. So it
/// takes several answers over some time, of which only those count that this node gets after it has been connected for
/// a while, and none if they would remove half of the cluster at once: then the network is at fault. A node that counts
/// as dead by mistake only loses its shards.
extension Membership {
  public struct Probing: Sendable, Equatable {
    /// The silence after which an edge is probed.
    public var edgeSilence: Span
    /// The silence after which a coordinator is probed.
    public var coordinatorSilence: Span
    /// The time between two probes of a member, while one member seems gone.
    public var interval: Span
    /// The same while none does.
    public var pause: Span
    /// How long the subject must have had no subscriber before the member counts as lost.
    public var span: Span
    /// The fewest answers that must show it.
    public var strikes: Int
    /// How long this node must have been connected for such an answer to count.
    public var connected: Span
    public init(
      edgeSilence: Span, coordinatorSilence: Span, interval: Span, pause: Span, span: Span,
      strikes: Int, connected: Span
    ) {
      self.edgeSilence = edgeSilence
      self.coordinatorSilence = coordinatorSilence
      self.interval = interval
      self.pause = pause
      self.span = span
      self.strikes = strikes
      self.connected = connected
    }
  }

  struct Suspect: Sendable {
    var probedAt: Timestamp
    /// When the first of the consecutive answers without a subscriber came.
    var since: Timestamp?
    var strikes = 0
  }

  public struct Probe: Sendable, Equatable {
    public var incarnation: UInt64
    public var isEdge: Bool
    /// When it is sent.
    public var at: Timestamp
    public init(incarnation: UInt64, isEdge: Bool, at: Timestamp) {
      self.incarnation = incarnation
      self.isEdge = isEdge
      self.at = at
    }
  }

  /// The members to probe now.
  public mutating func probes(now: Timestamp) -> [Probe] {
    guard let probing else { return [] }
    let isOneGone = seemGone > 0
    var due: [Probe] = []
    for member in living where nextProbe(of: member, probing, isOneGone) <= now {
      suspects[member.incarnation, default: Suspect(probedAt: now)].probedAt = now
      due.append(Probe(incarnation: member.incarnation, isEdge: member.isEdge, at: now))
    }
    return due.sorted { $0.incarnation < $1.incarnation }
  }

  /// When `probes` next returns a member.
  public var nextProbe: Timestamp {
    guard let probing else { return .distantFuture }
    let isOneGone = seemGone > 0
    return living.reduce(.distantFuture) { min($0, nextProbe(of: $1, probing, isOneGone)) }
  }

  private func nextProbe(of member: Member, _ probing: Probing, _ isOneGone: Bool) -> Timestamp {
    let probedAt = suspects[member.incarnation]?.probedAt
    // Half of the cluster may seem gone: that must show before the first member counts as lost.
    if isOneGone { return probedAt.map { $0 + probing.interval } ?? silentSince(member) }
    let silence = member.isEdge ? probing.edgeSilence : probing.coordinatorSilence
    let silent = silentSince(member) + silence
    return probedAt.map { max(silent, $0 + probing.pause) } ?? silent
  }

  /// A probe was answered.
  /// - Parameters:
  ///   - listens: false if the server reported no subscriber; true also if there was no answer.
  ///   - connectedSince: since when this node is connected; nil while it is not.
  public mutating func probed(
    _ probe: Probe, listens: Bool, connectedSince: Timestamp?, now: Timestamp
  ) -> [Event] {
    let incarnation = probe.incarnation
    guard let probing, var suspect = suspects[incarnation] else { return [] }
    // It listened before it died. A living node answers nothing, so that is known only when the probe has timed out.
    if listens, let since = suspect.since, probe.at < since { return [] }
    guard !listens, let connectedSince, connectedSince + probing.connected <= now else {
      suspect.since = nil
      suspect.strikes = 0
      suspects[incarnation] = suspect
      return []
    }
    suspect.since = suspect.since ?? now
    suspect.strikes += 1
    suspects[incarnation] = suspect
    guard isCondemned(suspect, now: now), !strikesHalf() else { return [] }
    return remove(living.filter { $0.incarnation == incarnation }, .unreachable, now: now)
  }

  private func isCondemned(_ suspect: Suspect, now: Timestamp) -> Bool {
    guard let probing, let since = suspect.since else { return false }
    return suspect.strikes >= probing.strikes && since + probing.span <= now
  }

  /// How many living members had no subscriber the last time.
  private var seemGone: Int { living.count { suspects[$0.incarnation]?.since != nil } }

  /// Whether at least half of the others seem gone at once, which rather shows a fault of the network. A single one may
  /// always be gone.
  private func strikesHalf() -> Bool {
    let gone = seemGone
    return gone > 1 && gone * 2 > living.count
  }
}
